"""What inference servers count, read from their metrics: one table for all engines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from irene.errors import MeterError
from irene.meters.wall.http_json import fetched, taken_apart
from irene.meters.wall.prometheus import Sample, samples_of

METRICS = ("/metrics", "/prometheus/metrics")
"""Where metrics are; TensorRT-LLM has them at the second, and JSON at the first."""
RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels of processes that all count the same: the first of those that differ in
nothing else counts."""
RANK_DIGITS = 9
OLLAMA = "Ollama"
NO_NAMES = (
    "metrics may have to be switched on (llama.cpp --metrics, SGLang --enable-metrics, "
    "TensorRT-LLM return_perf_metrics), and those of TGI begin with the first request"
)


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine calls what it counts.

    A name may have `_total` after it, an underscore where a colon is (as it is scraped
    by some), and `ray_` before it. Of the names of cached tokens the first that is
    there counts; `whole_prompts` count these, too. "" is not counted. `source` is where
    names are told.
    """

    name: str
    prompt: str
    cached: tuple[str, ...]
    output: str
    requests: str
    running: str
    waiting: str
    whole_prompts: bool
    source: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """All names that an engine may be known by."""
        names = (self.prompt, *self.cached, self.output, self.running, self.waiting)
        return (*names, *filter(None, [self.requests]))


ENGINES = (
    Engine(
        "vLLM", "vllm:prompt_tokens",
        ("vllm:prompt_tokens_cached", "vllm:prefix_cache_hits",
         "vllm:gpu_prefix_cache_hits"),
        "vllm:generation_tokens", "vllm:request_success", "vllm:num_requests_running",
        "vllm:num_requests_waiting", whole_prompts=True,
        source="https://docs.vllm.ai/en/stable/usage/metrics/",
    ),
    Engine(
        "SGLang", "sglang:prompt_tokens", ("sglang:cached_tokens",),
        "sglang:generation_tokens", "sglang:num_requests", "sglang:num_running_reqs",
        "sglang:num_queue_reqs", whole_prompts=True,
        source="https://docs.sglang.io/references/production_metrics.html",
    ),
    Engine(
        "TGI", "tgi_request_input_length_sum", (),
        "tgi_request_generated_tokens_sum", "tgi_request_success",
        "tgi_batch_current_size", "tgi_queue_size", whole_prompts=True,
        source="https://huggingface.co/docs/text-generation-inference/reference/metrics",
    ),
    Engine(
        "TensorRT-LLM", "trtllm_prompt_tokens",
        ("trtllm_prompt_cached_tokens",), "trtllm_generation_tokens",
        "trtllm_request_success", "trtllm_num_requests_running",
        "trtllm_num_requests_waiting", whole_prompts=True,
        source="NVIDIA/TensorRT-LLM, tensorrt_llm/metrics/collector.py",
    ),
    Engine(
        "llama.cpp", "llamacpp:prompt_tokens",
        ("llamacpp:prompt_tokens_cached",), "llamacpp:tokens_predicted", "",
        "llamacpp:requests_processing", "llamacpp:requests_deferred",
        whole_prompts=False,
        source="ggml-org/llama.cpp, tools/server/README.md: GET /metrics",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What a server has counted, prompts without cached ones; None: not counted."""

    engine: str
    model: str
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    output_tokens: float | None = None
    requests: float | None = None
    running: float | None = None
    waiting: float | None = None

    def filled(self, told: ServerCounts) -> ServerCounts:
        """With what is told of single requests where the server does not count."""
        if self.output_tokens is None:
            return replace(told, engine=self.engine, model=self.model)
        return replace(self, requests=told.requests) if self.requests is None else self


