"""The honest exam of a predictor: runs it has never seen, measured and compared."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from irene.collect.sweep import Measurement, Sweep
from irene.dataset.store import Store
from irene.errors import UsageError
from irene.plain import Document
from irene.predict.exams.evaluation import Evaluation, evaluate
from irene.predict.learning.own_data import read_for_training
from irene.predict.machines.domain import Domain
from irene.predict.machines.predictor import Predictor
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.whole_file import whole_file

SCHEMA = "irene.validation/1"
BATCH_SIZES = (1, 2, 4, 8, 16, 32)
LENGTHS = (16, 32, 64, 128, 256, 512)
TEXT = ("encoder", "decoder")


@dataclass(frozen=True, slots=True)
class RunOutcome(Document):
    """One run of the exam as a whole, measured, and predicted with an interval."""

    spec: RunSpec
    measured_j: float
    predicted_j: float
    low_j: float
    high_j: float
    time_s: float | None
    disturbed: bool = False

    also: ClassVar = ("error_percent", "covered")

    @property
    def error_percent(self) -> float:
        """Predicted against measured, %; above 0 where too much was predicted."""
        return 100.0 * (self.predicted_j / self.measured_j - 1.0)

    @property
    def covered(self) -> bool:
        """Whether the measured value is in the predicted interval."""
        return self.low_j <= self.measured_j <= self.high_j


@dataclass(frozen=True, slots=True)
class Examined:
    """What an exam of a machine gave: errors per level, and every run as a whole."""

    evaluation: Evaluation
    runs: tuple[RunOutcome, ...]
    predictor: Predictor
    measured_on: str
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.validation/1`."""
        return {
            "schema": SCHEMA,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "measured_on": self.measured_on,
            "hardware": self.predictor.hardware.to_dict(),
            "evaluation": self.evaluation.to_dict(),
            "runs": [run.to_dict() for run in self.runs],
            "notes": list(self.notes),
        }

    def save(self, path: Path) -> None:
        """Keep the record, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(json.dumps(self.to_dict(), indent=1, allow_nan=False).encode())


def choose_runs(
    domain: Domain,
    count: int,
    *,
    models: Sequence[str] | None = None,
    largest: float = 50e6,
    seed: int = 0,
) -> tuple[RunSpec, ...]:
    """Runs of models that a predictor has not been measured on, of sizes that it has.

    Models are drawn from the catalogue if none are given, up to `largest` parameters,
    of other types than were measured as far as there are such.
    """
    drawn = random.Random(seed)
    if models is None:
        models = _unseen(domain, largest, drawn, count)
    for model in models:
        if model in domain.models:
            raise UsageError(f"{model} is one of those that the predictor learned from")
    sizes = [
        (batch, length)
        for batch in BATCH_SIZES
        for length in LENGTHS
        if domain.tokens[0] <= batch * length <= domain.tokens[1]
        and domain.lengths[0] <= length <= domain.lengths[1]
    ]
    if not sizes or not models:
        raise UsageError("there is no run within what the predictor was measured on")
    runs: dict[RunSpec, None] = {}
    for place in range(count * len(sizes)):
        batch, length = drawn.choice(sizes)
        spec = RunSpec(
            models[place % len(models)],
            batch_size=batch,
            seq_len=length,
            dtype=domain.dtype,  # type: ignore[arg-type]
            attention=domain.software.partition(" ")[0],  # type: ignore[arg-type]
        )
        runs[spec] = None
        if len(runs) == count:
            break
    return tuple(runs)


def _unseen(
    domain: Domain, largest: float, drawn: random.Random, count: int
) -> list[str]:
    small = [
        entry
        for entry in catalogue.entries().values()
        if entry.kind in TEXT and entry.params <= largest
    ]
    seen = {e.family for e in catalogue.entries().values() if e.name in domain.models}
    new = [entry for entry in small if entry.name not in domain.models]
    families: dict[str, list[str]] = {}
    for entry in new:
        families.setdefault(entry.family, []).append(entry.name)
    order = sorted(families, key=lambda family: (family in seen, drawn.random()))
    if not order:
        raise UsageError(
            f"the catalogue has no unseen model of at most {largest:,.0f} parameters: "
            "name some with --models"
        )
    return [drawn.choice(families[family]) for family in order[:count]]


def exam_sweep(
    predictor: Predictor, runs: Sequence[RunSpec], measurement: Measurement
) -> Sweep:
    """The runs of an exam as a sweep, to be collected like any other."""
    return Sweep("validation", tuple(runs), predictor.hardware.name, measurement)


def compare_with_store(
    predictor: Predictor, store: Path, runs: Sequence[RunSpec] | None = None
) -> Examined:
    """Compare a predictor with what was measured."""
    read = read_for_training(store)
    table = read.table
    if runs is not None:
        wanted = {(r.model, r.batch_size, r.seq_len) for r in runs}
        table = table.take([i for i, key in enumerate(table.keys) if key in wanted])
    evaluation = evaluate(predictor, table, read.joiner)
    times = table.features["times_mean"]
    outcomes = []
    for index, (key, rows) in enumerate(table.trees()):
        joined = read.joiner.join(table, index)
        if joined is None:
            continue
        tree = predictor.predict(joined.tree)
        whole = tree.root.energy
        assert whole is not None
        spec = RunSpec(key.model, batch_size=key.batch_size, seq_len=key.seq_len)
        time_s = float(times[rows.start])
        outcomes.append(
            RunOutcome(
                spec,
                float(table.energy_j[rows.start]),
                float(evaluation.predicted_j[rows.start]),
                whole.low,
                whole.high,
                time_s if time_s > 0 else None,
                bool(table.disturbed[rows.start]),
            )
        )
    measured_on = "" if read.hardware is None else read.hardware.description
    known = sorted({run.spec.model for run in outcomes} & {*predictor.domain.models})
    words = f"no exam: the predictor learned from runs of {', '.join(known)}"
    more = _notes(predictor, measured_on, Store.open(store))
    notes = (*read.caveats, *([words] if known else []), *more)
    return Examined(evaluation, tuple(outcomes), predictor, measured_on, notes)


def _notes(predictor: Predictor, measured_on: str, store: Store) -> list[str]:
    notes = []
    fitted_for = predictor.hardware.description
    if fitted_for and measured_on and fitted_for != measured_on:
        notes.append(
            f"the predictor is of another machine ({fitted_for}) than the one that was "
            f"measured ({measured_on})"
        )
    meters = sorted(
        {e.origin.meter for e in store.entries() if e.state == "measured"} - {""}
    )
    if meters:
        estimated = any("estimate" in meter for meter in meters)
        kind = ": energy is time × estimated power" if estimated else ""
        notes.append(f"measured with {', '.join(meters)}{kind}")
    failed: Mapping[str, str] = {
        e.spec.model: e.reason for e in store.entries() if e.state == "failed"
    }
    notes += [f"{model} could not be measured: {why}" for model, why in failed.items()]
    return notes
