"""Predictor: a fitted machine that can be saved, shipped and asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.predict.intervals import Widths
from irene.predict.machines.domain import Domain
from irene.predict.machines.json_file import check_schema, digest_of, read_fields
from irene.predict.machines.serial.model import SerialModel
from irene.predict.machines.specs.model import SpecsModel
from irene.predict.machines.specs.work import work_of
from irene.spec import Attention, DType
from irene.tree import KINDS, EnergyColumns, ModelTree
from irene.tree.model_tree import SOURCES
from irene.whole_file import whole_file

__all__ = ["METHOD_SCHEMA", "SCHEMA", "Predictor", "load_predictor", "read_model"]

SCHEMA = "irene.predictor/1"
METHOD_SCHEMA = "irene.method/"
"""How the schemas of `irene.predict.learning.saved_methods` begin."""
MATH = KINDS.index("math")
PREDICTED = SOURCES.index("predicted")


@dataclass(frozen=True, slots=True)
class Predictor:
    """Energy of every node of a tree on one machine, with intervals.

    Attributes:
        hardware: The machine.
        model: Its rates.
        widths: Widths of the intervals.
        domain: What it was measured on.
        provenance: Data, method, date, software, held-out errors.
    """

    hardware: Hardware
    model: SpecsModel | SerialModel
    widths: Widths
    domain: Domain
    provenance: Mapping[str, Any]

    @property
    def usual_dtype(self) -> DType:
        """Type that is run unless somebody says otherwise."""
        return "fp32"

    @property
    def usual_attention(self) -> Attention:
        """Attention that is run unless somebody says otherwise."""
        return "eager"

    @property
    def serves(self) -> bool:
        """Whether servings of language models can be predicted for it."""
        return False

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
        width = self.widths.of(
            tree.columns.kind, is_indirect, verdict.is_outside, verdict.factor
        )
        energy = EnergyColumns(
            joules,
            joules * np.exp(-width),
            joules * np.exp(width),
            np.full(len(tree), PREDICTED, dtype=np.uint8),
            f"specs, {self.hardware.predictor}",
        )
        predicted = tree.with_energy(energy, self.hardware)
        notes = tuple(f"extrapolation: {reason}" for reason in verdict.reasons)
        notes += tuple(self.provenance.get("caveats", ()))
        return predicted._derive(predicted.columns, notes=(*tree.notes, *notes))

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values, with a digest of the content."""
        content = {
            "schema": SCHEMA,
            "hardware": self.hardware.to_dict(),
            "model": self.model.to_dict(),
            "widths": self.widths.to_dict(),
            "domain": self.domain.to_dict(),
            "provenance": dict(self.provenance),
        }
        return {**content, "digest": _digest(content)}

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
        check_schema(fields.get("schema"), SCHEMA)
        content = {name: value for name, value in fields.items() if name != "digest"}
        if fields.get("digest") != _digest(content):
            raise FormatError(
                "damaged predictor: its content does not match its digest"
            )
        try:
            hardware = Hardware.from_dict(fields["hardware"])
            named = f"{hardware.name} {fields['digest'][:8]}"
            return cls(
                replace(hardware, predictor=named),
                read_model(fields["model"]),
                Widths.from_dict(fields["widths"]),
                Domain.from_dict(fields["domain"]),
                dict(fields["provenance"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(
                f"not a predictor: {type(error).__name__}: {error}"
            ) from error


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


def load_predictor(path: str | Path) -> Predictor:
    """Read a saved predictor.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a predictor, is damaged, or of a newer version.
    """
    fields = read_fields(path)
    try:
        return Predictor.from_dict(fields)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
