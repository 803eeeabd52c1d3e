"""Something over time, one layer on the other, with marked spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from irene.arrays import Floats
from irene.errors import UsageError
from irene.show.picture.axis import HUGE, AxisSpec
from irene.show.picture.frame import Frame, Key, checked, role
from irene.show.picture.lettering import shortened
from irene.show.picture.picture import Picture
from irene.show.picture.units import amount

Numbers = Sequence[float] | Floats
MOST_STEPS = 1500
"""More steps than this are averaged: a screen has no more columns."""
SPAN_ROW = 18.0
MOST_SPAN_ROWS = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time to mark."""

    begin_s: float
    end_s: float
    name: str


def timeline(
    time_s: Numbers,
    layers: Mapping[str, Numbers],
    title: str,
    y: AxisSpec,
    spans: Sequence[Span] = (),
    size: tuple[float, float] = (860, 420),
) -> Picture:
    """Layers on each other; each step reaches from one moment to the next.

    Args:
        time_s: Moments that grow, s: one more than there are steps.
        layers: The mean of every step, layer by layer, from the ground up; not-a-number
            where it is not known, which leaves a gap in all layers above.
        title: What it shows.
        y: What is on each other; never an axis of ratios.
        spans: Stretches to mark above the chart.
        size: Of the picture, px.
    """
    times, table = _checked(time_s, layers)
    steps = table.shape[1]
    times, table = _thinned(times, table)
    tops = np.cumsum(table, axis=0)
    rows_of_spans = _span_rows(spans)
    known_tops = tops[np.isfinite(tops)].tolist()
    keys = [Key(name, role(i), "area") for i, name in enumerate(layers)]
    spec = replace(y, log=False, low=0.0)
    ends = [v for span in spans for v in (span.begin_s, span.end_s)]
    frame = Frame(
        title,
        AxisSpec("time", "s"),
        spec,
        [*times.tolist(), *ends],
        known_tops,
        keys if len(keys) > 1 else [],
        size,
        headroom=SPAN_ROW * (max(rows_of_spans, default=-1) + 1),
    )
    for i, (name, top) in enumerate(zip(layers, tops, strict=True)):
        ground = tops[i - 1] if i else np.zeros_like(top)
        _draw_layer(frame, times, ground, top, role(i), name)
        frame.skip(int(np.isnan(table[i]).sum()), name)
    _draw_spans(frame, spans, rows_of_spans)
    if table.shape[1] < steps:
        frame.notes.append(
            f"Each step is the mean of {-(-steps // MOST_STEPS)} samples."
        )
    rows = _rows(times, list(layers), table)
    return frame.finish(
        ("begin_s", "end_s", *layers), rows, _told(times, layers, table, y, spans)
    )


def _checked(time_s: Numbers, layers: Mapping[str, Numbers]) -> tuple[Floats, Floats]:
    times = np.array(checked(time_s, "a timeline"), dtype=np.float64)
    if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
        raise UsageError("cannot draw a timeline: its moments do not grow")
    steps = max(len(times) - 1, 0)
    table = np.full((len(layers), steps), np.nan)
    for i, (name, values) in enumerate(layers.items()):
        numbers = np.array(checked(values, name), dtype=np.float64)
        if len(numbers) != steps:
            raise UsageError(
                f"cannot draw {name}: {len(numbers)} values for {steps} steps of time"
            )
        if np.any(numbers < 0) or np.any(numbers > HUGE):
            raise UsageError(f"cannot draw {name}: negative values cannot be stacked")
        table[i] = numbers
    return times, table


def _thinned(times: Floats, table: Floats) -> tuple[Floats, Floats]:
    """Neighbouring steps as their mean over time, so that areas stay what they are."""
    steps = table.shape[1]
    stride = -(-steps // MOST_STEPS)
    if stride <= 1:
        return times, table
    starts = np.arange(0, steps, stride)
    seconds = np.diff(times)
    sums = np.add.reduceat(table * seconds, starts, axis=1)
    means = sums / np.add.reduceat(seconds, starts)
    return np.append(times[starts], times[-1]), means


def _draw_layer(
    frame: Frame, times: Floats, ground: Floats, top: Floats, colour: str, name: str
) -> None:
    known = np.concatenate(([False], np.isfinite(top), [False]))
    edges = np.flatnonzero(np.diff(known.astype(np.int8)))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        above = _outline(frame, times, top, begin, end)
        below = _outline(frame, times, ground, begin, end)
        frame.area([*above, *reversed(below)], colour, 0.75, name)
        frame.line(above, colour, 1.3)


def _outline(
    frame: Frame, times: Floats, values: Floats, begin: int, end: int
) -> list[tuple[float, float]]:
    points = []
    for i in range(begin, end):
        moments = (float(times[i]), float(times[i + 1]))
        points += [frame.place(time, float(values[i])) for time in moments]
    return points


def _span_rows(spans: Sequence[Span]) -> list[int]:
    """Row of every span above the chart, so that none covers another."""
    ends: list[float] = []
    rows = [0] * len(spans)
    for i in sorted(range(len(spans)), key=lambda i: spans[i].begin_s):
        free = (row for row, end in enumerate(ends) if end <= spans[i].begin_s)
        row = next(free, len(ends))
        ends[row : row + 1] = [spans[i].end_s]
        rows[i] = min(row, MOST_SPAN_ROWS - 1)
    return rows


def _draw_spans(frame: Frame, spans: Sequence[Span], rows: Sequence[int]) -> None:
    for span, row in zip(spans, rows, strict=True):
        left, right = frame.x.place(span.begin_s), frame.x.place(span.end_s)
        y = frame.y.end - SPAN_ROW * (row + 1)
        for x in (left, right):
            frame.line(
                [(x, frame.y.end), (x, frame.y.start)], "soft", 0.8, "2 3", False
            )
        size = (max(right - left, 1.0), SPAN_ROW - 4)
        hint = f"{span.name}: {amount(span.end_s - span.begin_s, 's')}"
        frame.rectangle((left, y), size, "raised", "soft", hint, corner=2,
                               mark=False)  # fmt: skip
        words = shortened(span.name, 11, right - left - 6)
        frame.text((left + 3, y + SPAN_ROW - 8), words, 11)


def _rows(
    times: Floats, names: Sequence[str], table: Floats
) -> list[tuple[float | None, ...]]:
    return [
        (
            float(times[i]),
            float(times[i + 1]),
            *(None if np.isnan(v) else float(v) for v in table[:, i]),
        )
        for i in range(table.shape[1])
        if names
    ]


def _told(
    times: Floats,
    layers: Mapping[str, Numbers],
    table: Floats,
    y: AxisSpec,
    spans: Sequence[Span],
) -> str:
    if not table.size:
        return "Nothing was recorded."
    told = [f"{y.label} over {amount(float(times[-1] - times[0]), 's')}."]
    for name, values in zip(layers, table, strict=True):
        known = values[np.isfinite(values)]
        if len(known):
            low, high = (amount(float(v), y.unit) for v in (known.min(), known.max()))
            told.append(f"{name}: {low} to {high}.")
    if spans:
        told.append("Marked: " + ", ".join(span.name for span in spans[:20]) + ".")
    return " ".join(told)
