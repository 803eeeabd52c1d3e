"""A saved predictor against measured trees: errors, and how often intervals hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from irene.arrays import Bools, Floats
from irene.dataset.table import NodeTable
from irene.plain import Document
from irene.predict.exams.crossvalidation import Errors, mean_known, percent_errors
from irene.predict.intervals import with_beyond, worth_saying
from irene.predict.learning.join import Joiner, Progress
from irene.predict.learning.training_runs import SavedMethod
from irene.predict.machines.predictor import Predictor
from irene.predict.machines.specs.regression import FLAGGED
from irene.predict.machines.specs.specs_method import rows_alone_j
from irene.tree import KINDS

SCHEMA = "irene.evaluation/1"


@dataclass(frozen=True, slots=True)
class ModelRow:
    """How well one model's trees were predicted.

    Attributes:
        model: Its name.
        trees: How many there are.
        outside: Trees that go beyond what the predictor was measured on; None where
            it does not say what that is.
        errors: Mean over the nodes of each level, %.
        coverage: Part of each level's nodes inside their interval, 0 to 1; NaN where
            there is none; None without intervals.
        unpredicted: Nodes without a prediction.
        disturbed: Nodes that something disturbed while they were measured.
    """

    model: str
    trees: int
    outside: int | None
    errors: Errors
    coverage: Errors | None
    unpredicted: int
    disturbed: int

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON document."""
        fields: dict[str, Any] = {"name": self.model, "trees": self.trees}
        if self.outside is not None:
            fields["outside_domain"] = self.outside
        fields |= self.errors.to_dict()
        if self.coverage is not None:
            fields["coverage"] = self.coverage.to_dict()
        counts = {"unpredicted": self.unpredicted, "disturbed": self.disturbed}
        return {**fields, **counts}


@dataclass(frozen=True, slots=True)
class Evaluation(Document):
    """What came out.

    Attributes:
        dataset: Name of the data.
        predictor: Name of the machine, and its predictor's version.
        predicted_j: Prediction of every row of the data, J; NaN where there is none.
        rows: One per model.
        average: Mean over the models.
        node_weighted: Mean over all nodes.
        coverage: Part of all nodes of each level inside their interval; None without
            intervals.
        promised_coverage: Part that the predictor promises.
        unknown: Models without a config, with the reason.
    """

    schema: ClassVar = SCHEMA
    dataset: str
    predictor: str
    predicted_j: Floats = field(metadata={"kept": False})
    rows: tuple[ModelRow, ...]
    average: Errors
    node_weighted: Errors
    coverage: Errors | None
    promised_coverage: float | None
    unknown: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON document."""
        document = Document.to_dict(self)
        if self.coverage is None:
            del document["coverage"], document["promised_coverage"]
        return document


def _evaluation(
    table: NodeTable,
    predictor: str,
    predicted_j: Floats,
    inside: Floats | None = None,
    outside: Bools | None = None,
    promised: float | None = None,
    unknown: Mapping[str, str] = MappingProxyType({}),
) -> Evaluation:
    """Every measured row against its prediction; what was disturbed weighs less."""
    percent = percent_errors(predicted_j, table)
    weights = np.where(table.disturbed, FLAGGED**-2, 1.0)

    def means(values: Floats, rows: Bools) -> Errors:
        def mean(level: str) -> float:
            some = rows & (table.kind == KINDS.index(level))
            return mean_known(values[some], weights[some])

        return Errors.by_level(mean)

    def row(model: str) -> ModelRow:
        trees = np.array([key.model == model for key in table.keys])
        rows = trees[table.tree]
        return ModelRow(
            model,
            int(trees.sum()),
            None if outside is None else int((trees & outside).sum()),
            means(percent, rows),
            None if inside is None else means(inside, rows),
            int(np.isnan(percent[rows]).sum()),
            int(table.disturbed[rows].sum()),
        )

    rows, every = tuple(map(row, table.models)), np.ones(len(table), dtype=np.bool_)
    return Evaluation(
        table.name,
        predictor,
        predicted_j,
        rows,
        Errors.mean([row.errors for row in rows]),
        means(percent, every),
        None if inside is None else means(inside, every),
        promised,
        unknown,
    )


def evaluate(
    predictor: Predictor,
    table: NodeTable,
    joiner: Joiner,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare a predictor with measured trees.

    A measured row is compared with what its node takes when it is run alone, as it was
    measured, not with its part of a larger run.
    """
    predicted_j, width = np.full((2, len(table)), np.nan)
    outside = np.zeros(len(table.keys), dtype=np.bool_)
    for index, rows, joined in joiner.trees(table, progress):
        predicted_j[rows] = rows_alone_j(predictor.model, joined)
        _, within, causes = predictor.intervals(joined.tree, joined.work)
        outside[index] = bool(worth_saying(within, causes))
        width[rows] = with_beyond(within, causes)[np.maximum(joined.nodes, 0)]
    off = np.abs(np.log(predicted_j / table.energy_j))
    inside = np.where(np.isnan(off), np.nan, off <= width)
    return _evaluation(
        table,
        predictor.hardware.predictor or predictor.hardware.name,
        predicted_j,
        inside,
        outside,
        predictor.provenance.get("coverage"),
        dict(joiner.unknown),
    )


def evaluate_method(saved: SavedMethod, table: NodeTable) -> Evaluation:
    """Compare a saved method with measured trees; it has no intervals.

    The method does not see the energy of what it predicts.
    """
    blind = replace(table, energy_j=np.full(len(table), np.nan))
    predicted_j = saved.method.predict(blind)
    name = f"{saved.hardware.name} {saved.method.name} {saved.to_dict()['digest'][:8]}"
    return _evaluation(table, name, predicted_j)


def unmatched_paths(
    table: NodeTable, joiner: Joiner, progress: Progress | None = None
) -> dict[str, tuple[str, ...]]:
    """Paths of measured nodes that no trace has, by model.

    Models without a config are in `joiner.unknown` afterwards, and not here.
    """
    found: dict[str, dict[str, None]] = {}
    for index, _, joined in joiner.trees(table, progress):
        if joined.unmatched:
            paths = found.setdefault(table.keys[index].model, {})
            paths.update(dict.fromkeys(joined.unmatched))
    return {model: tuple(paths) for model, paths in found.items()}