def counts_of(samples: Iterable[Sample]) -> ServerCounts | None:
    """What samples of metrics say; None if they are of no engine that is known."""
    first: dict[tuple[str, frozenset[tuple[str, str]]], tuple[list[str], float]] = {}
    models: dict[str, None] = {}
    for name, labels, value in samples:
        if labels.get("priority"):
            continue
        model = labels.get("model_name", "")
        if model not in ("", "undefined"):
            models[model] = None
        ranks = [labels.get(rank, "").zfill(RANK_DIGITS) for rank in RANKS]
        others = frozenset(pair for pair in labels.items() if pair[0] not in RANKS)
        key = (_key(name), others)
        first[key] = min(first.get(key, (ranks, value)), (ranks, value))
    sums: dict[str, float] = {}
    for (name, _), (_, value) in first.items():
        sums[name] = sums.get(name, 0.0) + value
    for engine in ENGINES:
        if any(_key(name) in sums for name in engine.metrics):
            return _counted(engine, sums, next(iter(models), ""))
    return None


def _key(name: str) -> str:
    """The name of a metric, however it is written."""
    return name.removeprefix("ray_").removesuffix("_total").replace(":", "_")


def _counted(engine: Engine, sums: Mapping[str, float], model: str) -> ServerCounts:
    """What an engine counts; many begin to show a counter with what it counts first."""

    def counted(*names: str) -> float | None:
        found = (sums[_key(name)] for name in names if _key(name) in sums)
        return next(found, None if _key(engine.output) in sums else 0.0)

    cached = counted(*engine.cached)
    prompt = counted(engine.prompt)
    if prompt is not None and engine.whole_prompts:
        prompt = max(0.0, prompt - (cached or 0.0))
    return ServerCounts(
        engine.name, model, prompt, cached, counted(engine.output),
        counted(engine.requests) if engine.requests else None,
        sums.get(_key(engine.running)), sums.get(_key(engine.waiting)),
    )  # fmt: skip


class Server:
    """An inference server at its own address, or that of its metrics.

    Raises:
        UsageError: It is no address.
        MeterError: Nothing answers there, or it has no metrics of a known engine.
    """

    def __init__(self, url: str) -> None:
        path = taken_apart(url).path.rstrip("/")
        self._base = url.rstrip("/").removesuffix(path)
        self._paths = (path,) if path.endswith("/metrics") else METRICS
        self._model = ""
        self.read()
        self._model = self._served_model()

    def read(self) -> ServerCounts:
        """What the server has counted so far.

        Raises:
            MeterError: It does not answer, or with nothing that is known.
        """
        problem = MeterError("")
        for path in self._paths:
            try:
                found = counts_of(samples_of(fetched(self._base + path)))
            except MeterError as error:
                problem = error
                continue
            if found is not None:
                self._paths = (path,)
                return replace(found, model=found.model or self._model)
        loaded = self._of_ollama()
        if loaded is not None:
            return loaded
        if problem.detail.startswith("nothing answers"):
            raise problem
        names = ", ".join(engine.name for engine in ENGINES)
        raise MeterError(
            f"{self._base} has no metrics of {names}, and is no {OLLAMA}", NO_NAMES
        ) from problem

    def energy_meter(self) -> str | None:
        """The address of a meter that the server itself is, if it is one."""
        address = f"{self._base}/energy_metrics"
        found = self._json(address)
        if not isinstance(found, dict) or "total_energy_j" not in found:
            return None
        return f"{address}#path=total_energy_j&unit=J&covers=gpu-board&device=cuda:0"

    def _of_ollama(self) -> ServerCounts | None:
        """Ollama tells which models are loaded, and counts nothing."""
        found = self._json(f"{self._base}/api/ps")
        if not isinstance(found, dict) or not isinstance(found.get("models"), list):
            return None
        loaded = [each for each in found["models"] if isinstance(each, dict)]
        return ServerCounts(OLLAMA, str(loaded[0].get("name", "")) if loaded else "")

    def _served_model(self) -> str:
        """The first model that the API of OpenAI lists."""
        found = self._json(f"{self._base}/v1/models")
        listed = found.get("data") if isinstance(found, dict) else None
        first = listed[0] if isinstance(listed, list) and listed else {}
        return str(first.get("id", "")) if isinstance(first, dict) else ""

    def _json(self, address: str) -> Any:
        try:
            return json.loads(fetched(address))
        except (MeterError, ValueError):
            return None
