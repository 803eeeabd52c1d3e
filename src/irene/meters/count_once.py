"""Each joule counts once, also when several meters see it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from irene.meters.channel import Channel, Meter

__all__ = ["count_once", "part_of"]

WALL = "wall"
BOARD = "board"  # of a Jetson, with its CPU
ALSO = "not counted: {} covers it"


class _Relabelled:
    """A meter whose channels say something else."""

    def __init__(self, meter: Meter, channels: Sequence[Channel]) -> None:
        self.channels = tuple(channels)
        self.name, self.read, self.close = meter.name, meter.read, meter.close
        self.longest_interval_s = getattr(meter, "longest_interval_s", math.inf)
        self.holds_s = getattr(meter, "holds_s", 0.0)


def count_once(meters: Sequence[Meter]) -> list[Meter]:
    """The same meters, none of them counting what another one counts.

    Wall meters contain everything, so the others are only shown. Else what is covered
    twice counts where it comes first: the CPU by `rapl`, not again by `perf` or by an
    estimate.

    Args:
        meters: The better ones first.
    """
    wall = [
        m for m in meters if any(c.counted and c.covers == WALL for c in m.channels)
    ]
    seen: dict[str, str] = {}
    result: list[Meter] = []
    for meter in meters:
        by = wall[0].name if wall and meter not in wall else ""
        channels = [_counted(channel, by, seen) for channel in meter.channels]
        for channel in channels:
            if channel.in_total and channel.covers != WALL:
                seen.setdefault(part_of(channel), meter.name)
        same = channels == list(meter.channels)
        result.append(meter if same else _Relabelled(meter, channels))
    return result


def _counted(channel: Channel, by: str, seen: dict[str, str]) -> Channel:
    if not channel.in_total:
        return channel
    by = by or seen.get(part_of(channel), "")
    if not by:
        return channel
    note = "; ".join(filter(None, (channel.note, ALSO.format(by))))
    return replace(channel, counted=False, note=note)


def part_of(channel: Channel) -> str:
    """The part of a machine that a channel covers: the same for two that are rivals.

    Args:
        channel: One with energy.
    """
    if channel.covers.startswith("cpu") or channel.covers in ("soc-cpu", BOARD):
        return "cpu"
    return f"{channel.covers} {channel.device}".strip()
