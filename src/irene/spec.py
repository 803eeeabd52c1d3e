"""RunSpec: everything that decides what is run, and the hash that names its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, Protocol, TypedDict, TypeVar

from irene.errors import FormatError, SpecError, UsageError
from irene.hardware import Hardware
from irene.parameters import OPEN, Asked, check_name, parameters_of

DType = Literal["fp32", "fp16", "bf16"]
Attention = Literal["eager", "sdpa"]
Phase = Literal["forward", "prefill", "decode", "train", "generate"]
Quantization = Literal[
    "bf16", "fp8", "fp8_block", "fp4", "mxfp4", "int4", "q2_K", "q3_K_S", "q3_K_M",
    "q3_K_L", "q4_0", "q4_1", "q4_K_S", "q4_K_M", "q5_0", "q5_1", "q5_K_S", "q5_K_M",
    "q6_K", "q8_0",
]  # fmt: skip
"""Types of serving engines, then quantisations of GGUF files."""
CacheDType = Literal["bf16", "fp8"]
Workload = Literal["chat", "reasoning", "completion"]
At = Literal["board", "wall"]
Engine = Literal["vllm", "vllm-2024", "llama.cpp", "unknown"]
SERVING_PHASES = ("prefill", "decode", "generate")
"""Phases of a language model that a serving engine knows."""
USUAL_OUTPUT = 128
LARGEST = 100_000_000
SERVING = "serving, on h100, h200, b200, …"
THE_RUN = "the run"


def _size(*flags: str, least: int = 1, usual: int | None = None, **rest: Any) -> Asked:
    return Asked(
        flags, least=least, most=LARGEST, usual=usual, metavar="N",
        **{"group": THE_RUN, **rest},
    )  # fmt: skip


class Runs(Protocol):
    """What a run has to know of a machine."""

    @property
    def hardware(self) -> Hardware:
        """The machine."""

    @property
    def usual_dtype(self) -> DType:
        """Type that is run unless somebody says otherwise."""

    @property
    def usual_attention(self) -> Attention:
        """Attention that is run unless somebody says otherwise."""

    @property
    def streams(self) -> tuple[int, int]:
        """Least and most streams of the servings that it was measured with."""

    @property
    def serves(self) -> bool:
        """Whether servings of language models can be predicted for it."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of one model at one size.

    What nobody gives is left open: it has its usual value, its name is in `chosen`, and
    `resolved` may choose another for a machine. What was given is never replaced.

    Attributes:
        model: Catalogue name, Hugging Face id, path of a config.json, or the class
            name of an nn.Module; "" for a run of any model.
        batch_size: Sequences (or images, or clips) per run.
        seq_len: Tokens per sequence that the model reads.
        decoder_len: Tokens of the decoder of an encoder-decoder model; by default
            as many as `seq_len`.
        context_len: Tokens already in the KV cache before the run: by default none,
            but `seq_len` in `decode`. In `generate` the mean over the decode steps, by
            default from `prompt_len` and `output_len`.
        dtype: Floating-point type of weights and activations; by default fp32, on
            data-centre GPUs bf16.
        attention: Attention implementation; by default eager, on data-centre GPUs sdpa
            where the model has it.
        phase: `forward` (no cache), `prefill` (fills a KV cache), `decode` (one new
            token per sequence against a cache), `train` (forward and backward),
            `generate` (every one of `batch_size` streams is given a prompt and answers
            it, prompts of new streams being read beside the decoding of others). By
            default forward, generate where there is a `prompt_len` or `output_len`.
        config_digest: First 16 hex digits of the SHA-256 of the model's config, so
            that two configs under one name do not share a hash.
        prompt_len: Tokens of a prompt, for `generate`; by default `seq_len`, which
            then says the same.
        output_len: Tokens of an answer on average, for `generate`; by default 128.
        quantization: How the weights of linear layers are stored and multiplied; by
            default as the model is published, `dtype` for most.
        cache_dtype: How the KV cache is stored; by default as `dtype`.
        tensor_parallel: GPUs that share every layer.
        expert_parallel: GPUs over which whole experts are spread, where they are not
            shared like other layers; all other layers are shared by as many at least.
        data_parallel: Groups of GPUs that each have streams of their own and all layers
            but experts, which all groups share.
        engine: Serving engine: vLLM of today, vLLM of 2024, llama.cpp (as Ollama runs
            it), or unknown, whose interval holds them all; by default the one that the
            machine's servings were measured with, which its notes name.
        cached_prompt: Share of a prompt that a prefix cache answers, 0 to 1.
        workload: How answers differ in length: in chat running streams have generated
            0.97 of the mean answer so far, in reasoning 0.73, in completion 1.64; by
            default 0.95. A `context_len` says it directly.
        power_limit_w: Power limit of each board, W; by default its datasheet's.
        at: What energy is meant: of GPU boards, or at the wall with host, fans and
            supply. By default the wall on desktops, boards on other GPUs.
        model_class: Class of transformers to build instead of the usual one.
        chosen: Names of the fields that nobody gave and that have a value all the same.
    """

    model: Annotated[str, Asked(metavar="MODEL", examples=("bert-base-uncased",))] = ""
    batch_size: Annotated[int, _size("-b", "--batch", usual=8)] = OPEN
    seq_len: Annotated[int, _size("-s", "--seq", usual=128)] = OPEN
    decoder_len: Annotated[int | None, _size("--decoder-seq")] = None
    context_len: Annotated[int | None, _size("--context", least=0)] = None
    dtype: Annotated[DType, Asked(usual="fp32", group=THE_RUN)] = OPEN
    attention: Annotated[Attention, Asked(usual="eager", group=THE_RUN)] = OPEN
    phase: Annotated[Phase, Asked(usual="forward", group=THE_RUN)] = OPEN
    config_digest: str | None = field(default=None, metadata={"asked": False})
    prompt_len: Annotated[int | None, _size("--prompt", group=SERVING)] = None
    output_len: Annotated[int | None, _size("--output", group=SERVING)] = None
    quantization: Annotated[Quantization | None, Asked(group=SERVING)] = None
    cache_dtype: Annotated[CacheDType | None, Asked(group=SERVING)] = None
    tensor_parallel: Annotated[int, _size(usual=1, group=SERVING)] = OPEN
    expert_parallel: Annotated[int, _size(usual=1, group=SERVING)] = OPEN
    data_parallel: Annotated[int, _size(usual=1, group=SERVING)] = OPEN
    engine: Annotated[Engine | None, Asked(group=SERVING)] = None
    cached_prompt: Annotated[
        float | None, Asked(least=0, most=1, metavar="SHARE", group=SERVING)
    ] = None
    workload: Annotated[Workload | None, Asked(group=SERVING)] = None
    power_limit_w: Annotated[
        float | None,
        Asked(("--power-limit",), least=1, most=1e5, metavar="W", group=SERVING),
    ] = None
    at: Annotated[At | None, Asked(group=SERVING)] = None
    model_class: Annotated[
        str | None,
        Asked(
            metavar="NAME",
            group=THE_RUN,
            pattern="[A-Za-z][A-Za-z0-9_]{0,99}",
            examples=("BertForSequenceClassification",),
        ),
    ] = None
    chosen: tuple[str, ...] = field(
        default=(), compare=False, metadata={"asked": False}
    )

    def __post_init__(self) -> None:
        """Choose what was left open, check every field, fill in what follows."""
        chosen = set(self.chosen)
        phase: Phase | None = self.phase
        if phase is None and (self.prompt_len or self.output_len):
            self._choose(chosen, "phase", "generate")
        table = parameters_of(RunSpec)
        for each in table:
            value = getattr(self, each.name)
            if value is not None:
                each.check(value, table)
            elif each.asked.usual is not None:
                self._choose(chosen, each.name, each.asked.usual)
        self._fill_in_context(chosen)
        self._fill_in_lengths(chosen)
        object.__setattr__(self, "chosen", tuple(sorted(chosen)))

    def _choose(self, chosen: set[str], name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        chosen.add(name)

    def _fill_in_context(self, chosen: set[str]) -> None:
        if self.phase == "decode" and self.context_len is None:
            self._choose(chosen, "context_len", self.seq_len)
        if self.context_len is not None and self.phase not in SERVING_PHASES:
            raise SpecError(
                f"context_len={self.context_len} needs a KV cache: "
                "use phase 'prefill', 'decode' or 'generate'"
            )

    def _fill_in_lengths(self, chosen: set[str]) -> None:
        """The lengths of a generation; elsewhere there are none."""
        if self.phase != "generate":
            for name in ("prompt_len", "output_len", "cached_prompt", "workload"):
                if getattr(self, name) is not None:
                    raise SpecError(f"{name} is for phase 'generate'")
            return
        if self.cached_prompt is not None and self.cached_prompt >= 1:
            raise SpecError("cached_prompt is a share below 1: an answer needs a token")
        if self.prompt_len is None:
            self._choose(chosen, "prompt_len", self.seq_len)
        object.__setattr__(self, "seq_len", self.prompt_len)
        if self.output_len is None:
            self._choose(chosen, "output_len", USUAL_OUTPUT)

    @classmethod
    def asked(cls, model: str, options: Mapping[str, Any]) -> RunSpec:
        """The run that keyword arguments describe.

        Raises:
            UsageError: A name is unknown; the message has the right one.
            SpecError: A value is impossible.
        """
        known = [each for each in parameters_of(cls) if each.name != "model"]
        for name in options:
            check_name(name, known, ("on", "inputs", "device", "limits", "step_ms"))
        return cls(model, **options)

    def given(self, name: str) -> bool:
        """Whether somebody gave a value to a field."""
        return name not in self.chosen and getattr(self, name) is not None

    def changed(self, **values: Any) -> RunSpec:
        """With other values, which then count as given; None leaves a field open.

        What followed from others is found anew.
        """
        fresh = dict.fromkeys({*self.chosen, *values})
        return replace(self, **{**fresh, **values, "chosen": ()})

    def of(self, model: str) -> RunSpec:
        """The same run of a model."""
        return self if model == self.model else replace(self, model=model)

    def chosen_as(self, **values: Any) -> RunSpec:
        """With values that nobody gave: a machine, an engine or a model chose them."""
        return replace(self, **values, chosen=(*self.chosen, *values))

    def resolved(self, machine: Runs) -> RunSpec:
        """The run as a machine runs it: what was left open is chosen for it.

        Raises:
            UsageError: The machine serves no language models, and a serving is asked.
        """
        if not machine.serves:
            self._check_place(machine.hardware)
            self.refuse_serving(machine.hardware.name)
        usual = {
            "dtype": machine.usual_dtype,
            "attention": machine.usual_attention,
            "batch_size": self.batch_size,
        }
        if self.phase == "generate":
            least, most = machine.streams
            usual["batch_size"] = min(max(self.batch_size, least), most)
        return self.chosen_as(**{k: v for k, v in usual.items() if k in self.chosen})

    def _check_place(self, hardware: Hardware) -> None:
        """Refuse boards and limits where there is no GPU that is known as such."""
        if self.power_limit_w is not None:
            raise UsageError(f"power_limit_w is for GPUs, not for {hardware.name}")
        if self.at not in (None, hardware.covers):
            raise UsageError(
                f"at={self.at} is for GPUs: {hardware.name} was measured at its "
                f"{hardware.covers}"
            )

    def refuse_serving(self, name: str) -> None:
        """Refuse what only servings of language models have."""
        where = f"data-centre GPUs (--on h100, h200, b200, …), not for {name}"
        served = f"is for the serving of language models on {where}"
        for asked in SERVING_FIELDS:
            if self.given(asked) and getattr(self, asked) != 1:
                raise UsageError(f"{asked} {served}")
        if self.phase == "generate":
            raise UsageError(
                f"phase generate is for {where}: ask for phase forward, or prefill or "
                "decode of a decoder"
            )

    @property
    def digest(self) -> str:
        """16 hex digits that name this run's result everywhere."""
        values = {k: v for k, v in self.to_dict().items() if k != "chosen"}
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def gpus(self) -> int:
        """GPUs that run it together."""
        return max(self.tensor_parallel * self.data_parallel, self.expert_parallel)

    @property
    def tokens(self) -> int:
        """Tokens that one run is asked for.

        Batch size times the tokens that are read; in `decode` and `generate`, times
        those that are written.
        """
        if self.phase == "generate":
            return self.batch_size * (self.output_len or 1)
        return self.batch_size * (1 if self.phase == "decode" else self.seq_len)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values; later ones only where they say something."""
        fields = ((name, getattr(self, name)) for name in self.__slots__)
        values = {
            name: value
            for name, value in fields
            if name not in LATER_FIELDS or value != LATER_FIELDS[name]
        }
        return {**values, "chosen": list(self.chosen)} if self.chosen else values

    def of_any_model(self) -> dict[str, Any]:
        """The fields as JSON-ready values, without those of a model."""
        left_out = ("model", "config_digest")
        return {k: v for k, v in self.to_dict().items() if k not in left_out}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RunSpec:
        """Read what `to_dict` wrote."""
        try:
            return cls(**{**fields, "chosen": tuple(fields.get("chosen", ()))})
        except TypeError as error:
            raise FormatError(f"not a run spec: {error}") from error


SERVING_FIELDS = (
    "prompt_len", "output_len", "quantization", "cache_dtype", "tensor_parallel",
    "expert_parallel", "data_parallel", "engine", "cached_prompt", "workload",
)  # fmt: skip
"""Fields that only servings of language models have."""
LATER_FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(SERVING_FIELDS), "tensor_parallel": 1, "expert_parallel": 1,
    "data_parallel": 1, "power_limit_w": None, "at": None, "model_class": None,
    "chosen": (),
}  # fmt: skip
"""Fields that joined later, which are left out at these values: hashes stay."""


F = TypeVar("F", bound=Callable[..., Any])


def shows_run_options(function: F) -> F:
    """Show the fields of a run in a function's signature, instead of its `**run`."""
    shown = signature(function)
    kept = [p for p in shown.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(hint, "__forward_arg__", hint),
        )
        for name, hint in RunOptions.__annotations__.items()
    ]
    function.__signature__ = shown.replace(  # type: ignore[attr-defined]
        parameters=[*kept, *options]
    )
    return function


class RunOptions(TypedDict, total=False):
    """Keyword arguments that say how a model is run: the fields of `RunSpec`."""

    batch_size: int | None
    seq_len: int | None
    decoder_len: int | None
    context_len: int | None
    dtype: DType | None
    attention: Attention | None
    phase: Phase | None
    prompt_len: int | None
    output_len: int | None
    quantization: Quantization | None
    cache_dtype: CacheDType | None
    tensor_parallel: int | None
    expert_parallel: int | None
    data_parallel: int | None
    engine: Engine | None
    cached_prompt: float | None
    workload: Workload | None
    power_limit_w: float | None
    at: At | None
    model_class: str | None
