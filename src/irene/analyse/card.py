"""What a model's card says of its energy: metadata, a label, and words for regulators.

A card is of one tree, and of one source: predicted, measured or estimated. Energy of a
training is in a card only where it was measured or planned, and says which.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from irene import __version__
from irene.analyse.costs import JOULES_PER_KWH, CostTerms, Region
from irene.energy import Energy
from irene.errors import UsageError
from irene.parameters import written
from irene.presented import Shown
from irene.tree import ModelTree
from irene.tree.headline import (
    energy_per_unit,
    energy_source,
    model_name,
    run_words,
    whole_energy,
)

PER_EMISSIONS = 1e6
"""Sequences that the emissions of a card are of."""


@dataclass(frozen=True, slots=True, repr=False)
class Card(Shown):
    """The energy of a model in short.

    Attributes:
        model: Its name.
        run: Sizes and settings in words.
        hardware: The machine, and what of it the energy covers.
        energy: Per token, J.
        per_sequence: Per sequence, J; of a serving, per request.
        units: What these are energies of, in words; one where tokens mean nothing.
        source: `predicted`, `measured` or `estimated`.
        energy_source: Where the energy comes from, in words.
        grams_per_million: CO₂e of a million requests, g, with the PUE.
        region: Whose electricity.
        pue: Energy of the building by that of its machines.
        params: Parameters.
        flops: Floating-point operations of a run.
        date: When the card was made, ISO 8601.
        command: Makes the same card again.
        notes: What a reader should know.
    """

    model: str
    run: str
    hardware: str
    energy: Energy
    per_sequence: Energy
    units: tuple[str, ...]
    source: str
    energy_source: str
    grams_per_million: float
    region: Region
    pue: float
    params: int
    flops: int
    date: str
    command: str
    notes: tuple[str, ...]

    schema: ClassVar = "irene.card/1"

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.card/1` as JSON-ready values."""
        return {
            "schema": self.schema, **asdict(self), "metadata": self.metadata(),
            "notes": list(self.notes),
        }  # fmt: skip

    def metadata(self) -> dict[str, Any]:
        """The field `co2_eq_emissions` of a model card of Hugging Face."""
        where = self.region.name
        if self.region.code:
            where = f"{where} ({self.region.gco2e_per_kwh:g} g CO2e/kWh)"
        return {
            "co2_eq_emissions": {
                "emissions": float(f"{self.grams_per_million:.6g}"),
                "source": f"irene {__version__}, {self.source}: {self.command}",
                "training_type": "inference, one million requests",
                "geographical_location": where,
                "hardware_used": self.hardware,
            }
        }


def card_of(
    tree: ModelTree, terms: CostTerms | None = None, date: str | None = None
) -> Card:
    """The card of a predicted or measured tree."""
    energy, spec, terms = tree.energy_of(0), tree.spec, terms or CostTerms()
    if energy is None or spec is None:
        raise UsageError("a card needs a tree with energy and sizes: predict it first")
    per_sequence = energy.scaled(1 / spec.batch_size)
    factor = PER_EMISSIONS * terms.pue / JOULES_PER_KWH * terms.place.gco2e_per_kwh
    hardware = tree.hardware
    where = f"{hardware.description or hardware.name}, {hardware.covers}" if (
        hardware
    ) else "unknown"  # fmt: skip
    total = tree.total()
    return Card(
        model_name(tree), run_words(tree), where, energy.scaled(1 / spec.tokens),
        per_sequence, tuple(unit for unit, _ in reversed(energy_per_unit(tree))),
        energy.source, energy_source(tree), per_sequence.joules * factor,
        terms.place, terms.pue, int(tree.root.params), int(total.flops),
        date or datetime.now(tz=UTC).date().isoformat(), _command(tree), tree.notes,
    )  # fmt: skip


def _command(tree: ModelTree) -> str:
    """The command that gives the same energy again."""
    spec = tree.spec
    assert spec is not None
    words = written(spec)
    model = words.pop("model")
    options = [
        word
        for name, value in words.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    if whole_energy(tree).source != "predicted":
        return shlex.join(["irene", "measure", model, *options])
    on = tree.hardware.name if tree.hardware else "pc1"
    return shlex.join(["irene", "predict", model, *options, "--on", on])
