"""Pictures of the answers of analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from irene.show.picture import AxisSpec, Bar, Dot, Line, bar_chart, line_chart, scatter

if TYPE_CHECKING:
    from irene.analyse.bottlenecks import Bottleneck, Bottlenecks
    from irene.analyse.comparison import Comparison
    from irene.analyse.grid import Outcome, WhatIf
    from irene.analyse.leaderboard import Leaderboard
    from irene.analyse.pareto import TradeOff
    from irene.show.picture import Picture

__all__ = [
    "bottleneck_bars",
    "comparison_bars",
    "leaderboard_bars",
    "trade_off_chart",
    "what_if_chart",
]

MOST_BARS = 40
MOST_LINES = 8
SIZES = {
    "batch_size": "batch size",
    "seq_len": "tokens per sequence",
    "context_len": "tokens in the cache",
    "prompt_len": "tokens of a prompt",
    "output_len": "tokens of an answer",
}
PER_TOKEN = {"decode": "token", "generate": "output token"}
"""Phases whose energy is drawn per token."""
WIDE = 16
"""Ratio of the greatest and least size from which an axis is logarithmic."""


def bottleneck_bars(found: Bottlenecks, rows: Sequence[Bottleneck]) -> Picture:
    """Energy of the largest parts, with what the machine needs at least."""
    bars = []
    for row in rows[:MOST_BARS]:
        bars.append(Bar(row.name, row.energy_j, group="used"))
        bars.append(Bar(row.name, row.at_best_j, group="at the machine's best"))
    return bar_chart(bars, f"{found.model}: where the energy goes", _joules("energy"))


def comparison_bars(found: Sequence[Comparison]) -> Picture:
    """Energy by role, a bar for every tree."""
    first = found[0]
    names = _unique([_side_name(first.base), *(_side_name(c.other) for c in found)])
    order = sorted(first.by_role, key=lambda row: -(row.base_j + row.other_j))
    bars = []
    for role in dict.fromkeys(row.name for c in (first, *found) for row in order):
        base = next((r.base_j for r in first.by_role if r.name == role), 0.0)
        bars.append(Bar(role, base, group=names[0]))
        for name, each in zip(names[1:], found, strict=True):
            value = next((r.other_j for r in each.by_role if r.name == role), 0.0)
            bars.append(Bar(role, value, group=name))
    title = f"energy per {first.per} by role"
    return bar_chart(bars, title, _joules(f"energy per {first.per}"))


def _side_name(side: Any) -> str:
    return f"{side.name} ({side.run})" if side.run else str(side.name)


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found


def what_if_chart(found: WhatIf) -> Picture:
    """Lines over the longest list of numbers; bars where there is none."""
    numeric = {
        name: values
        for name, values in found.choices.items()
        if len(values) > 2 and all(isinstance(v, int | float) for v in values)
    }
    if not numeric:
        return _what_if_bars(found)
    axis = max(numeric, key=lambda name: len(numeric[name]))
    groups: dict[str, list[Outcome]] = {}
    for row in found.rows:
        if row.energy is not None:
            rest = {k: v for k, v in row.settings.items() if k != axis}
            groups.setdefault(_told(rest) or found.model, []).append(row)
    if len(groups) > MOST_LINES:
        return _what_if_bars(found)
    lines = [_line(name, axis, rows, found) for name, rows in groups.items()]
    title = f"{found.model} for {found.hardware}"
    sizes = [value for line in lines for value in line.x]
    is_wide = axis in SIZES and max(sizes) >= WIDE * min(sizes) > 0
    x = AxisSpec(SIZES.get(axis, axis), log=is_wide)
    label = f"energy per {PER_TOKEN.get(found.phase, 'sequence')}"
    return line_chart(lines, title, x, AxisSpec(label, "J", log=is_wide))


def _per_unit(row: Outcome, found: WhatIf) -> float:
    """Runs that one sequence, or one token, is."""
    return 1 / (row.tokens if found.phase in PER_TOKEN else row.batch_size)


def _line(name: str, axis: str, rows: Sequence[Outcome], found: WhatIf) -> Line:
    ordered = sorted(rows, key=lambda row: float(row.settings[axis]))
    energies = [
        row.energy.scaled(_per_unit(row, found))
        for row in ordered
        if row.energy is not None
    ]
    return Line(
        name,
        [float(row.settings[axis]) for row in ordered],
        [energy.joules for energy in energies],
        [energy.low for energy in energies],
        [energy.high for energy in energies],
    )


def _what_if_bars(found: WhatIf) -> Picture:
    bars = []
    for row in (found.base, *found.rows)[:MOST_BARS]:
        if row.energy is not None:
            energy = row.energy.scaled(_per_unit(row, found))
            told = _told(row.settings)
            name = f"as it is ({told})" if row is found.base else told
            bars.append(Bar(name, energy.joules, energy.low, energy.high))
    title = f"{found.model} for {found.hardware}"
    unit = PER_TOKEN.get(found.phase, "sequence")
    return bar_chart(bars, title, _joules(f"energy per {unit}"))


def _told(settings: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def trade_off_chart(found: TradeOff, task: str, what: str) -> Picture:
    """Accuracy against energy with the Pareto front."""
    dots = [
        Dot(
            each.energy.joules,
            each.accuracy,
            each.model,
            x_low=each.energy.low,
            x_high=each.energy.high,
        )
        for each in found.candidates
    ]
    x = AxisSpec("energy per sequence", "J", log=True)
    title = f"{task} against energy: {what}"
    return scatter(dots, title, x, AxisSpec(task), front=("less", "more"))


def leaderboard_bars(found: Leaderboard) -> Picture:
    """The cheapest models."""
    bars = []
    for each in found.models[:MOST_BARS]:
        assert each.energy is not None
        assert each.per_sequence_j is not None
        factor = each.per_sequence_j / each.energy.joules
        energy = each.energy.scaled(factor)
        bars.append(Bar(each.model, energy.joules, energy.low, energy.high))
    return bar_chart(
        bars, f"models for {found.hardware}", _joules("energy per sequence")
    )


def _joules(label: str) -> AxisSpec:
    return AxisSpec(label, "J")
