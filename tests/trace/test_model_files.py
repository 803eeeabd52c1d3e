"""Models from the headers of their files: GGUF and safetensors made for the test."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irene
from irene.cli import main
from irene.errors import ConfigError
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.questions import QUESTIONS
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.model_files import read_model_file
from irene.trace.serving.families import FAMILIES
from irene.trace.sources import locate
from irene.tree import ModelTree

gguf = pytest.importorskip("gguf", reason="gguf is not installed: pip install gguf")

MODELS = {
    "llama-3.1-8b": "llama", "llama-3.2-1b": "llama", "qwen2.5-7b": "qwen2",
    "qwen3-8b": "qwen3", "qwen3-30b-a3b": "qwen3moe", "gemma-2-9b": "gemma2",
    "gpt2": "gpt2", "mixtral-8x7b": "llama", "gpt-oss-20b": "gpt-oss",
    "deepseek-v3": "deepseek2", "phi-3-mini": "phi3",
}  # fmt: skip
ADD = {
    "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length", "num_attention_heads": "head_count",
    "num_key_value_heads": "head_count_kv", "max_position_embeddings": "context_length",
    "head_dim": "key_length", "sliding_window": "sliding_window",
    "num_experts": "expert_count", "num_local_experts": "expert_count",
    "n_routed_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "n_shared_experts": "expert_shared_count", "q_lora_rank": "q_lora_rank",
    "first_k_dense_replace": "leading_dense_block_count",
    "kv_lora_rank": "kv_lora_rank", "qk_rope_head_dim": "rope_dimension_count",
}  # fmt: skip
"""Fields of configs, and the methods of gguf's own writer that write them."""


def field(config: Mapping[str, Any], name: str) -> Any:
    family = FAMILIES[config["model_type"]]
    return config.get(family.aliases.get(name, name), config.get(name))


