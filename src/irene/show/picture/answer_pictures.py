"""Pictures of answers: bottlenecks, comparisons, sizes, servings, ledgers, exams, …."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.energy import Energy
from irene.show.picture.axis import AxisSpec
from irene.show.picture.bars import Bar, bar_chart
from irene.show.picture.line_chart import Line, distribution, line_chart
from irene.show.picture.picture import Picture
from irene.show.picture.scatter import Dot, scatter
from irene.show.picture.timeline_chart import Span, timeline
from irene.show.terminal import machine_words
from irene.tree.headline import run_sizes, unit_words

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.analyse.bottlenecks import Bottleneck, Bottlenecks
    from irene.analyse.comparison import Comparison
    from irene.analyse.curve import Curves
    from irene.analyse.grid import Outcome, WhatIf
    from irene.analyse.leaderboard import Leaderboard
    from irene.analyse.pareto import TradeOff
    from irene.analyse.serving_plan import ServingOption, ServingPlan
    from irene.measure.windows.monitored import Monitored
    from irene.predict.exams.crossvalidation import CrossValidation

MOST_BARS = 40
MOST_LINES = 8
SIZES = {
    "batch_size": "batch size",
    "seq_len": "tokens per sequence",
    "context_len": "tokens in the cache",
    "prompt_len": "tokens of a prompt",
    "output_len": "tokens of an answer",
}
"""What the varied sizes are called."""
PER_TOKEN = ("decode", "generate")
"""Phases whose energy is drawn per token."""
WIDE = 16
"""Ratio of the greatest and least size from which an axis is logarithmic."""
ACCURACY = AxisSpec("SST-2 accuracy", "%")
DEAREST = 10
MOST_SPANS, MOST_POINTS = 60, 1500
LEVEL_NAMES = {"ml": "ML primitives", "module": "modules", "model": "whole models"}
MOST_DRAWN = 1000


def answer_picture(found: Any) -> Picture:
    """The picture of any answer that is drawn as it is."""
    charts: dict[str, Callable[[Any], Picture]] = {
        "Bottlenecks": lambda found: bottleneck_bars(found, found.top()),
        "Comparisons": lambda found: comparison_bars(found.comparisons),
        "Curves": curve_chart,
        "Leaderboard": leaderboard_bars,
        "ServingPlan": serving_chart,
        "TradeOff": lambda found: trade_off_chart(
            found,
            "",
            f"{found.score} against energy: {', '.join(run_sizes(found.run))}, "
            f"for {machine_words(found.hardware)}",
            AxisSpec(found.score),
        ),
        "WhatIf": what_if_chart,
    }
    return charts[type(found).__name__](found)


def _energy_bars(
    named: Sequence[tuple[str, Energy]], title: str, label: str = "energy"
) -> Picture:
    bars = [Bar.of(name, energy) for name, energy in named[:MOST_BARS]]
    return bar_chart(bars, title, AxisSpec(label, "J"))


def bottleneck_bars(found: Bottlenecks, rows: Sequence[Bottleneck]) -> Picture:
    """Energy of the largest parts, with what the machine needs at least."""
    bars = []
    for row in rows[:MOST_BARS]:
        bars.append(Bar(row.name, row.energy_j, group="used"))
        bars.append(Bar(row.name, row.at_best_j, group="at the machine's best"))
    title = f"{found.model}: where the energy goes"
    return bar_chart(bars, title, AxisSpec("energy", "J"))


def comparison_bars(found: Sequence[Comparison]) -> Picture:
    """Energy by role, a bar for every tree."""
    first = found[0]
    names = _unique([_side_name(first.base), *(_side_name(c.other) for c in found)])
    bases = {row.name: row.base_j for row in first.by_role}
    others = [{row.name: row.other_j for row in each.by_role} for each in found]
    order = sorted(first.by_role, key=lambda row: -(row.base_j + row.other_j))
    bars = [
        Bar(role, energies.get(role, 0.0), group=name)
        for role in dict.fromkeys(row.name for row in order)
        for name, energies in zip(names, [bases, *others], strict=True)
    ]
    label = f"energy per {first.unit}"
    return bar_chart(bars, f"{label.capitalize()} by role", AxisSpec(label, "J"))


def _side_name(side: Any) -> str:
    return f"{side.name} ({side.run})" if side.run else str(side.name)


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def leaderboard_bars(found: Leaderboard) -> Picture:
    """The cheapest models."""
    named = []
    for each in found.models[:MOST_BARS]:
        assert each.energy is not None
        assert each.per_sequence_j is not None
        factor = each.per_sequence_j / each.energy.joules
        named.append((each.model, each.energy.scaled(factor)))
    run = ", ".join(run_sizes(found.run))
    label = f"energy per {unit_words(found.run.phase)[0]}"
    return _energy_bars(named, f"Models for {found.hardware}: {run}", label)


# Other sizes and settings -----------------------------------------------------


def what_if_chart(found: WhatIf) -> Picture:
    """Lines over the longest list of numbers; bars where there is none."""
    per_token = found.phase in PER_TOKEN
    label = f"energy per {unit_words(found.phase)[per_token]}"
    title = f"{found.model} for {found.hardware}"
    numeric = {
        name: values
        for name, values in found.choices.items()
        if len(values) > 2 and all(isinstance(v, int | float) for v in values)
    }
    axis = max(numeric, key=lambda name: len(numeric[name]), default="")
    groups: dict[str, list[Outcome]] = {}
    for row in found.rows:
        if row.energy is not None:
            rest = {k: v for k, v in row.settings.items() if k != axis}
            groups.setdefault(_told(rest) or found.model, []).append(row)
    if not axis or len(groups) > MOST_LINES:
        named = [
            (_bar_name(row, found), _per_unit(row, per_token))
            for row in (found.base, *found.rows)[:MOST_BARS]
            if row.energy is not None
        ]
        return _energy_bars(named, title, label)
    lines = [_line(name, axis, rows, per_token) for name, rows in groups.items()]
    sizes = [value for line in lines for value in line.x]
    is_wide = axis in SIZES and max(sizes) >= WIDE * min(sizes) > 0
    x = AxisSpec(SIZES.get(axis, axis), log=is_wide)
    return line_chart(lines, title, x, AxisSpec(label, "J", log=is_wide))


def curve_chart(found: Curves) -> Picture:
    """Energy of a run over a size, a line with its interval for each subject."""
    lines = [
        Line.of(line.name, ((point.size, point.energy) for point in line.points))
        for line in found.lines
    ]
    label = SIZES.get(found.over, found.over)
    title = f"Energy by {label}: {', '.join(line.name for line in found.lines)}"
    x = AxisSpec(label, log=True)
    return line_chart(lines, title, x, AxisSpec("energy per run", "J", log=True))


def _bar_name(row: Outcome, found: WhatIf) -> str:
    told = _told(row.settings)
    return f"as it is ({told})" if row is found.base else told


def _told(settings: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _per_unit(row: Outcome, per_token: bool) -> Energy:
    """Energy of one token, or of one sequence."""
    assert row.energy is not None
    return row.energy.scaled(1 / (row.tokens if per_token else row.batch_size))


def _line(
    name: str, axis: str, rows: Sequence[Outcome], per_token: bool = False
) -> Line:
    ordered = sorted(rows, key=lambda row: float(row.settings[axis]))
    places = (float(row.settings[axis]) for row in ordered)
    energies = (_per_unit(row, per_token) for row in ordered)
    return Line.of(name, zip(places, energies, strict=True))


def size_chart(found: WhatIf) -> Picture:
    """Energy of a sequence over one size, with its interval and this run marked."""
    axis = next(iter(found.choices))
    rows = [row for row in found.rows if row.energy is not None]
    here = [row for row in rows if row.settings[axis] == found.base.settings[axis]]
    every = _line(found.model, axis, rows)
    is_batch = axis == "batch_size"
    ticks = tuple(every.x) if is_batch else ()
    x = AxisSpec(SIZES[axis], log=is_batch, ticks=ticks)
    label = f"energy per {unit_words(found.phase)[0]}"
    of = f"{SIZES[axis]}: {found.model} for {found.hardware}"
    title = f"{label.capitalize()} by {of}"
    lines = [every, _line("this size", axis, here)]
    y = AxisSpec(label, "J", low=0)
    return line_chart(lines, title, x, y, (860, 380))


# Servings ---------------------------------------------------------------------


def serving_chart(found: ServingPlan) -> Picture:
    """Energy per token over the time between tokens, a line for each set of GPUs."""
    groups: dict[str, list[ServingOption]] = {}
    for each in sorted(found.options, key=lambda each: each.batch_size):
        groups.setdefault(each.name, []).append(each)
    cheapest = sorted(
        groups, key=lambda g: min(o.j_per_output_token for o in groups[g])
    )
    lines = [
        Line(
            name,
            [1e3 * each.tbt_s for each in groups[name]],
            [each.j_per_output_token for each in groups[name]],
            [each.low_j for each in groups[name]],
            [each.high_j for each in groups[name]],
        )
        for name in cheapest[:MOST_LINES]
    ]
    x = AxisSpec("time between two tokens of a stream", "ms", log=True)
    y = AxisSpec("energy per output token", "J", log=True)
    return line_chart(lines, f"Servings of {found.model}", x, y)


# Accuracy ---------------------------------------------------------------------


def trade_off_chart(
    found: TradeOff,
    model: str,
    title: str,
    accuracy: AxisSpec = ACCURACY,
) -> Picture:
    """Accuracy against energy with the Pareto front."""
    is_there = any(each.model == model for each in found.candidates)
    dots = [
        Dot(
            each.energy.joules,
            each.accuracy,
            each.model,
            ("this model" if each.model == model else "other models")
            if is_there
            else "",
            each.energy.low,
            each.energy.high,
            each.on_front,
        )
        for each in found.candidates
    ]
    # The marked one is drawn last, above the others.
    dots.sort(key=lambda dot: dot.group == "this model")
    x = AxisSpec("energy per sequence", "J", log=True)
    size = (860, 520) if model else (860, 480)
    return scatter(dots, title, x, accuracy, size)


# A ledger ---------------------------------------------------------------------


def ledger_pictures(ledger: Ledger) -> list[Picture]:
    """Phases, power over time, the dearest operations."""
    return [_phases(ledger), *_power(ledger), _operations(ledger)]


def _phases(ledger: Ledger) -> Picture:
    """Energy by phase, and what belongs to no op."""
    bars = [Bar.of(row.name, row.energy) for row in ledger.by_phase()]
    bars += [
        Bar.of(row.name, row.energy)
        for row in ledger.rest()
        if row.energy is not None and row.energy.joules > 0
    ]
    return bar_chart(bars, "Energy by phase", AxisSpec("energy", "J"))


def _operations(ledger: Ledger) -> Picture:
    """The dearest operations, layers merged; error bars are the spread over steps."""
    bars = []
    for row in ledger.operations(DEAREST):
        steps = row.steps
        if steps is None:
            bars.append(Bar.of(row.name, row.energy))
            continue
        low_j = max(0.0, steps.mean_j - steps.std_j)
        bars.append(Bar(row.name, steps.mean_j, low_j, steps.mean_j + steps.std_j))
    unit = "energy per step" if ledger.events.steps else "energy"
    title = f"The {len(bars)} dearest operations, layers merged"
    return bar_chart(bars, title, AxisSpec(unit, "J"))


def _power(ledger: Ledger) -> list[Picture]:
    """Power of every channel over time, with steps or modules marked."""
    view = ledger.timeline(2, MOST_POINTS)
    spans = [Span(begin_s, end_s, label) for label, begin_s, end_s in view.steps]
    if len(spans) < 2 and len(view.stretches) <= MOST_SPANS:
        spans = [
            Span(s.start_s, s.end_s, f"{s.scope} {s.phase}") for s in view.stretches
        ]
    return [
        timeline(
            curve.time_s.tolist(),
            {name: curve.power_w.tolist()},
            f"Power over time: {name}",
            AxisSpec("power", "W"),
            spans if len(spans) <= MOST_SPANS else [],
        )
        for name, curve in view.curves.items()
        if len(curve.power_w) and ledger.window_s > 0
    ]


def monitor_picture(found: Monitored) -> Picture:
    """Power of a program over time, one layer for each channel that counts."""
    source = f" ({found.energy.source})" if found.energy else ""
    title = f"Power over time: {found.title}{source}"
    edges = found.edges_s if found.duration_s > 0 else ()
    layers = found.power_w if found.duration_s > 0 else {}
    return timeline(edges, layers, title, AxisSpec("power", "W"))


# An exam ----------------------------------------------------------------------


def error_picture(result: CrossValidation) -> Picture:
    """Which part of the nodes is off by at most a value: the paper's Figure 3.

    Of many nodes, evenly spaced ones are drawn, the ends among them.
    """
    samples = {
        f"{LEVEL_NAMES[level]} ({len(errors):,})": errors[
            np.linspace(0, len(errors) - 1, min(len(errors), MOST_DRAWN))
            .round()
            .astype(np.int64)
        ].tolist()
        for level, errors in result.node_errors.items()
        if len(errors)
    }
    title = f"Errors of {result.method} on {result.dataset}, held out: {result.split}"
    return distribution(samples, title, AxisSpec("error", "%", log=True), "nodes")
