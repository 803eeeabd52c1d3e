"""Learning from measured trees: a machine with intervals, or any method, kept in files.

A machine is fitted to all trees, and exams on held-out ones set its intervals. A method
is kept as data only, for trees whose features were measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats
from irene.dataset.table import NodeTable
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.predict.exams.crossvalidation import (
    PredictRounds,
    Round,
    crossvalidate,
    rounds_here,
)
from irene.predict.exams.splits import make_split
from irene.predict.intervals import (
    COVERAGE,
    LEVELS,
    HeldOut,
    Widths,
    log_errors,
    mean_percent,
    own_and_drift,
    widths_of,
)
from irene.predict.learning.join import Joiner, OwnRun, Progress
from irene.predict.machines.domain import domain_of
from irene.predict.machines.predictor import METHOD_SCHEMA, Predictor
from irene.predict.machines.specs.specs_method import (
    SHARED_JOINER,
    SpecsMethod,
    measurements,
)
from irene.predict.machines.specs.specs_model import SpecsModel
from irene.predict.methods import Joining, Method, Savable, make_method
from irene.saved import (
    checked_content,
    digest_of,
    fields_of,
    load_file,
    read_fields,
)
from irene.whole_file import whole_file

SCHEMA = f"{METHOD_SCHEMA}1"
LARGEST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class SavedMethod:
    """A method, what it was made with, and what it was learned from.

    Attributes:
        method: Fitted.
        options: What `make_method` takes: `features`, `seed`, and its own.
        hardware: The machine whose trees it has seen.
        provenance: Data, date, software, models, trees, held-out errors.
    """

    method: Method
    options: Mapping[str, Any]
    hardware: Hardware
    provenance: Mapping[str, Any]

    @property
    def needs_traces(self) -> bool:
        """Whether it matches measured trees with traces."""
        return needs_traces(self.method)

    def use(self, joiner: Joiner) -> None:
        """Match trees with traces by this joiner, which knows the data's configs."""
        with_joiner(self.method, joiner)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values, with a digest of the content."""
        if not isinstance(self.method, Savable):
            raise UsageError(f"the method {self.method.name!r} cannot be saved")
        content = {
            "schema": SCHEMA,
            "method": self.method.name,
            "options": dict(self.options),
            "state": self.method.state(),
            "hardware": self.hardware.to_dict(),
            "provenance": dict(self.provenance),
        }
        return {**content, "digest": digest_of(content)}

    def save(self, path: str | Path) -> None:
        """Write it to a file, whole or not at all.

        Raises:
            UsageError: It learned no finite numbers, or too many.
        """
        name = self.method.name
        try:
            text = json.dumps(self.to_dict(), allow_nan=False).encode()
        except ValueError as error:
            raise UsageError(
                f"{name} has not learned finite numbers: try standardise=True or a "
                "smaller learning_rate"
            ) from error
        if len(text) >= LARGEST_BYTES:
            raise UsageError(
                f"{name} takes {len(text):,} bytes, a file may have "
                f"{LARGEST_BYTES:,}: choose a smaller degree"
            )
        with whole_file(Path(path)) as file:
            file.write(text)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SavedMethod:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: It is not a method, is damaged, or of a newer version.
        """
        content = checked_content(fields, SCHEMA, digest_of, "method")
        with fields_of("not a method that this version knows"):
            options = dict(content["options"])
            method = make_method(content["method"], **options)
            if isinstance(method, Savable):
                method.restore(content["state"])
            hardware = Hardware.from_dict(content["hardware"])
            return cls(method, options, hardware, dict(content["provenance"]))


def is_saved_method(path: str | Path) -> bool:
    """Whether a file says that it is a method, of this version or another."""
    try:
        schema = read_fields(path).get("schema")
    except (FormatError, UsageError):
        return False
    return str(schema).startswith(METHOD_SCHEMA)


def load_method(path: str | Path) -> SavedMethod:
    """Read a saved method.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a method, is damaged, or of a newer version.
    """
    return load_file(path, SavedMethod.from_dict)


def train_method(
    table: NodeTable,
    name: str,
    options: Mapping[str, Any],
    hardware: Hardware,
    provenance: Mapping[str, Any],
    joiner: Joiner | None = None,
    progress: Progress | None = None,
    predict_rounds: PredictRounds | None = None,
) -> SavedMethod:
    """Fit a method on all trees, and say how well it does with each model held out.

    `predict_rounds` holds models out elsewhere, with the same method; by default here,
    one after the other.
    """

    def make(seed: int) -> Method:
        method = make_method(name, **{**options, "seed": seed})
        if joiner is not None:
            with_joiner(method, joiner)
        return method

    seed = int(options.get("seed", 0))
    method = make(seed).fit(table)
    told = {
        **provenance,
        "method": name,
        "models": list(table.models),
        "trees": len(table.keys),
        "measurements": len(np.unique(table.energy_j)),
    }
    if len(table.models) > 1:
        result = crossvalidate(
            *(table, make, make_split("model"), [seed]),
            progress=progress,
            predict_rounds=predict_rounds,
        )
        told["held_out_errors_percent"] = {"model": result.average.to_dict()}
    return SavedMethod(method, dict(options), hardware, told)


