"""Attribution: events × power series → ledger, and the check that nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

import numpy as np

from irene.account.align.alignment import Aligned, align, clipped
from irene.account.align.nesting import Segments, own_segments
from irene.account.align.power import PowerSeries
from irene.account.align.sampled_together import Doubts
from irene.account.align.sharpening import sharpen
from irene.account.events import CPU, Events
from irene.account.ledger.grouping import distinct_ops
from irene.account.ledger.ledger import Ledger
from irene.account.ledger.rows import ChannelAccount
from irene.arrays import Bools, Ints
from irene.errors import UsageError

Split = Literal["equal", "flops", "threads", "sm"]
TOLERANCE = 1e-9
"""Largest share of the measured energy that rounding may lose."""
HEAVIEST = 2**30
"""Weight of the heaviest op; lighter ones are whole numbers down to 1."""


class ConservationError(ArithmeticError):
    """The parts of a ledger do not add up to what was measured: a bug of ours."""


def attribute(
    events: Events,
    power: Sequence[PowerSeries],
    *,
    split: Split = "equal",
    window_ns: tuple[int, int] | None = None,
) -> Ledger:
    """The ledger of a program.

    Args:
        events: What the program did.
        power: One series for each channel that counts; they must not overlap in what
            they cover.
        split: How ops that run at once share: alike, by FLOPs, by threads, or by the
            share of multiprocessors they keep busy.
        window_ns: Begin and end of what is accounted for, ns since 1970; None for the
            first begin to the last end of the events.

    Raises:
        UsageError: Nothing ran, there is no power, or the two do not overlap.
        ConservationError: The ledger does not add up.
    """
    if not len(events):
        raise UsageError("there are no op events to account for")
    if not power:
        raise UsageError("there is no power to account for: no channel gives energy")
    window = window_ns or events.span_ns
    check_overlap(window, power)
    weights = split_weights(events, split)
    own = own_segments(events.start_ns, events.end_ns, events.parent)
    segments = clipped(own, window)
    totals = _Totals(events)
    kinds = distinct_ops(events, events.scope.codes)[1]
    for series in power:
        rows = _charged(events, series.device)
        sharp, bins = sharpen(series, segments.of(rows), kinds, window)
        groups = _groups(events, segments, series.device)
        aligned = align(sharp, groups, len(events), window, weights, bins)
        totals.add(sharp, aligned, rows)
        spacing_s = series.spacing_s(events.start_ns[rows])
        totals.resolution_s[rows] = np.maximum(totals.resolution_s[rows], spacing_s)
    return Ledger(
        events,
        segments,
        tuple(power),
        tuple(totals.accounts),
        window,
        split,
        totals.energy_j,
        totals.half_width_j,
        totals.unknown_s,
        totals.resolution_s,
        totals.is_charged,
        totals.is_estimated,
        tuple(totals.doubts),
        (*events.notes, *_notes(events, totals, power, window)),
    )


class _Totals:
    """Sums over the channels."""

    def __init__(self, events: Events) -> None:
        count = len(events)
        self.energy_j, self.half_width_j = np.zeros(count), np.zeros(count)
        self.unknown_s, self.resolution_s = np.zeros(count), np.zeros(count)
        self.is_charged = np.zeros(count, dtype=np.bool_)
        self.is_estimated = np.zeros(count, dtype=np.bool_)
        self.accounts: list[ChannelAccount] = []
        self.doubts: list[Doubts] = []

    def add(self, series: PowerSeries, aligned: Aligned, rows: Bools) -> None:
        self.accounts.append(_checked(aligned.account))
        self.energy_j += aligned.energy_j
        self.half_width_j += aligned.energy_j * series.relative_error
        np.maximum(self.unknown_s, aligned.unknown_s, out=self.unknown_s)
        self.doubts.append(aligned.doubts)
        self.is_charged |= rows
        if series.source != "measured":
            self.is_estimated |= rows


def _checked(account: ChannelAccount) -> ChannelAccount:
    """The account of a channel, if it adds up."""
    # Written so that a NaN anywhere fails too.
    if not abs(account.difference_j) <= TOLERANCE * abs(account.measured_j):
        raise ConservationError(
            f"{account.name}: {account.measured_j!r} J were measured, but the ledger "
            f"has {account.attributed_j!r} J attributed, {account.idle_j!r} J idle, "
            f"{account.other_j!r} J of others and {account.unattributed_j!r} J "
            f"unattributed: {account.difference_j!r} J are missing"
        )
    return account


def _charged(events: Events, device: str) -> Bools:
    """Events that a channel of a device charges."""
    if not device:
        return np.ones(len(events), dtype=np.bool_)
    found: Bools = _codes_where(events, device)[events.device.codes]
    return found


def _codes_where(events: Events, device: str) -> Bools:
    return np.array([name == device for name in events.device.names], dtype=np.bool_)


def _groups(events: Events, segments: Segments, device: str) -> list[Segments]:
    """Segments by precedence.

    Ops come before marks: a thread that waits inside an annotation does no work. The
    meter of a whole machine charges accelerators first: a CPU op that runs beside a
    kernel mostly launches others or waits.
    """
    on_cpu = _codes_where(events, CPU)[events.device.codes]
    marks = events.is_mark
    if not device:
        choices = [~on_cpu & ~marks, on_cpu & ~marks, marks]
    else:
        here = _charged(events, device)
        choices = [here & ~marks, here & marks]
    return [segments.of(rows) for rows in choices if rows.any()]


def split_weights(events: Events, split: Split) -> Ints | None:
    """Whole weights of all events, None for equal ones.

    What is not known of an op counts as the lightest that is.
    """
    if split not in get_args(Split):
        raise UsageError(f"split is one of {', '.join(get_args(Split))}, got {split!r}")
    if split == "equal":
        return None
    values = events.weights.get(split)
    known = None if values is None else np.isfinite(values) & (values > 0)
    if values is None or known is None or not known.any():
        raise UsageError(
            f"--split {split}: the trace says nothing about the {split} of its ops; "
            "use --split equal"
        )
    filled = np.where(known, values, values[known].min())
    scaled = np.rint(filled * (HEAVIEST / filled.max()))
    whole: Ints = np.maximum(scaled, 1).astype(np.int64)
    return whole


def check_overlap(window: tuple[int, int], power: Sequence[PowerSeries]) -> None:
    """Refuse a trace and a power log of different times."""
    begin = min(series.span_ns[0] for series in power)
    end = max(series.span_ns[1] for series in power)
    if begin < window[1] and end > window[0]:
        return
    offset_s = (sum(window) / 2 - (begin + end) / 2) * 1e-9
    raise UsageError(
        "the trace and the power log do not overlap: the trace is from "
        f"{_moment(window[0])} to {_moment(window[1])}, the power from "
        f"{_moment(begin)} to {_moment(end)}; "
        f"--offset-s {offset_s:.3f} would lay their middles together"
    )


def _moment(time_ns: int) -> str:
    """A moment for people, and in seconds since 1970."""
    try:
        day = datetime.fromtimestamp(time_ns * 1e-9, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        day = "?"
    return f"{day} UTC ({time_ns * 1e-9:.3f} s)"


def _notes(
    events: Events,
    totals: _Totals,
    power: Sequence[PowerSeries],
    window: tuple[int, int],
) -> list[str]:
    notes = []
    for code, device in enumerate(events.device.names):
        rows = events.device.codes == code
        if rows.any() and not totals.is_charged[rows].any():
            notes.append(
                f"warning: no power of {device} is known: its {int(rows.sum()):,} "
                "events have no energy"
            )
    window_s = (window[1] - window[0]) * 1e-9
    for series, found in zip(power, totals.accounts, strict=True):
        if found.unknown_s > 0:
            notes.append(
                f"warning: no power of {series.name} is known for "
                f"{found.unknown_s:.3f} s of {window_s:.3f} s"
            )
        if series.device and series.device not in events.device.names:
            notes.append(f"warning: {series.name}: nothing ran on {series.device}")
    return notes
