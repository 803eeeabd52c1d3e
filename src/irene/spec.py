"""RunSpec: everything that decides what is run, and the hash that names its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from irene.errors import FormatError, SpecError

__all__ = [
    "LATER_FIELDS",
    "Attention",
    "CacheDType",
    "DType",
    "Phase",
    "Quantization",
    "RunSpec",
]

DType = Literal["fp32", "fp16", "bf16"]
Attention = Literal["eager", "sdpa"]
Phase = Literal["forward", "prefill", "decode", "train", "generate"]
Quantization = Literal["bf16", "fp8", "fp4", "mxfp4", "int4"]
CacheDType = Literal["bf16", "fp8"]
SERVING_PHASES = ("prefill", "decode", "generate")
USUAL_OUTPUT = 128
LATER_FIELDS: Mapping[str, Any] = {
    "prompt_len": None,
    "output_len": None,
    "quantization": None,
    "cache_dtype": None,
    "tensor_parallel": 1,
}
"""Fields that joined later, which are left out at these values: hashes stay."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of one model at one size.

    Attributes:
        model: Catalogue name, Hugging Face id, path of a config.json, or the class
            name of an nn.Module.
        batch_size: Sequences (or images, or clips) per run.
        seq_len: Tokens per sequence that the model reads.
        decoder_len: Tokens of the decoder of an encoder-decoder model; None: seq_len.
        context_len: Tokens already in the KV cache before the run. None: nothing,
            except in `decode`, where it is seq_len. In `generate` the mean over the
            decode steps; None: from prompt_len and output_len.
        dtype: Floating-point type of weights and activations.
        attention: Attention implementation.
        phase: `forward` (no cache), `prefill` (fills a KV cache), `decode` (one new
            token per sequence against a cache), `train` (forward and backward),
            `generate` (every one of `batch_size` streams is given a prompt and answers
            it, prompts of new streams being read beside the decoding of others).
        config_digest: First 16 hex digits of the SHA-256 of the model's config, so
            that two configs under one name do not share a hash.
        prompt_len: Tokens of a prompt, for `generate`; None there: seq_len, which
            then says the same.
        output_len: Tokens of an answer on average, for `generate`; None there: 128.
        quantization: How the weights of linear layers are stored and multiplied;
            None: as the model is published, `dtype` for most.
        cache_dtype: How the KV cache is stored; None: as `dtype`.
        tensor_parallel: GPUs that share every layer.
    """

    model: str
    batch_size: int = 1
    seq_len: int = 128
    decoder_len: int | None = None
    context_len: int | None = None
    dtype: DType = "fp32"
    attention: Attention = "eager"
    phase: Phase = "forward"
    config_digest: str | None = None
    prompt_len: int | None = None
    output_len: int | None = None
    quantization: Quantization | None = None
    cache_dtype: CacheDType | None = None
    tensor_parallel: int = 1

    def __post_init__(self) -> None:
        """Check every field and fill in what follows from others."""
        _check_size("batch_size", self.batch_size, 1)
        _check_size("seq_len", self.seq_len, 1)
        if self.decoder_len is not None:
            _check_size("decoder_len", self.decoder_len, 1)
        _check_choice("dtype", self.dtype, get_args(DType))
        _check_choice("attention", self.attention, get_args(Attention))
        _check_choice("phase", self.phase, get_args(Phase))
        self._check_context()
        self._check_serving()
        self._check_lengths()

    def _check_context(self) -> None:
        if self.phase == "decode" and self.context_len is None:
            object.__setattr__(self, "context_len", self.seq_len)
        if self.context_len is None:
            return
        if self.phase not in SERVING_PHASES:
            raise SpecError(
                f"context_len={self.context_len} needs a KV cache: "
                "use phase 'prefill', 'decode' or 'generate'"
            )
        _check_size("context_len", self.context_len, 0)

    def _check_serving(self) -> None:
        _check_size("tensor_parallel", self.tensor_parallel, 1)
        if self.quantization is not None:
            _check_choice("quantization", self.quantization, get_args(Quantization))
        if self.cache_dtype is not None:
            _check_choice("cache_dtype", self.cache_dtype, get_args(CacheDType))

    def _check_lengths(self) -> None:
        """Fill in the lengths of a generation; elsewhere there are none."""
        if self.phase != "generate":
            if self.prompt_len is not None or self.output_len is not None:
                raise SpecError("prompt_len and output_len are for phase 'generate'")
            return
        prompt = self.seq_len if self.prompt_len is None else self.prompt_len
        output = USUAL_OUTPUT if self.output_len is None else self.output_len
        _check_size("prompt_len", prompt, 1)
        _check_size("output_len", output, 1)
        for name, value in (
            ("prompt_len", prompt),
            ("seq_len", prompt),
            ("output_len", output),
        ):
            object.__setattr__(self, name, value)

    @property
    def digest(self) -> str:
        """16 hex digits that name this run's result everywhere."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

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
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in LATER_FIELDS or value != LATER_FIELDS[name]
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RunSpec:
        """Read what `to_dict` wrote."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise FormatError(f"not a run spec: {error}") from error


def _check_size(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SpecError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise SpecError(f"{name} must be at least {least}, got {value}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SpecError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
