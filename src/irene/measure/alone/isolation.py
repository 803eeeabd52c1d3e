"""Isolation: which rounds something else had a hand in.

| flag | what happened |
|---|---|
| `lost` | a meter gave nothing for part of the round: its energy is not known |
| `busy` | other processes used more than a tenth of the machine |
| `throttled` | the clock was more than a tenth below that of the other rounds |
| `hot` | power just before the round was more than a tenth above standby |
| `drifting` | latency or power is more than 5 % off the median of the rounds |

A flagged round is repeated, as often as the protocol allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from irene.measure.alone.bench import HOT, Round

__all__ = [
    "BUSY_PERCENT",
    "DRIFT",
    "FLAGS",
    "choose_rounds",
    "count_flags",
    "flags_of",
    "trend",
]

DRIFT = 0.05
"""Latency or power this far from the median of all rounds is a drift."""
DISTURBED = 1.2
"""A round whose mean is this many times its latency was held up now and then."""
BUSY_PERCENT = 10.0
TICK_S = 0.01
"""Steps in which Linux counts the load of a CPU, s."""
SLOW_CLOCK = 0.9

FLAGS = {
    "lost": "a meter was lost",
    "busy": "another process was busy",
    "throttled": "the clock was throttled",
    "hot": "the machine had not cooled down to standby power",
    "drifting": "latency or power drifted by more than 5 %",
}
"""What each flag says, in words."""


def flags_of(rounds: Sequence[Round]) -> list[tuple[str, ...]]:
    """Flags of every round, judged beside the others."""
    latency_s = median(r.latency_s for r in rounds)
    powers = [r.power_w for r in rounds if r.power_w == r.power_w]
    power_w = median(powers) if powers else 0.0
    clocks = [r.clock_mhz for r in rounds if r.clock_mhz == r.clock_mhz]
    clock_mhz = median(clocks) if clocks else 0.0
    return [_flags(r, latency_s, power_w, clock_mhz) for r in rounds]


def _flags(
    one: Round, latency_s: float, power_w: float, clock_mhz: float
) -> tuple[str, ...]:
    flags = []
    if one.energy_j != one.energy_j:
        flags.append("lost")
    if one.others > BUSY_PERCENT + 100 * TICK_S / one.duration_s:
        flags.append("busy")
    if one.clock_mhz < SLOW_CLOCK * clock_mhz:
        flags.append("throttled")
    if one.before_w > HOT * one.standby_w:
        flags.append("hot")
    power_drift = DRIFT + 2 * one.power_step
    if (
        abs(one.latency_s - latency_s) > DRIFT * latency_s
        or one.mean_s > DISTURBED * latency_s
        or abs(one.power_w - power_w) > power_drift * power_w
    ):
        flags.append("drifting")
    return tuple(flags)


def choose_rounds(
    rounds: Sequence[Round], flags: Sequence[tuple[str, ...]], wanted: int
) -> list[int]:
    """Places of the rounds that count: those without a flag, then the nearest.

    Args:
        rounds: All that were run.
        flags: Their flags.
        wanted: How many may count.
    """
    middle_s = median(r.latency_s for r in rounds)

    def rank(place: int) -> tuple[bool, bool, float]:
        distance = abs(rounds[place].latency_s - middle_s)
        clean = not flags[place]
        return "lost" in flags[place], not clean, 0.0 if clean else distance

    return sorted(sorted(range(len(rounds)), key=rank)[:wanted])


def trend(rounds: Sequence[Round]) -> bool:
    """Whether each round took longer than the one before, or less, by much in all."""
    times = [r.latency_s for r in rounds]
    steps = {(b > a) - (b < a) for a, b in pairwise(times)}
    one_way = len(times) > 2 and len(steps) == 1
    return one_way and max(times) - min(times) > DRIFT * median(times)


def count_flags(flags: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """How many rounds have each flag."""
    return dict(Counter(flag for one in flags for flag in one))
