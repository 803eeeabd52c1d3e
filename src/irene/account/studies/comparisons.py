"""Comparisons: the four studies, each of many runs under the same conditions.

- `grid`: what hyper-parameters do to the energy of a step, and of its operations.
- `evolution`: one model against another, aligned by what their parts are for.
- `modes`: pre-training, fine-tuning and prediction of one model.
- `precision`: how well runs agree, by their number, their batches and the period.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from irene.account.studies.findings import (
    Agreement,
    Finding,
    Study,
    Table,
    backward_finding,
    operation_table,
    ratio_finding,
    shape_findings,
    shape_table,
    top_findings,
)
from irene.account.studies.profile import (
    Profile,
    matrix,
    pearson,
    profile,
    role_of,
)
from irene.account.studies.program import MODES, Conditions, Job, Mode, Subject
from irene.account.studies.run import OperationKey, Run, Store
from irene.errors import UsageError

Energies = Mapping[Any, float]
MOST_PAIRS = 200
SEED = 0


def _profiles(
    programs: Sequence[tuple[str, Subject, Mode]], conditions: Conditions, store: Store
) -> list[Profile]:
    """Run programs in turn, as often as wanted, and take the mean of each.

    All are run once before any is run again, so that what drifts meanwhile, such as the
    temperature or other work on the machine, meets all of them alike.
    """
    jobs = [
        Job(subject, mode, conditions, number)
        for number in range(1, conditions.runs + 1)
        for _, subject, mode in programs
    ]
    runs = store.runs(jobs)
    return [
        profile(name, runs[place :: len(programs)])
        for place, (name, _, _) in enumerate(programs)
    ]


def _energy_findings(profiles: Sequence[Profile]) -> list[Finding]:
    return [
        Finding(f"{p.name}: energy per step", p.total_j, "J", p.deviation_j)
        for p in profiles
    ]


def _tables(profiles: Sequence[Profile]) -> dict[str, Table]:
    return {"shapes": shape_table(profiles), "operations": operation_table(profiles)}


# Hyper-parameters ---------------------------------------------------------------------


def grid(
    subjects: Sequence[Subject],
    conditions: Conditions,
    store: Store,
    mode: Mode = "finetuning",
) -> Study:
    """Run every configuration and compare all pairs, operation by operation.

    Raises:
        UsageError: There are not two configurations, or two are the same.
    """
    names = [each.name for each in subjects]
    if len(subjects) < 2:
        raise UsageError(
            f"a grid compares configurations, and there is {len(subjects)}: give a "
            "field at least two values (--set num_hidden_layers=2,4)"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the grid has {twice} twice")
    programs = [(each.name, each, mode) for each in subjects]
    profiles = _profiles(programs, conditions, store)
    findings = _energy_findings(profiles)
    fields = [each.fields for each in subjects]
    energies = [each.total_j for each in profiles]
    findings += [
        Finding(f"{name}: power with which energy follows", value)
        for name, value in elasticities(fields, energies).items()
    ]
    for each in profiles:
        findings += backward_finding(each)
    title = f"Hyper-parameters, {mode}: {', '.join(names)}"
    return Study("grid", title, mode, conditions, findings, profiles, _tables(profiles))


def elasticities(
    fields: Sequence[Mapping[str, Any]], energies: Sequence[float]
) -> dict[str, float]:
    """For each field the power of it with which energy goes, others being equal.

    1 means that twice the value takes twice the energy. It is the mean over all pairs
    of configurations that differ in this field alone.
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


# One model against another ------------------------------------------------------------


def evolution(
    old: Subject,
    new: Subject,
    conditions: Conditions,
    store: Store,
    mode: Mode = "finetuning",
) -> Study:
    """Run two models and compare them.

    Their modules have other names, so they are aligned by role (attention,
    feed-forward, embeddings, …) and phase.

    Raises:
        UsageError: Both are the same model.
    """
    if old.digest == new.digest:
        raise UsageError(f"{old.name} against {new.name}: both are the same model")
    programs = [(each.name, each, mode) for each in (old, new)]
    first, second = _profiles(programs, conditions, store)
    both = (first, second)
    title = f"{second.name} against {first.name}, {mode}"
    tables = {"aligned": _aligned(first, second), **_tables(both)}
    findings = _ratios(first, second)
    return Study("evolution", title, title, conditions, findings, both, tables)


