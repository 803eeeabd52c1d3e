"""Grid: what hyper-parameters do to the energy of a step, and of its operations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from irene.account.studies.likeness import difference_matrix, pearson_matrix
from irene.account.studies.profile import Profile, profile
from irene.account.studies.program import Mode, Subject
from irene.account.studies.report import (
    Finding,
    Report,
    energy_bars,
    meter_notes,
    operation_table,
)
from irene.account.studies.run import Conditions, Job
from irene.account.studies.shapes import backward_finding, shape_table
from irene.account.studies.store import Store
from irene.errors import UsageError
from irene.show.picture import heat_matrix

__all__ = ["elasticities", "grid", "profiles_of"]


def grid(
    subjects: Sequence[Subject],
    conditions: Conditions,
    store: Store,
    mode: Mode = "finetuning",
) -> Report:
    """Run every configuration and compare all pairs, operation by operation.

    Args:
        subjects: The configurations; `fields` say how they differ.
        conditions: How they are run.
        store: Keeps the runs.
        mode: What a step is.

    Raises:
        UsageError: There are not two configurations, or two are the same.
    """
    _check(subjects)
    profiles = profiles_of([(each, mode) for each in subjects], conditions, store)
    names = [each.name for each in profiles]
    tables = [each.joules for each in profiles]
    pictures = {
        "energy": energy_bars(profiles, f"Energy of a {mode} step"),
        "difference": heat_matrix(
            difference_matrix(tables), names, names,
            "Median difference of an operation's energy, column against row",
            "%", "from", "to",
        ),
        "correlation": heat_matrix(
            pearson_matrix(tables), names, names,
            "Pearson correlation of the energies of operations", "", "of", "with",
        ),
    }  # fmt: skip
    findings = [Finding(f"{p.name}: energy per step", p.total_j, "J") for p in profiles]
    fields = [each.fields for each in subjects]
    energies = [each.total_j for each in profiles]
    findings += [
        Finding(f"{name}: power with which energy follows", value)
        for name, value in elasticities(fields, energies).items()
    ]
    for each in profiles:
        findings += backward_finding(each)
    return Report(
        "grid",
        f"Hyper-parameters, {mode}: {', '.join(names)}",
        conditions,
        tuple(findings),
        pictures,
        {"shapes": shape_table(profiles), "operations": operation_table(profiles)},
        meter_notes(profiles),
    )


def _check(subjects: Sequence[Subject]) -> None:
    if len(subjects) < 2:
        raise UsageError(
            f"a grid compares configurations, and there is {len(subjects)}: give a "
            "field at least two values (--set num_hidden_layers=2,4)"
        )
    names = [each.name for each in subjects]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the grid has {twice} twice")


def profiles_of(
    programs: Sequence[tuple[Subject, Mode]],
    conditions: Conditions,
    store: Store,
    names: Sequence[str] = (),
) -> list[Profile]:
    """Run programs in turn, as often as wanted, and take the mean of each.

    All are run once before any is run again, so that what drifts meanwhile, such as the
    temperature or other work on the machine, meets all of them alike.

    Args:
        programs: What to run.
        conditions: How.
        store: Keeps the runs.
        names: What to call the profiles; those of the subjects if empty.
    """
    jobs = [
        Job(subject, mode, conditions, number)
        for number in range(1, conditions.runs + 1)
        for subject, mode in programs
    ]
    runs = store.runs(jobs)
    return [
        profile(name, runs[place :: len(programs)])
        for place, name in enumerate(names or [subject.name for subject, _ in programs])
    ]


def elasticities(
    fields: Sequence[Mapping[str, Any]], energies: Sequence[float]
) -> dict[str, float]:
    """For each field the power of it with which energy goes, others being equal.

    1 means that twice the value takes twice the energy. It is the mean over all pairs
    of configurations that differ in this field alone.

    Args:
        fields: Of the configurations.
        energies: Of the configurations, J.
    """
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for each in fields for name in each):
        slopes = [
            math.log(energies[b] / energies[a]) / math.log(fields[b][name] / value)
            for a, one in enumerate(fields)
            for b in range(a + 1, len(fields))
            if _is_size(value := one[name])
            and _is_size(fields[b][name])
            and fields[b][name] != value
            and all(fields[b][n] == one[n] for n in one if n != name)
        ]
        if slopes:
            found[name] = statistics.fmean(slopes)
    return found


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
