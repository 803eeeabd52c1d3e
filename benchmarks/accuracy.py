"""Errors of every method on every split of PC1, beside the figures they are held to.

Rows are methods, columns are what was held out, cells the mean errors at the ml, module
and model level in percent. `groups` averages over what was held out, `nodes` over all
nodes of all rounds, as the paper does. Below a row stands what it is held to; two
figures are compared as they are printed.

    IRENE_DATA_DIR=… python benchmarks/accuracy.py [--quick] [--only specs counters]

The first round of `specs` traces all runs, which takes half a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from irene.dataset import NodeTable, TreeKey, read_data
from irene.errors import IreneError
from irene.predict import CrossValidation, Errors, Method, Split, crossvalidate
from irene.predict import make_method as method_by_name
from irene.predict.exams.crossvalidation import predict_round
from irene.predict.exams.splits import (
    Fold,
    by_batch_size,
    by_family,
    by_model,
    by_seq_len,
    larger_than,
    smaller_than,
)
from irene.predict.intervals import COVERAGE, LEVELS, widths_of
from irene.predict.learning.training_runs import held_out
from irene.predict.machines.specs.specs_method import FileModel, SpecsMethod
from irene.predict.machines.specs.specs_model import SpecsModel
from irene.predict.paper.baselines import PartialMethod

DATA = "irene-pc1"
SEEDS = (0, 1, 2)
LENGTHS = (96, 160, 224)
QUICK = ("model", "family")
TITLE = 34
"""Width of the first column."""

Bound = tuple[float | None, float | None, float | None]
Progress = Callable[[str], None]


@dataclass
class RememberedSpecs(SpecsMethod):
    """`specs`, fitted once for the same trees: `partial` and the intervals share it."""

    fits: ClassVar[dict[tuple[TreeKey, ...], tuple[SpecsModel, FileModel]]] = {}

    def fit(self, table: NodeTable) -> RememberedSpecs:
        """Learn from measured trees, or remember what was learned from them."""
        if table.keys not in self.fits:
            super().fit(table)
            self.fits[table.keys] = (self.model_, self.file_model_)
        self.model_, self.file_model_ = self.fits[table.keys]
        return self


@dataclass(frozen=True)
class Candidate:
    """A method as it is compared.

    Attributes:
        label: What its row is called.
        make: Makes it for a seed.
        seeds: Seeds whose errors are averaged.
        features: What it sees of a node.
        of_paper: Whether it is one of the paper's, whose figures are node-weighted.
    """

    label: str
    make: Callable[[int], Method]
    seeds: tuple[int, ...] = (0,)
    features: str = "all"
    of_paper: bool = False

    @property
    def weightings(self) -> tuple[str, ...]:
        """Averages that are worth printing."""
        return ("nodes", "groups") if self.of_paper else ("groups",)


def _of_paper(name: str, seeded: bool, features: str = "all") -> Candidate:
    return Candidate(
        name if features == "all" else f"{name}, {features} features",
        lambda seed: method_by_name(name, seed=seed, features=features),
        SEEDS if seeded else (0,),
        features,
        of_paper=True,
    )


CANDIDATES = (
    _of_paper("irene", seeded=True),
    _of_paper("irene", seeded=True, features="model"),
    _of_paper("irene", seeded=True, features="resource"),
    _of_paper("stepwise", seeded=True),
    _of_paper("sum", seeded=False),
    _of_paper("unstructured", seeded=False),
    _of_paper("utilisation", seeded=False),
    Candidate("counters", lambda _: method_by_name("counters")),
    Candidate("specs", lambda _: RememberedSpecs()),
    Candidate("partial", lambda _: PartialMethod(specs=RememberedSpecs())),
)


def by_some_lengths(table: NodeTable) -> list[Fold]:
    """Lengths between others, each from the rest."""
    wanted = {f"length {length}" for length in LENGTHS}
    return [fold for fold in by_seq_len(table) if fold.held_out in wanted]


COLUMNS: Mapping[str, Split] = {
    "model": by_model,
    "family": by_family,
    "small": smaller_than,
    "large": larger_than,
    "length": by_some_lengths,
    "batch": by_batch_size,
}
IN_WORDS: Mapping[str, str] = {
    "model": "one model",
    "family": "one family",
    "small": "tokens ≤ 1024",
    "large": "tokens > 2048",
    "length": "length 96, 160, 224",
    "batch": "one batch size",
}

AT_MOST: Mapping[tuple[str, str, str], Bound] = {
    ("irene", "nodes", "model"): (0.75, 8.8, 6.9),
    ("irene, model features", "nodes", "model"): (5.9, 11.8, 7.8),
    ("stepwise", "nodes", "model"): (None, 9.5, 15.0),
    ("sum", "nodes", "model"): (None, 16.4, 17.7),
    ("counters", "groups", "model"): (0.55, 0.50, 0.50),
    ("counters", "groups", "family"): (0.55, 0.50, 0.50),
    ("specs", "groups", "model"): (0.95, 1.0, 0.9),
    ("specs", "groups", "family"): (2.4, 2.6, 1.9),
    ("specs", "groups", "small"): (6.2, 6.2, 5.5),
    ("specs", "groups", "large"): (2.6, 2.0, 1.7),
    ("specs", "groups", "length"): (2.3, 1.5, 1.4),
    ("partial", "groups", "model"): (None, 1.2, 0.55),
}
"""What a row is held to, by label, weighting and column."""


@dataclass(frozen=True)
class Cell:
    """One method on one split.

    Attributes:
        errors: Mean errors, %.
        at_most: What they are held to, %; None where nothing is said.
    """

    errors: Errors
    at_most: Bound | None

    @property
    def verdict(self) -> str:
        """`ok` or `over`; empty where nothing is said."""
        if self.at_most is None:
            return ""
        return "over" if any(self.levels_over) else "ok"

    @property
    def levels_over(self) -> list[bool]:
        """For every level, whether the figure as printed is larger than its bound."""
        return [
            bound is not None and round(getattr(self.errors, level), 2) > bound
            for level, bound in zip(LEVELS, self.at_most or (None,) * 3, strict=True)
        ]


@dataclass(frozen=True)
class Row:
    """One method, averaged in one way, on all splits.

    Attributes:
        label: Name of the method.
        weighting: `groups` or `nodes`.
        cells: By column.
    """

    label: str
    weighting: str
    cells: Mapping[str, Cell] = field(default_factory=dict)


def compare(
    table: NodeTable,
    candidates: Sequence[Candidate] = CANDIDATES,
    columns: Mapping[str, Split] = COLUMNS,
    progress: Progress = lambda _: None,
) -> list[Row]:
    """Cross-validate every method on every split.

    Args:
        table: Measured trees.
        candidates: Methods.
        columns: Splits by name.
        progress: Told what is being done.
    """
    rows = []
    for candidate in candidates:
        results = {}
        for name, split in columns.items():
            progress(f"{candidate.label}: {IN_WORDS[name]} held out")
            results[name] = crossvalidate(
                table,
                candidate.make,
                split,
                candidate.seeds,
                features=candidate.features,
                split_name=name,
            )
        rows += [_row(candidate.label, w, results) for w in candidate.weightings]
    return rows


def _row(label: str, weighting: str, results: Mapping[str, CrossValidation]) -> Row:
    cells = {
        name: Cell(
            result.node_weighted if weighting == "nodes" else result.average,
            AT_MOST.get((label, weighting, name)),
        )
        for name, result in results.items()
    }
    return Row(label, weighting, cells)


def coverage(table: NodeTable) -> dict[str, dict[str, float]]:
    """Part of every held-out model's nodes inside intervals that never saw it, 0 to 1.

    The width for a model is the largest of the other models' quantiles, each when that
    model was held out.

    Args:
        table: Measured trees.

    Returns:
        Coverage by model and level.
    """
    groups = [
        held_out(
            table.take(fold.test),
            predict_round(table, RememberedSpecs(), fold).energy_j,
        )
        for fold in by_model(table)
    ]
    covered = {}
    for i, (model, group) in enumerate(zip(table.models, groups, strict=True)):
        widths = widths_of([*groups[:i], *groups[i + 1 :]])
        covered[model] = {
            level: float(np.mean(np.abs(group[level]) <= widths[level]))
            for level in LEVELS
        }
    return covered


def read_pc1() -> NodeTable:
    """The measured trees of PC1.

    Raises:
        UsageError: They are not on this machine; the message says what to do.
    """
    return read_data(DATA)[0]


def _numbers(values: Sequence[float | None]) -> str:
    return " ".join("    –" if v is None else f"{v:5.2f}" for v in values)


def _levels(errors: Errors) -> list[float]:
    return [getattr(errors, level) for level in LEVELS]


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    columns = list(rows[0].cells)
    print(" " * TITLE + "".join(f"{IN_WORDS[name]:25}" for name in columns).rstrip())
    print(" " * TITLE + "".join(f"{'   ml  modu  model':25}" for _ in columns).rstrip())
    for row in rows:
        cells = row.cells.values()
        title = f"{row.label} ({row.weighting})"
        line = "".join(f"{_numbers(_levels(cell.errors)):25}" for cell in cells)
        print(f"{title:{TITLE}}{line}".rstrip())
        if any(cell.at_most for cell in cells):
            bounds = [
                f"{_numbers(cell.at_most)} {cell.verdict}" if cell.at_most else ""
                for cell in cells
            ]
            line = "".join(f"{bound:25}" for bound in bounds)
            print(f"{'  at most':{TITLE}}{line}".rstrip())


def show_coverage(covered: Mapping[str, Mapping[str, float]]) -> None:
    """Print how often the intervals of `specs` hold."""
    print(f"\nspecs: nodes inside intervals of {COVERAGE:.0%}, %, per held-out model")
    print(f"{'':{TITLE}}{'   ml  modu  model'}")
    for model, levels in covered.items():
        print(f"{model:{TITLE}}{_numbers([100 * levels[level] for level in LEVELS])}")


def to_dict(
    rows: Sequence[Row], covered: Mapping[str, Mapping[str, float]]
) -> dict[str, object]:
    """The JSON document."""
    return {
        "schema": "irene.accuracy/1",
        "dataset": DATA,
        "rows": [
            {
                "method": row.label,
                "averaged_over": row.weighting,
                "split": name,
                **cell.errors.to_dict(),
                "at_most": dict(zip(LEVELS, cell.at_most, strict=True))
                if cell.at_most
                else None,
                "verdict": cell.verdict or None,
            }
            for row in rows
            for name, cell in row.cells.items()
        ],
        "coverage": covered,
    }


def main() -> int:
    """Measure and print."""
    labels = [candidate.label for candidate in CANDIDATES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--only", nargs="+", choices=labels, metavar="METHOD")
    parser.add_argument(
        "--quick", action="store_true", help=f"splits {', '.join(QUICK)}; one seed"
    )
    options = parser.parse_args()
    chosen = [c for c in CANDIDATES if c.label in (options.only or labels)]
    columns = COLUMNS
    if options.quick:
        chosen = [Candidate(**{**vars(c), "seeds": (0,)}) for c in chosen]
        columns = {name: COLUMNS[name] for name in QUICK}
    try:
        table = read_pc1()
    except IreneError as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return error.exit_code
    note: Progress = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    rows = compare(table, chosen, columns, note)
    covered = coverage(table) if any(c.label == "specs" for c in chosen) else {}
    if options.json:
        print(json.dumps(to_dict(rows, covered), indent=2))
        return 0
    show(rows)
    if covered:
        show_coverage(covered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