def needs_traces(method: Method) -> bool:
    """Whether a method matches measured trees with traces."""
    return isinstance(method, Joining)


def with_joiner(method: Method, joiner: Joiner) -> Method:
    """The same method, which matches trees with traces by this joiner if by any."""
    if isinstance(method, Joining):
        method.joiner = joiner
    return method


INSIDE = ("model",)
SELDOM_MEASURED = 0.7
"""Half-width, log, for ops that no exam has asked about: a factor of two."""
WIDER = 0.5
"""How much wider intervals are where everything was disturbed."""
EXAMS = (*INSIDE, "family", "small", "large")


def train(
    table: NodeTable,
    hardware: Hardware,
    provenance: Mapping[str, Any],
    joiner: Joiner = SHARED_JOINER,
    progress: Progress | None = None,
    predict_rounds: PredictRounds | None = None,
) -> Predictor:
    """Fit a machine and set its intervals by exams on held-out trees.

    What the data comes from says which part of it was disturbed; held-out errors are
    added. `predict_rounds` predicts rounds elsewhere; by default here, one after the
    other.
    """
    measured = measurements(table, joiner)
    model = SpecsMethod(joiner).fit(table).machine()
    run = joiner.own or OwnRun()
    predict = predict_rounds or rounds_here(table, lambda _: SpecsMethod(joiner))
    rounds = {name: _rounds(table, name) for name in EXAMS}
    asked = [each for of_exam in rounds.values() for each in of_exam]
    answers = predict(asked, progress)
    left = iter(answers)
    exams = {
        name: [
            held_out(table.take(each.fold.test), next(left).energy_j)
            for each in of_exam
        ]
        for name, of_exam in rounds.items()
    }
    wider = 1.0 + WIDER * float(provenance.get("disturbed", 0.0))
    inside, outside = (
        {level: wider * width for level, width in _widths(some).items()}
        for some in ([exams[name] for name in INSIDE], list(exams.values()))
    )
    streams = _spread([each.stream_j for each in answers], model)
    own, drift = own_and_drift(exams["model"])
    return Predictor(
        hardware,
        model,
        Widths(inside, outside, streams, own, drift=drift),
        domain_of(
            table.keys, measured.kernels, run.dtype, f"{run.attention} attention"
        ),
        {
            **provenance,
            "method": "specs",
            "models": list(table.models),
            "trees": len(table.keys),
            "measurements": len(measured.kernel_j) + len(measured.parent_j),
            "unmatched": dict(joiner.unknown),
            "coverage": COVERAGE,
            "held_out_errors_percent": {n: mean_percent(e) for n, e in exams.items()},
        },
    )


def _rounds(table: NodeTable, split: str) -> list[Round]:
    try:
        folds = make_split(split)(table)
    except UsageError:  # one model, one family, or no run of such a size
        return []
    return [Round(f"{split}: {fold.held_out}", fold) for fold in folds]


def held_out(test: NodeTable, energy_j: Floats) -> dict[str, Floats]:
    """Errors of trees by level, and the tokens of each."""
    errors = log_errors(energy_j, test.energy_j)
    keys = [test.keys[i] for i in test.tree[test.rows("model")]]
    tokens = np.array([float(key.batch_size * key.seq_len) for key in keys])
    by_level = {level: errors[test.rows(level)] for level in LEVELS}
    return {**by_level, "tokens": tokens}


def _widths(exams: list[HeldOut]) -> dict[str, float]:
    groups = [group for one in exams for group in one]
    if not groups:  # a single model: nothing could be held out
        return dict.fromkeys(LEVELS, 1.0)
    return widths_of(groups)


def _spread(others: Sequence[Floats | None], final: object) -> float:
    """Largest difference between an exam's rate of a stream and the final one, log."""
    if not isinstance(final, SpecsModel):
        return SELDOM_MEASURED
    rates = final.composition.stream_j
    spread = 0.0
    for other in others:
        if other is None:
            continue
        both = (rates > 0) & (other > 0)
        ratio = other[both] / rates[both]
        spread = max(spread, float(np.abs(np.log(ratio)).max(initial=0.0)))
    return spread