def write_gguf(path: Path, arch: str, config: Mapping[str, Any], kind: str) -> Path:
    """A header as llama.cpp's converter writes it, without weights."""
    writer = gguf.GGUFWriter(path, arch)
    for name, method in ADD.items():
        value = field(config, name)
        if value is not None:
            if name == "intermediate_size" and arch == "gpt-oss":
                method = "expert_feed_forward_length"
            getattr(writer, f"add_{method}")(value)
    if config.get("kv_lora_rank"):
        heads = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
        writer.add_key_length_mla(heads)
        writer.add_value_length_mla(config["v_head_dim"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_token_list([f"token {i}" for i in range(2000)])
    hidden, vocab = field(config, "hidden_size"), config["vocab_size"]
    of = gguf.GGMLQuantizationType[kind]
    shapes = {"token_embd": (vocab, hidden), "blk.0.ffn_up": (4 * hidden, hidden)}
    tied = config.get("tie_word_embeddings", FAMILIES[config["model_type"]].tied)
    if not tied:
        shapes["output"] = (vocab, hidden)
    for name, shape in shapes.items():
        size = shape[0] * shape[1]
        info = (f"{name}.weight", shape, np.dtype(np.float16), 2 * size)
        writer.add_tensor_info(*info, raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    return path


def same(one: ModelTree, other: ModelTree) -> bool:
    """Whether all nodes are called the same and do the same."""
    documents = [tree.fold().to_dict()["tree"] for tree in (one, other)]
    return bool(documents[0] == documents[1])


def config_of(name: str) -> dict[str, Any]:
    entry = catalogue.find(name)
    assert entry is not None
    return dict(entry.config)


@pytest.mark.parametrize("name", MODELS)
def test_a_gguf_file_is_its_config(tmp_path: Path, name: str) -> None:
    config = config_of(name)
    path = write_gguf(tmp_path / "m.gguf", MODELS[name], config, "F16")
    run = RunSpec(phase="decode", batch_size=4, context_len=512, quantization="bf16")
    machine = find_machine("h100")
    found = [predict_run(run.of(str(m)), machine) for m in (path, name)]
    assert same(*found)


def write_parts(path: Path, **options: Any) -> list[Path]:
    """A model with an output layer of its own, in as many files as options say."""
    writer = gguf.GGUFWriter(path, "llama", **options)
    sizes = {"embedding_length": 64, "block_count": 2, "feed_forward_length": 128}
    for name, value in {**sizes, "head_count": 4, "context_length": 64}.items():
        getattr(writer, f"add_{name}")(value)
    for name in ("token_embd", "blk.0.ffn_up", "blk.1.ffn_up", "output"):
        kind = gguf.GGMLQuantizationType.Q8_0
        block = gguf.quantize(np.ones((96, 64), dtype=np.float32), kind)
        writer.add_tensor(f"{name}.weight", block, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(path.parent.glob(f"{path.stem}*"))


@pytest.mark.parametrize("small_first_shard", [False, True])
def test_parts_of_a_gguf_file_are_the_whole(
    tmp_path: Path, small_first_shard: bool
) -> None:
    (whole,) = write_parts(tmp_path / "whole.gguf")
    options = {"split_max_tensors": 1, "small_first_shard": small_first_shard}
    parts = write_parts(tmp_path / "parts.gguf", **options)
    assert len(parts) == 4 + small_first_shard
    config = read_model_file(whole)
    assert config["tie_word_embeddings"] is False
    assert all(read_model_file(part) == config for part in parts)


def test_what_a_part_alone_does_not_say_is_left_open(tmp_path: Path) -> None:
    first, second, *others = write_parts(tmp_path / "m.gguf", split_max_tensors=1)
    for part in others:
        part.unlink()
    assert "tie_word_embeddings" not in read_model_file(first)
    first.unlink()
    with pytest.raises(ConfigError, match="put the first one"):
        read_model_file(second)


@pytest.mark.parametrize("value", [-1, "x", [1, 2], [], True, None])
def test_sizes_that_are_none_are_told(tmp_path: Path, value: Any) -> None:
    from irene.trace.gguf_header import Header, header_of

    model_files = import_module("irene.trace.model_files")
    config = config_of("deepseek-v3")
    header = header_of(write_gguf(tmp_path / "m.gguf", "deepseek2", config, "F16"))
    sizes = {*model_files.FIELDS, *model_files.HEAD_SIZES, "attention.kv_lora_rank"}
    for key in header.values:
        damaged = Header({**header.values, key: value}, header.tensors)
        if key.removeprefix("deepseek2.") in sizes:
            with pytest.raises(ConfigError, match=r"m\.gguf.*(no size|layers differ)"):
                model_files._config_of(damaged, tmp_path / "m.gguf")
    for key in ("rope.dimension_count", "attention.head_count"):
        left = {k: v for k, v in header.values.items() if not k.endswith(key)}
        with pytest.raises(ConfigError, match="sizes its heads have"):
            model_files._config_of(Header(left, header.tensors), tmp_path / "m.gguf")


def test_a_gguf_file_is_traced_as_its_config(tmp_path: Path) -> None:
    config = config_of("gpt2") | {"n_layer": 1, "n_inner": 3072}
    path = write_gguf(tmp_path / "m.gguf", "gpt2", config, "F16")
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"architectures": ["GPT2LMHeadModel"]})
    )
    machine = find_machine("pc1")
    run = RunSpec(seq_len=8)
    sources = (path, tmp_path / "config.json")
    assert same(*[predict_run(run.of(str(m)), machine) for m in sources])


@pytest.mark.parametrize(
    ("stored", "near"), [("Q4_K", "q4_K_S"), ("Q8_0", "q8_0"), ("MXFP4", "mxfp4")]
)
def test_how_weights_are_stored(tmp_path: Path, stored: str, near: str) -> None:
    config = config_of("llama-3.2-1b")
    path = write_gguf(tmp_path / "m.gguf", "llama", config, stored)
    assert read_model_file(path)["quantization_config"]["quant_type"] == stored
    run = RunSpec(str(path), phase="decode")
    tree = predict_run(run, find_machine("h100"))
    assert any(stored in note for note in tree.notes)
    told = predict_run(run.changed(quantization=near), find_machine("h100"))
    assert tree.total().bytes == told.total().bytes


def test_large_files_are_within_the_limits(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "llama", config_of("llama-3-70b"), "Q4_K")
    tree = irene.predict(path, on="h100", phase="decode", context_len=2048)
    plain = irene.predict("llama-3-70b", on="h100", phase="decode", context_len=2048)
    assert tree.total().bytes < 0.4 * plain.total().bytes


@pytest.mark.parametrize("cut", [3, 10, 30, 200, 3000])
def test_a_file_that_is_cut_short(tmp_path: Path, cut: int) -> None:
    whole = write_gguf(tmp_path / "a.gguf", "llama", config_of("llama-3.2-1b"), "F16")
    part = tmp_path / "b.gguf"
    part.write_bytes(whole.read_bytes()[:cut])
    with pytest.raises(ConfigError, match=r"cut short|is not a GGUF"):
        read_model_file(part)


def test_a_length_that_no_file_has(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "a.gguf", "llama", config_of("llama-3.2-1b"), "F16")
    text, length = b"token 7", struct.pack("<Q", 7)
    damaged = whole.read_bytes().replace(
        length + text, struct.pack("<Q", 1 << 63) + text
    )
    (tmp_path / "b.gguf").write_bytes(damaged)
    with pytest.raises(ConfigError, match="damaged within its header"):
        read_model_file(tmp_path / "b.gguf")


def test_a_gguf_file_is_meant_as_llama_cpp_serves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "m.gguf", "llama", config_of("llama-3.2-1b"), "Q4_K")
    tree, spec = irene.predict(path), irene.predict(path).spec
    assert spec is not None
    assert _where(path) == ("rtx4090", "generate")
    assert (spec.batch_size, spec.prompt_len, spec.output_len) == (1, 128, 128)
    assert {"phase", "batch_size", "prompt_len"} <= set(spec.chosen)
    assert any("llama.cpp, which runs GGUF files, was mea" in n for n in tree.notes)
    assert main(["predict", str(path), "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    other = QUESTIONS["energy"].asked({"model": str(path)})
    assert other.document(other.answer()) == asked
    assert asked["energy_j"] == tree.to_dict()["energy_j"]
    given = irene.predict(path, on="rtx4090", phase="generate", batch_size=1)
    assert given.energy_of(0) == tree.energy_of(0)
    monkeypatch.setenv("IRENE_HARDWARE", "pc1")
    assert _where(path) == ("pc1", "forward")


@pytest.mark.parametrize(
    ("run", "where"),
    [
        ({"phase": "forward"}, ("pc1", "forward")),
        ({"dtype": "fp32"}, ("pc1", "forward")),
        ({"on": "pc1"}, ("pc1", "forward")),
        ({"device": "cpu"}, ("pc1", "forward")),
        ({"phase": "decode"}, ("rtx4090", "decode")),
        ({"on": "h100"}, ("h100", "generate")),
        ({"on": "h100", "attention": "eager"}, ("h100", "forward")),
    ],
)
def test_what_somebody_says_of_a_gguf_file_counts(
    tmp_path: Path, run: dict[str, Any], where: tuple[str, str]
) -> None:
    config = config_of("gpt2") | {"n_layer": 1, "n_inner": 3072}
    path = write_gguf(tmp_path / "m.gguf", "gpt2", config, "F16")
    assert _where(path, seq_len=8, **run) == where


def test_an_encoder_in_a_gguf_file_is_traced(tmp_path: Path) -> None:
    config = config_of("bert-l2-h128")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "bert")
    for name, method in list(ADD.items())[:4]:
        getattr(writer, f"add_{method}")(config[name])
    info = ("token_embd.weight", (config["vocab_size"], 128), np.dtype("f2"), 2)
    writer.add_tensor_info(*info, raw_dtype=gguf.GGMLQuantizationType.F16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    assert _where(tmp_path / "m.gguf", seq_len=8) == ("pc1", "forward")


def _where(path: Path, **run: Any) -> tuple[str, str]:
    tree = irene.predict(path, **run)
    assert tree.spec is not None
    assert tree.hardware is not None
    return tree.hardware.name, tree.spec.phase


def test_an_architecture_that_nobody_knows(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "mamba", config_of("llama-3.2-1b"), "F16")
    with pytest.raises(ConfigError, match=r"'mamba'.*config\.json"):
        read_model_file(path)


# safetensors ------------------------------------------------------------------


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, list[int]]]) -> Path:
    header = {
        name: {"dtype": kind, "shape": shape, "data_offsets": [0, 0]}
        for name, (kind, shape) in tensors.items()
    }
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    return path


