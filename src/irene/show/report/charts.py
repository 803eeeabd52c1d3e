"""The pictures of a report: energy over sizes, and accuracy against energy."""

from __future__ import annotations

from collections.abc import Sequence

from irene.analyse.grid import Outcome, WhatIf
from irene.analyse.pareto import TradeOff
from irene.show.picture import AxisSpec, Dot, Line, Picture, line_chart, scatter

__all__ = ["AXES", "size_chart", "trade_off_chart"]

AXES = {
    "batch_size": "batch size",
    "seq_len": "tokens per sequence",
    "context_len": "tokens in the cache",
}
"""What the varied sizes are called."""
HERE = "this size"


def size_chart(found: WhatIf) -> Picture:
    """Energy per sequence over one size, with its interval and this run marked.

    Args:
        found: Rows that differ in one size.
    """
    axis = next(iter(found.choices))
    rows = [row for row in found.rows if row.energy is not None]
    rows.sort(key=lambda row: float(row.settings[axis]))
    here = [row for row in rows if row.settings[axis] == found.base.settings[axis]]
    lines = [_line(found.model, axis, rows), _line(HERE, axis, here)]
    x = AxisSpec(AXES[axis], log=axis == "batch_size", ticks=_ticks(axis, rows))
    title = f"Energy per sequence by {AXES[axis]}: {found.model} for {found.hardware}"
    y = AxisSpec("energy per sequence", "J", low=0)
    return line_chart(lines, title, x, y, (860, 380))


def _ticks(axis: str, rows: Sequence[Outcome]) -> tuple[float, ...]:
    if axis != "batch_size":
        return ()
    return tuple(float(row.settings[axis]) for row in rows)


def _line(name: str, axis: str, rows: Sequence[Outcome]) -> Line:
    energies = [row.energy.scaled(1 / row.batch_size) for row in rows if row.energy]
    return Line(
        name,
        [float(row.settings[axis]) for row in rows],
        [energy.joules for energy in energies],
        [energy.low for energy in energies],
        [energy.high for energy in energies],
    )


def trade_off_chart(found: TradeOff, model: str, title: str) -> Picture:
    """Accuracy against energy with the Pareto front; one model stands out.

    Args:
        found: All candidates.
        model: Name of the model of the report.
        title: What it shows.
    """
    is_there = any(each.model == model for each in found.candidates)
    dots = [
        Dot(
            each.energy.joules,
            each.accuracy,
            each.model,
            ("this model" if each.model == model else "other models")
            if is_there
            else "",
            x_low=each.energy.low,
            x_high=each.energy.high,
        )
        for each in found.candidates
    ]
    # The marked one is drawn last, above the others.
    dots.sort(key=lambda dot: dot.group == "this model")
    x = AxisSpec("energy per sequence", "J", log=True)
    y = AxisSpec("SST-2 accuracy", "%")
    return scatter(dots, title, x, y, ("less", "more"), (860, 520))
