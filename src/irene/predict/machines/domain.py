"""What a machine was measured on, and how a run goes beyond it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irene.predict.machines.specs.work import OTHER, Kernel
from irene.spec import RunSpec

__all__ = ["Domain", "Verdict", "domain_of"]

UNTESTED = 2.0
"""Widening for a dtype or phase that was never measured at all."""
SLACK = 1.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run is within what was measured.

    Attributes:
        reasons: In words, what goes beyond it.
        factor: How much wider than for other sizes the intervals are.
    """

    reasons: tuple[str, ...]
    factor: float

    @property
    def is_outside(self) -> bool:
        """True if anything goes beyond what was measured."""
        return bool(self.reasons)


@dataclass(frozen=True, slots=True)
class Domain:
    """Ranges that were measured.

    Attributes:
        models: Names of the models.
        tokens: Least and most tokens of a run.
        lengths: Shortest and longest sequence.
        widths: Narrowest and widest side of a weight.
        groups: Groups of kernels that were run alone.
        dtype: Floating-point type.
        software: What ran them, in words.
    """

    models: tuple[str, ...]
    tokens: tuple[int, int]
    lengths: tuple[int, int]
    widths: tuple[int, int]
    groups: tuple[str, ...]
    dtype: str
    software: str

    def judge(self, spec: RunSpec | None, kernels: Sequence[Kernel]) -> Verdict:
        """Compare a run with what was measured."""
        reasons: list[str] = []
        factor = 1.0
        if spec is not None:
            reasons += _range("tokens", spec.tokens, self.tokens)
            reasons += _range("sequence length", spec.seq_len, self.lengths)
            for what, is_new in (
                (f"dtype {spec.dtype}", spec.dtype != self.dtype),
                (f"phase {spec.phase}", spec.phase not in ("forward", "prefill")),
            ):
                if is_new:
                    reasons.append(f"{what} was never measured")
                    factor = UNTESTED
        sides = [size for k in kernels if k.group == "gemm" for size in k.sizes[2:]]
        if sides:
            reasons += _range("weight width", max(sides), self.widths)
            reasons += _range("weight width", min(sides), self.widths)
        unknown = sorted({k.group for k in kernels} - set(self.groups))
        for group in unknown:
            what = "fused or other kernels" if group == OTHER else f"{group} kernels"
            reasons.append(f"{what} were never measured, a roofline stands in")
        return Verdict(tuple(dict.fromkeys(reasons)), factor)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "models": list(self.models),
            "tokens": list(self.tokens),
            "lengths": list(self.lengths),
            "widths": list(self.widths),
            "groups": list(self.groups),
            "dtype": self.dtype,
            "software": self.software,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Domain:
        """Read what `to_dict` wrote."""
        ranges = {
            name: (int(fields[name][0]), int(fields[name][1]))
            for name in ("tokens", "lengths", "widths")
        }
        return cls(
            models=tuple(map(str, fields["models"])),
            groups=tuple(map(str, fields["groups"])),
            dtype=str(fields["dtype"]),
            software=str(fields["software"]),
            **ranges,
        )


def _range(what: str, value: int, limits: tuple[int, int]) -> list[str]:
    low, high = limits
    if low / SLACK <= value <= high * SLACK:
        return []
    return [f"{what} {value:,} is outside the measured {low:,} to {high:,}"]


def domain_of(
    sizes: Sequence[tuple[str, int, int]],
    kernels: Sequence[Kernel],
    dtype: str,
    software: str,
) -> Domain:
    """The domain of measured runs.

    Args:
        sizes: Model, batch size and length of every tree.
        kernels: Kernels that were run alone.
        dtype: Floating-point type.
        software: What ran them.
    """
    tokens = [batch * length for _, batch, length in sizes]
    lengths = [length for _, _, length in sizes]
    sides = [size for k in kernels if k.group == "gemm" for size in k.sizes[2:]] or [1]
    return Domain(
        tuple(dict.fromkeys(model for model, _, _ in sizes)),
        (min(tokens), max(tokens)),
        (min(lengths), max(lengths)),
        (min(sides), max(sides)),
        tuple(sorted({k.group for k in kernels})),
        dtype,
        software,
    )