def _role_and_phase(key: OperationKey) -> str:
    role = role_of(key)
    return role if role == key.phase else f"{role} · {key.phase}"


def _ratios(first: Profile, second: Profile) -> list[Finding]:
    against = f"{second.name} / {first.name}"
    steps = [(each.total_j, each.deviation_j) for each in (second, first)]
    found = [
        ratio_finding(f"{against}: energy per step", *steps),
        Finding(f"{against}: time per step", second.seconds / first.seconds),
        Finding(f"{against}: weights", second.parameters / first.parameters),
    ]
    for what, word in (("", attrgetter("phase")), ("role ", role_of)):
        old, new = first.by(word), second.by(word)
        old_spread, new_spread = first.spread_by(word), second.spread_by(word)
        found += [
            ratio_finding(
                f"{against}: {what}{name}",
                (new[name], new_spread[name]),
                (joules, old_spread[name]),
            )
            for name, joules in sorted(old.items(), key=lambda item: -item[1])
            if joules > 0 and name in new and not (what and name in first.by_phase())
        ]
    likeness = pearson(first.by(_role_and_phase), second.by(_role_and_phase))
    found.append(Finding("Pearson correlation of aligned roles and phases", likeness))
    for each in (first, second):
        found += shape_findings(each) + top_findings(each)
    return found


def _aligned(first: Profile, second: Profile) -> Table:
    old, new = first.by(_role_and_phase), second.by(_role_and_phase)
    names = dict.fromkeys([*old, *new])
    rows = [
        (
            name,
            old.get(name),
            new.get(name),
            new.get(name, 0.0) / old[name] if old.get(name) else None,
        )
        for name in names
    ]
    columns = ("role and phase", f"{first.name} (J)", f"{second.name} (J)", "ratio")
    return Table(columns, tuple(rows))


# Pre-training, fine-tuning, prediction -----------------------------------------------


def modes(
    subject: Subject,
    conditions: Conditions,
    store: Store,
    chosen: Sequence[Mode] = MODES,
) -> Study:
    """Run a model in every mode and compare them.

    Raises:
        UsageError: There are not two modes.
    """
    if len(set(chosen)) < 2 or len(set(chosen)) < len(chosen):
        raise UsageError(
            f"two or three of the modes {', '.join(MODES)} are compared, got "
            f"{', '.join(chosen) or 'none'}"
        )
    programs = [(mode, subject, mode) for mode in chosen]
    profiles = _profiles(programs, conditions, store)
    findings = _energy_findings(profiles)
    for each in profiles:
        findings += shape_findings(each) + top_findings(each)
    name, tables = subject.name, _tables(profiles)
    title = f"{name}: {', '.join(chosen)}"
    return Study("modes", title, name, conditions, findings, profiles, tables)


# Agreement of runs -------------------------------------------------------------------


def precision(
    subject: Subject,
    conditions: Conditions,
    store: Store,
    periods_s: Sequence[float] = (),
    mode: Mode = "finetuning",
) -> Study:
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
    found: dict[str, Agreement] = {
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
    return Study(
        "precision",
        f"{subject.name}, {mode}: how well runs agree",
        subject.name,
        replace(conditions, period_s=periods_s[0]),
        _agreement_findings(found),
        profiles,
        {"operations": operation_table(profiles)},
        found,
        matrix(pearson, [_energies(run) for run in first]),
    )


def _energies(run: Run, batches: int | None = None) -> dict[OperationKey, float]:
    """Mean energies of the operations in the first batches, J."""
    return {o.key: statistics.fmean(o.step_j[:batches]) for o in run.operations}


def _pairs(tables: Sequence[Energies]) -> list[float]:
    found = [pearson(a, b) for a, b in itertools.combinations(tables, 2)]
    return [value for value in found if math.isfinite(value)]


def between_groups(tables: Sequence[Energies]) -> Agreement:
    """Correlation between means of two groups of runs, by the size of the groups.

    Groups share no run. Where there are many ways to choose them, some are drawn.
    """
    draw = random.Random(SEED)
    found: Agreement = {}
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


def _agreement_findings(found: Mapping[str, Agreement]) -> list[Finding]:
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
