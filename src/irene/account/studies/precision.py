"""Precision: how well runs agree, by their number, their batches and the period."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from irene.account.studies.likeness import pearson, pearson_matrix
from irene.account.studies.profile import OperationKey, profile
from irene.account.studies.program import Mode, Subject
from irene.account.studies.report import Finding, Report, meter_notes, operation_table
from irene.account.studies.run import Conditions, Job, Run
from irene.account.studies.store import Store
from irene.errors import UsageError
from irene.show.picture import AxisSpec, Line, Picture, heat_matrix, line_chart

__all__ = ["between_groups", "precision"]

Energies = Mapping[Any, float]
Points = dict[float, list[float]]
MOST_PAIRS = 200
SEED = 0


def precision(
    subject: Subject,
    conditions: Conditions,
    store: Store,
    periods_s: Sequence[float] = (),
    mode: Mode = "finetuning",
) -> Report:
    """Repeat a run and correlate the energies of its operations.

    Args:
        subject: The model.
        conditions: How it is run; at least two runs.
        store: Keeps the runs.
        periods_s: Sampling periods, s; those of the conditions if empty. The first is
            that of the plots by runs and batches.
        mode: What a step is.

    Raises:
        UsageError: There are not two runs, or a period is given twice.
    """
    periods_s = tuple(periods_s) or (conditions.period_s,)
    if conditions.runs < 2:
        raise UsageError(f"runs are compared with each other: --runs {conditions.runs}")
    if len(set(periods_s)) < len(periods_s):
        raise UsageError(f"a period is given twice: {periods_s}")
    jobs = [
        Job(subject, mode, replace(conditions, period_s=period_s), number)
        for number in range(1, conditions.runs + 1)
        for period_s in periods_s
    ]
    runs = store.runs(jobs)
    by_period = {p: runs[i :: len(periods_s)] for i, p in enumerate(periods_s)}
    first = by_period[periods_s[0]]
    found: dict[str, Points] = {
        "runs": between_groups([_energies(run) for run in first]),
        "batches": {
            float(count): _pairs([_energies(run, count) for run in first])
            for count in range(1, conditions.steps + 1)
        },
        "period": {
            period_s: _pairs([_energies(run) for run in each])
            for period_s, each in sorted(by_period.items())
        },
    }
    profiles = [
        profile(f"{subject.name}, {period_s:g} s", each)
        for period_s, each in by_period.items()
    ]
    return Report(
        "precision",
        f"{subject.name}, {mode}: how well runs agree",
        replace(conditions, period_s=periods_s[0]),
        tuple(_findings(found)),
        {"between-runs": _matrix(first), **_plots(found)},
        {"operations": operation_table(profiles)},
        meter_notes(profiles),
    )


def _energies(run: Run, batches: int | None = None) -> dict[Any, float]:
    """Mean energies of the operations in the first batches, J."""
    return {
        OperationKey(o.scope, o.op, o.phase, o.in_body): statistics.fmean(
            o.step_j[:batches]
        )
        for o in run.operations
    }


def _pairs(tables: Sequence[Energies]) -> list[float]:
    """Correlation of every pair."""
    found = [pearson(a, b) for a, b in itertools.combinations(tables, 2)]
    return [value for value in found if math.isfinite(value)]


def between_groups(tables: Sequence[Energies]) -> Points:
    """Correlation between means of two groups of runs, by the size of the groups.

    Groups share no run. Where there are many ways to choose them, some are drawn.

    Args:
        tables: Energies of each run.
    """
    draw = random.Random(SEED)
    found: Points = {}
    for size in range(1, len(tables) // 2 + 1):
        chosen: set[tuple[tuple[int, ...], ...]] = set()
        for _ in range(MOST_PAIRS):
            order = draw.sample(range(len(tables)), 2 * size)
            halves = (tuple(sorted(order[:size])), tuple(sorted(order[size:])))
            chosen.add(tuple(sorted(halves)))
        values = [
            pearson(*(_mean([tables[run] for run in half]) for half in halves))
            for halves in sorted(chosen)
        ]
        found[float(size)] = [value for value in values if math.isfinite(value)]
    return found


def _mean(tables: Sequence[Energies]) -> dict[Any, float]:
    """Mean energies of what all runs have seen, J."""
    shared = [key for key in tables[0] if all(key in table for table in tables)]
    return {key: statistics.fmean(table[key] for table in tables) for key in shared}


def _matrix(runs: Sequence[Run]) -> Picture:
    names = [f"run {number}" for number in range(1, len(runs) + 1)]
    return heat_matrix(
        pearson_matrix([_energies(run) for run in runs]), names, names,
        "Pearson correlation between runs", "", "of", "with",
    )  # fmt: skip


def _plots(found: Mapping[str, Points]) -> dict[str, Picture]:
    axes = {
        "runs": AxisSpec("runs averaged"),
        "batches": AxisSpec("batches per run"),
        "period": AxisSpec("sampling period", "s"),
    }
    pictures = {}
    for name, points in found.items():
        known = {x: values for x, values in points.items() if values}
        line = Line(
            "correlation",
            list(known),
            [statistics.fmean(values) for values in known.values()],
            [min(values) for values in known.values()],
            [max(values) for values in known.values()],
        )
        y = AxisSpec("Pearson correlation, mean and range")
        title = f"Agreement by {axes[name].label}"
        pictures[f"by-{name}"] = line_chart([line], title, axes[name], y)
    return pictures


def _findings(found: Mapping[str, Points]) -> list[Finding]:
    words = {
        "runs": "correlation, means of {:g} runs",
        "batches": "correlation, {:g} batches",
        "period": "correlation, period {:g} s",
    }
    return [
        Finding(words[name].format(x), statistics.fmean(values) if values else math.nan)
        for name, points in found.items()
        for x, values in points.items()
    ]