def test_safetensors_with_their_config(tmp_path: Path) -> None:
    config = config_of("llama-3.2-1b")
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape = [config["vocab_size"], config["hidden_size"]]
    tensors = {
        "model.embed_tokens.weight": ("BF16", shape),
        "q.weight": ("BF16", shape),
    }
    file = write_safetensors(tmp_path / "model.safetensors", tensors)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"q.weight": file.name}}))
    for path in (file, index):
        assert locate(path).read(DEFAULT_LIMITS) == config
    write_safetensors(file, tensors | {"q.weight": ("F8_E4M3", shape)})
    assert read_model_file(index)["quantization_config"] == {"quant_method": "fp8"}


@pytest.mark.parametrize(
    ("config", "tensors", "told"),
    [
        (None, {}, r"no config\.json beside"),
        ({"vocab_size": 3, "hidden_size": 4}, {"embed_tokens.weight": ("F32", [9, 4])},
         "is not the config"),
        ({"model_type": "llama"}, {"q": ("I32", [8, 8])}, "packed weights"),
    ],
)  # fmt: skip
def test_safetensors_that_say_too_little(
    tmp_path: Path, config: Any, tensors: Any, told: str
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    path = write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.raises(ConfigError, match=told):
        read_model_file(path)


def test_safetensors_that_are_cut_short(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", {"q": ("F32", [2, 2])})
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ConfigError, match="damaged: it ends too early"):
        read_model_file(path)
