"""Predictor: a fitted machine that can be saved, shipped and asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from irene.arrays import Floats
from irene.energy import SharedError
from irene.errors import FormatError
from irene.hardware import Hardware
from irene.predict.intervals import Beyond, Widths, with_beyond, worth_saying
from irene.predict.machines.domain import Domain
from irene.predict.machines.memory_fit import with_fit
from irene.predict.machines.serial_machine import SerialModel
from irene.predict.machines.specs.specs_model import KernelEnergy, SpecsModel
from irene.predict.machines.specs.work import Kernel, TreeWork, refuse_cut, work_of
from irene.saved import (
    Saved,
    checked_content,
    digest_of,
    fields_of,
)
from irene.spec import Attention, DType
from irene.tree import ModelTree
from irene.whole_file import whole_file

SCHEMA = "irene.predictor/1"
METHOD_SCHEMA = "irene.method/"
"""How the schemas of `irene.predict.learning.training_runs` begin."""


class OfRuns(Saved):
    """A machine that was learned from runs of PyTorch, and serves no language model."""

    __slots__ = ()
    usual_dtype: ClassVar[DType] = "fp32"
    usual_attention: ClassVar[Attention] = "eager"
    serves: ClassVar = False
    streams: ClassVar = (0, 0)
    schema: ClassVar[str]
    digest: str

    def content(self) -> dict[str, Any]:
        """Everything that its digest names."""
        return {"schema": self.schema, **Saved.to_dict(self)}

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values, with a digest of the content."""
        return {**self.content(), "digest": self.digest}

    def save(self, path: str | Path) -> None:
        """Write it to a file, whole or not at all."""
        with whole_file(Path(path)) as file:
            file.write(json.dumps(self.to_dict()).encode())


@dataclass(frozen=True, slots=True)
class Predictor(OfRuns):
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

    schema: ClassVar = SCHEMA

    def __post_init__(self) -> None:
        """Name the content."""
        object.__setattr__(self, "digest", _digest(self.content()))

    def predict(self, tree: ModelTree, step_s: float | None = None) -> ModelTree:
        """The same tree carrying predicted energies.

        Parts add up: a node's energy is what it takes inside this run.
        """
        return self.predict_all([tree])[0]

    def predict_all(self, trees: Sequence[ModelTree]) -> list[ModelTree]:
        """The same trees carrying predicted energies, their kernels found together."""
        for tree in trees:
            refuse_cut(tree)
        works = [work_of(tree) for tree in trees]
        known = self.model.kernel_energies(k for work in works for k in work.kernels)
        return [
            self._predicted(tree, *self.intervals(tree, work, known))
            for tree, work in zip(trees, works, strict=True)
        ]

    def _predicted(
        self, tree: ModelTree, joules: Floats, width: Floats, causes: list[Beyond]
    ) -> ModelTree:
        tokens = tree.spec.tokens if tree.spec else 1
        told = tree.with_predicted(
            *(joules, with_beyond(width, causes), self.hardware, "specs"),
            (
                self.widths.shared(f"rates of {self.hardware.name}", tokens),
                *(
                    SharedError(f"{each.cause} on {self.hardware.name}", each.width)
                    for each in causes
                ),
            ),
        )
        return with_fit(told, self.provenance.get("memory_bytes")).with_notes(
            *(each.note() for each in worth_saying(width, causes)),
            *self.provenance.get("caveats", ()),
        )

    def intervals(
        self,
        tree: ModelTree,
        work: TreeWork,
        known: Mapping[Kernel, KernelEnergy] | None = None,
    ) -> tuple[Floats, Floats, list[Beyond]]:
        """Energy of every node, its interval, and what lies beyond the measured.

        Returns:
            J; half the interval within what was measured, in log units; causes that
            make it wider.
        """
        joules, is_indirect = self.model.tree_energies(tree, work, known)
        width = self.widths.of(tree.columns.kind, is_indirect)
        return joules, width, self.domain.beyond(tree, work, joules, self.widths)

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
    """Read the rates of a machine, of either form."""
    if fields.get("form") == "serial":
        return SerialModel.from_dict(fields)
    return SpecsModel.from_dict(fields)


def _digest(content: Mapping[str, Any]) -> str:
    hardware = {k: v for k, v in content["hardware"].items() if k != "predictor"}
    return digest_of({**content, "hardware": hardware})
