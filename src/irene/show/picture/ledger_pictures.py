"""The pictures of a ledger: phases, power over time, the dearest operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.show.picture import AxisSpec, Bar, Picture, Span, bar_chart, timeline

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.account.ledger.rows import Row

__all__ = ["operation_picture", "phase_picture", "pictures", "power_pictures"]

TOP = 10
MOST_SPANS = 60
POINTS = 1500


def pictures(ledger: Ledger) -> list[Picture]:
    """All pictures of a ledger's page."""
    return [phase_picture(ledger), *power_pictures(ledger), operation_picture(ledger)]


def phase_picture(ledger: Ledger) -> Picture:
    """Energy by phase, and what belongs to no op."""
    bars = [_bar(row) for row in ledger.by_phase()]
    bars += [
        Bar(row.name, row.energy.joules, row.energy.low, row.energy.high)
        for row in ledger.rest()
        if row.energy is not None and row.energy.joules > 0
    ]
    return bar_chart(bars, "Energy by phase", AxisSpec("energy", "J"))


def _bar(row: Row) -> Bar:
    if row.energy is None:
        return Bar(row.name, float("nan"))
    return Bar(row.name, row.energy.joules, row.energy.low, row.energy.high)


def operation_picture(ledger: Ledger, top: int = TOP) -> Picture:
    """The dearest operations, layers merged; error bars are the spread over steps.

    Args:
        ledger: The ledger.
        top: How many.
    """
    bars = []
    for row in ledger.operations(top):
        steps = row.steps
        if steps is None:
            bars.append(_bar(row))
            continue
        low_j = max(0.0, steps.mean_j - steps.std_j)
        bars.append(Bar(row.name, steps.mean_j, low_j, steps.mean_j + steps.std_j))
    unit = "energy per step" if ledger.events.steps else "energy"
    title = f"The {len(bars)} dearest operations, layers merged"
    return bar_chart(bars, title, AxisSpec(unit, "J"))


def power_pictures(ledger: Ledger, depth: int = 2) -> list[Picture]:
    """Power of every channel over time, with steps or modules marked.

    Args:
        ledger: The ledger.
        depth: Level of the modules that are marked.
    """
    view = ledger.timeline(depth, POINTS)
    spans = [Span(begin_s, end_s, label) for label, begin_s, end_s in view.steps]
    if len(spans) < 2 and len(view.stretches) <= MOST_SPANS:
        spans = [
            Span(s.start_s, s.end_s, f"{s.scope} {s.phase}") for s in view.stretches
        ]
    found = []
    for name, curve in view.curves.items():
        if len(curve.power_w) < 1 or ledger.window_s <= 0:
            continue
        marked = spans if len(spans) <= MOST_SPANS else []
        found.append(
            timeline(
                curve.time_s.tolist(),
                {name: curve.power_w.tolist()},
                f"Power over time: {name}",
                AxisSpec("power", "W"),
                marked,
            )
        )
    return found
