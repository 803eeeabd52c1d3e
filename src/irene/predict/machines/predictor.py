"""Predictor: a fitted machine that can be saved, shipped and asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.predict.intervals import Verdict, Widths
from irene.predict.learned_file import Saved, checked_content, digest_of, fields_of
from irene.predict.machines.serial_machine import SerialModel
from irene.predict.machines.specs.specs_model import SpecsModel
from irene.predict.machines.specs.work import OTHER, Kernel, work_of
from irene.spec import Attention, DType, RunSpec
from irene.tree import KINDS, ModelTree
from irene.whole_file import whole_file

__all__ = [
    "METHOD_SCHEMA",
    "SCHEMA",
    "Domain",
    "Predictor",
    "domain_of",
    "read_model",
]

UNTESTED = 2.0
"""Widening for a dtype or phase that was never measured at all."""
SLACK = 1.05


@dataclass(frozen=True, slots=True)
class Domain(Saved):
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


SCHEMA = "irene.predictor/1"
METHOD_SCHEMA = "irene.method/"
"""How the schemas of `irene.predict.learning.training_runs` begin."""
MATH = KINDS.index("math")


@dataclass(frozen=True, slots=True)
class Predictor:
    """Energy of every node of a tree on one machine, with intervals.

    Attributes:
        hardware: The machine.
        model: Its rates.
        widths: Widths of the intervals.
        domain: What it was measured on.
        provenance: Data, method, date, software, held-out errors.
        digest: SHA-256 of all of it.
    """

    hardware: Hardware
    model: SpecsModel | SerialModel
    widths: Widths
    domain: Domain
    provenance: Mapping[str, Any]
    digest: str = field(init=False, default="")

    usual_dtype: ClassVar[DType] = "fp32"
    usual_attention: ClassVar[Attention] = "eager"
    serves: ClassVar = False

    def __post_init__(self) -> None:
        """Name the content."""
        object.__setattr__(self, "digest", _digest(self._content()))

    def predict(self, tree: ModelTree, step_s: float | None = None) -> ModelTree:
        """The same tree carrying predicted energies.

        Parts add up: a node's energy is what it takes inside this run.

        Args:
            tree: A traced tree with math ops, folded or not.
            step_s: Of a serving, which this machine knows nothing of.
        """
        if not (tree.columns.kind == MATH).any():
            raise UsageError("prediction needs a tree with its math ops: trace it anew")
        work = work_of(tree)
        verdict = self.domain.judge(tree.spec, work.kernels)
        joules, is_indirect = self.model.tree_energies(tree, work)
        width = self.widths.of(tree.columns.kind, is_indirect, verdict)
        return tree.with_predicted(joules, width, self.hardware, "specs").with_notes(
            *(f"extrapolation: {reason}" for reason in verdict.reasons),
            *self.provenance.get("caveats", ()),
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values, with a digest of the content."""
        return {**self._content(), "digest": self.digest}

    def _content(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "hardware": self.hardware.to_dict(),
            "model": self.model.to_dict(),
            "widths": self.widths.to_dict(),
            "domain": self.domain.to_dict(),
            "provenance": dict(self.provenance),
        }

    def save(self, path: str | Path) -> None:
        """Write it to a file, whole or not at all."""
        with whole_file(Path(path)) as file:
            file.write(json.dumps(self.to_dict()).encode())

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Predictor:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: It is not a predictor, is damaged, or of a newer version.
        """
        if str(fields.get("schema")).startswith(METHOD_SCHEMA):
            raise FormatError(
                f"the method {fields.get('method')!r} needs measured features: use "
                "`irene evaluate DATA --predictor FILE`; only `specs` can do without"
            )
        content = checked_content(fields, SCHEMA, _digest, "predictor")
        with fields_of("not a predictor"):
            hardware = Hardware.from_dict(content["hardware"])
            named = f"{hardware.name} {fields['digest'][:8]}"
            return cls(
                replace(hardware, predictor=named),
                read_model(content["model"]),
                Widths.from_dict(content["widths"]),
                Domain.from_dict(content["domain"]),
                dict(content["provenance"]),
            )


def read_model(fields: Mapping[str, Any]) -> SpecsModel | SerialModel:
    """Read the rates of a machine, of either form.

    Raises:
        KeyError, TypeError, ValueError: The fields are not those of a machine.
    """
    if fields.get("form") == "serial":
        return SerialModel.from_dict(fields)
    return SpecsModel.from_dict(fields)


def _digest(content: Mapping[str, Any]) -> str:
    hardware = {k: v for k, v in content["hardware"].items() if k != "predictor"}
    return digest_of({**content, "hardware": hardware})
