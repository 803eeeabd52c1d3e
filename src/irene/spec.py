"""RunSpec: everything that decides what is run, and the hash that names its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from irene.errors import FormatError, SpecError

__all__ = ["Attention", "DType", "Phase", "RunSpec"]

DType = Literal["fp32", "fp16", "bf16"]
Attention = Literal["eager", "sdpa"]
Phase = Literal["forward", "prefill", "decode", "train"]


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
            except in `decode`, where it is seq_len.
        dtype: Floating-point type of weights and activations.
        attention: Attention implementation.
        phase: `forward` (no cache), `prefill` (fills a KV cache), `decode` (one new
            token per sequence against a cache), `train` (forward and backward).
        config_digest: First 16 hex digits of the SHA-256 of the model's config, so
            that two configs under one name do not share a hash.
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

    def __post_init__(self) -> None:
        """Check every field and fill in the context of a decode step."""
        _check_size("batch_size", self.batch_size, 1)
        _check_size("seq_len", self.seq_len, 1)
        if self.decoder_len is not None:
            _check_size("decoder_len", self.decoder_len, 1)
        _check_choice("dtype", self.dtype, get_args(DType))
        _check_choice("attention", self.attention, get_args(Attention))
        _check_choice("phase", self.phase, get_args(Phase))
        self._check_context()

    def _check_context(self) -> None:
        if self.phase == "decode" and self.context_len is None:
            object.__setattr__(self, "context_len", self.seq_len)
        if self.context_len is None:
            return
        if self.phase not in ("prefill", "decode"):
            raise SpecError(
                f"context_len={self.context_len} needs a KV cache: "
                "use phase 'prefill' or 'decode'"
            )
        _check_size("context_len", self.context_len, 0)

    @property
    def digest(self) -> str:
        """16 hex digits that name this run's result everywhere."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def tokens(self) -> int:
        """Tokens that one run processes: batch size times new tokens."""
        return self.batch_size * (1 if self.phase == "decode" else self.seq_len)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return asdict(self)

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
