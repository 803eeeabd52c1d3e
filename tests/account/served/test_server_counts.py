"""Metrics as the servers write them, and servers that are none."""

import pytest

from irene.account.served.server_counts import (
    ENGINES,
    Server,
    ServerCounts,
    counts_of,
)
from irene.errors import MeterError, UsageError
from irene.meters.wall.prometheus import samples_of

from .made_server import answering

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 3.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-8B"} 2.0
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 1.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="Qwen/Qwen3-8B"} 500.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="Qwen/Qwen3-8B"} 300.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 700.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{finished_reason="stop",model_name="Qwen/Qwen3-8B"} 8.0
vllm:request_success_total{finished_reason="length",model_name="Qwen/Qwen3-8B"} 2.0
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_sum{model_name="Qwen/Qwen3-8B"} 99.0
"""
SGLANG = """\
sglang:prompt_tokens_total{model_name="m",tp_rank="0"} 1200.0
sglang:prompt_tokens_total{model_name="m",tp_rank="1"} 1200.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 200.0
sglang:generation_tokens_total{model_name="m",tp_rank="0"} 700.0
sglang:num_requests_total{model_name="m"} 10.0
sglang:num_running_reqs{model_name="m",priority="",tp_rank="0"} 5.0
sglang:num_running_reqs{model_name="m",priority="3",tp_rank="0"} 5.0
sglang:num_queue_reqs{model_name="m"} 1.0
"""
TGI = """\
# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_bucket{le="1"} 0
tgi_request_generated_tokens_sum 700
tgi_request_generated_tokens_count 10
# TYPE tgi_request_input_length histogram
tgi_request_input_length_sum 1000
# TYPE tgi_request_success counter
tgi_request_success{kind="full"} 10
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 5
tgi_queue_size 1
"""
TRTLLM = """\
trtllm_prompt_tokens_total{engine_type="undefined",model_name="undefined"} 1300.0
trtllm_prompt_cached_tokens_total{engine_type="undefined",model_name="undefined"} 300
trtllm_generation_tokens_total{engine_type="undefined",model_name="undefined"} 700.0
trtllm_request_success_total{finished_reason="end_id",model_name="undefined"} 10.0
trtllm_num_requests_running{model_name="undefined"} 5.0
trtllm_num_requests_waiting{model_name="undefined"} 1.0
"""
LLAMA_CPP = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 1000
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 700
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 5
llamacpp:requests_deferred 1
"""
MODELS = {"data": [{"id": "listed"}]}


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        (VLLM, "/metrics",
         ServerCounts("vLLM", "Qwen/Qwen3-8B", 1200, 300, 700, 10, 5, 1)),
        (SGLANG, "/metrics", ServerCounts("SGLang", "m", 1000, 200, 700, 10, 5, 1)),
        (TGI, "/metrics", ServerCounts("TGI", "listed", 1000, None, 700, 10, 5, 1)),
        (TRTLLM, "/prometheus/metrics",
         ServerCounts("TensorRT-LLM", "listed", 1000, 300, 700, 10, 5, 1)),
        (LLAMA_CPP, "/metrics",
         ServerCounts("llama.cpp", "listed", 1000, None, 700, None, 5, 1)),
    ],
    ids=[engine.name for engine in ENGINES],
)  # fmt: skip
def test_every_engine_is_read(text, path, found):
    answers = {"/metrics": [], path: text, "/v1/models": MODELS}
    with answering(answers) as url:
        assert Server(url).read() == found
        assert Server(f"{url}{path}").read() == found


def test_names_are_known_however_they_are_written():
    escaped = VLLM.replace("vllm:", "ray_vllm_").replace("prefix_", "gpu_prefix_")
    counts = counts_of(samples_of(escaped.encode()))
    assert counts == counts_of(samples_of(VLLM.encode()))


def test_processes_that_share_requests_count_once_and_others_together():
    lines = [
        f'sglang:num_running_reqs{{model_name="m",dp_rank="{rank // 2}",'
        f'tp_rank="{rank}",pp_rank="0"}} {5 + rank // 2}\n'
        for rank in range(9, 13)
    ]
    counts = counts_of(samples_of("".join(lines).encode()))
    assert counts.running == 9 + 10 + 11


@pytest.mark.parametrize(
    "line",
    ["vllm:num_requests_running 0", "sglang:num_queue_reqs 0", "tgi_queue_size 0"],
)
def test_a_server_that_has_answered_nothing_has_counted_nothing(line):
    counts = counts_of(samples_of(f"{line}\n".encode()))
    found = (counts.prompt_tokens, counts.cached_tokens, counts.output_tokens)
    assert (*found, counts.requests) == (0, 0, 0, 0)


def test_ollama_tells_its_model_and_no_counts():
    with answering({"/api/ps": {"models": [{"name": "llama3.2:1b"}]}}) as url:
        assert Server(url).read() == ServerCounts("Ollama", "llama3.2:1b")
    with answering({"/api/ps": {"models": []}}) as url:
        assert Server(url).read() == ServerCounts("Ollama", "")


def test_a_server_that_meters_itself_is_a_meter():
    from irene.meters.finding import open_meters

    energy = {"total_energy_j": 1234.5, "query_time": 1.0}
    answers = {"/prometheus/metrics": TRTLLM, "/energy_metrics": energy}
    with answering(answers) as url:
        (meter,) = open_meters([Server(url).energy_meter()])
        assert meter.channels[0].covers == "gpu-board"
        assert list(meter.read()) == [1234.5]
        meter.close()
    with answering({"/metrics": VLLM, "/energy_metrics": {"error": "no"}}) as url:
        assert Server(url).energy_meter() is None


@pytest.mark.parametrize("text", ["", "[]", "go_threads 3\n", "\x00{{{", "<html>"])
def test_other_servers_are_told_from_engines(text):
    with (
        answering({"/metrics": text}) as url,
        pytest.raises(MeterError, match=r"no metrics of vLLM, .*llama\.cpp --metrics"),
    ):
        Server(url)


def test_what_is_not_there_is_told_in_one_sentence():
    with answering({}) as url:
        pass
    with pytest.raises(MeterError, match=r"nothing answers at 127\.0\.0\.1"):
        Server(url)
    for wrong in ("localhost:8000", "ftp://a/", "", "http://"):
        with pytest.raises(UsageError, match="is no address"):
            Server(wrong)
