"""A real server of llama.cpp, with a tiny model made here."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from irene.account.served.proxy import counts_in, proxied
from irene.account.served.requests import Requests
from irene.account.served.server_counts import Server
from irene.account.served.token_energy import Interval
from irene.errors import UsageError

gguf = pytest.importorskip("gguf", reason="gguf is not installed")
xllamacpp = pytest.importorskip(
    "xllamacpp", reason="llama.cpp's server is not installed: pip install xllamacpp"
)

WIDTH, LAYERS, HEADS = 64, 2, 4


def write_tiny(path: Path) -> Path:
    """A Llama of two layers whose tokens are bytes."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3] + [6] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    random = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        values = random.normal(0, 0.05, shape).astype(np.float32)
        writer.add_tensor(name, np.ones_like(values) if len(shape) == 1 else values)

    add("token_embd.weight", len(tokens), WIDTH)
    for layer in range(LAYERS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}.weight", WIDTH, WIDTH)
        for part in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{part}.weight", 2 * WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, 2 * WIDTH)
        for part in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{part}.weight", WIDTH)
    add("output_norm.weight", WIDTH)
    add("output.weight", len(tokens), WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    params = xllamacpp.CommonParams()
    params.model.path = str(write_tiny(tmp_path_factory.mktemp("m") / "tiny.gguf"))
    params.port, params.n_parallel, params.n_ctx = 0, 2, 512
    params.endpoint_metrics = True
    params.warmup = False
    server = xllamacpp.Server(params)
    yield server.listening_address
    del server


def complete(url: str, prompt: str, tokens: int) -> dict:
    body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "seed": 1}
    body["temperature"] = 0
    request = Request(f"{url}/completion", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    return json.load(urlopen(request, timeout=240))


def test_tokens_of_a_real_server_are_counted(url):
    server = Server(url)
    before = server.read()
    assert before.engine == "llama.cpp"
    answers = [complete(url, "energy " * n, 8 * n) for n in (1, 3)]
    after = server.read()
    found = Interval.between(before, after, 1.0, 10.0)
    assert found.output_tokens == sum(a["tokens_predicted"] for a in answers) == 32
    assert found.prompt_tokens == sum(a["timings"]["prompt_n"] for a in answers)
    assert found.j_per_output_token == pytest.approx(10.0 / 32)
    assert after.running == 0


def test_what_goes_through_the_door_is_told(url):
    """A document and a stream, as the server itself counts them."""
    before = Server(url).read()
    with proxied(url, 0) as (proxy, port):
        door = f"http://127.0.0.1:{port}"
        direct, passed = (complete(u, "energy is", 6) for u in (url, door))
        assert passed["content"] == direct["content"]
        assert json.load(urlopen(f"{door}/v1/models"))["data"]
        body = {"prompt": "and power", "max_tokens": 5, "stream": True}
        body |= {"ignore_eos": True, "temperature": 0}
        request = Request(f"{door}/v1/completions", json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        assert urlopen(request, timeout=240).read().count(b"data:") > 2
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{door}/nothing")
        found = proxy.read()
        assert proxy.problems() == []
    after = Server(url).read()
    assert [each.output_tokens for each in found] == [6, 5]
    assert sum(each.output_tokens for each in found) + 6 == (
        after.output_tokens - before.output_tokens
    )
    for each in found:
        assert each.begin_s <= each.first_s <= each.end_s
        assert each.begin_s < each.end_s


def test_a_door_before_nothing_says_so():
    with proxied("http://127.0.0.1:1", 0) as (proxy, port):
        with pytest.raises(HTTPError, match="502"):
            complete(f"http://127.0.0.1:{port}", "a", 1)
        assert proxy.read() == []
        with (
            pytest.raises(UsageError, match=f"port {port} cannot be used"),
            proxied("http://127.0.0.1:1", port),
        ):
            pass


def test_an_answer_without_counts_is_told():
    answer = b'data: {"choices": []}\n\ndata: [DONE]\n\n'
    requests = Requests()
    requests.tell(counts_in(answer), 2.0, "an answer")
    assert requests.read() == []
    assert "an answer tells no tokens: it cannot be read" in requests.problems()[0]
