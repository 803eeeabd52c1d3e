"""Rounds of a node: what disturbed them, which count, and the figures from these.

A round with a flag is repeated, as often as the protocol allows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean, median, stdev
from typing import Any

from irene.saved import Saved

COVERAGE = 0.90
HOT = 1.1
"""Power above standby times this is not standby."""
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
"""What each flag says, in words; of a lost meter the energy is not known."""


@dataclass(frozen=True, slots=True)
class Round(Saved):
    """One round of a node; energies are of one run of it, NaN where nothing is known.

    Attributes:
        repeats: Runs in this round.
        latency_s: Time of a run, s: mean over the faster half of the round's pieces.
            What disturbs a run makes it longer, never shorter.
        mean_s: Mean time of a run over the whole round, s.
        energy_j: Energy of a run, J: mean power times latency.
        power_step: Steps of the meters as a part of the round's power.
        before_w: Power just before the round, W.
        standby_w: Power of the machine doing nothing, W.
        others: Load of other processes, % of the machine.
        features: Mean load, memory and clocks, by their names in the paper.
    """

    repeats: int
    duration_s: float
    latency_s: float
    mean_s: float
    energy_j: float
    half_width_j: float
    gpu_energy_j: float
    power_step: float
    before_w: float
    standby_w: float
    others: float
    clock_mhz: float
    features: dict[str, float] = field(default_factory=dict)

    @property
    def power_w(self) -> float:
        """Mean power of the round, W."""
        return self.energy_j / self.latency_s


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
    """Places of the rounds that count: those without a flag, then the nearest."""
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


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run of a node: median energy, J, and its 90 % interval."""

    energy_j: float
    low_j: float
    high_j: float
    features: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeResult(Saved):
    """What was measured of a distinct node, and when, or the problem that there was.

    The label is path and class of its first occurrence; `wanted` rounds of all may
    count.
    """

    key: str
    label: str
    rounds: tuple[Round, ...] = ()
    wanted: int = 0
    problem: str = ""
    date: str = ""
    flags: list[tuple[str, ...]] = field(init=False)
    kept: list[int] = field(init=False)

    def __post_init__(self) -> None:
        flags = flags_of(self.rounds) if self.rounds else []
        kept = choose_rounds(self.rounds, flags, self.wanted) if self.rounds else []
        object.__setattr__(self, "flags", flags)
        object.__setattr__(self, "kept", kept)

    @property
    def counting(self) -> list[Round]:
        """The rounds that count."""
        return [self.rounds[place] for place in self.kept]

    @property
    def energy_known(self) -> bool:
        """Whether at least one round that counts has its energy."""
        return any(r.energy_j == r.energy_j for r in self.counting)

    @property
    def remaining_flags(self) -> dict[str, int]:
        """Flags of the rounds that count, and how many of these have each."""
        found = dict(Counter(flag for place in self.kept for flag in self.flags[place]))
        if trend(self.counting):
            found.setdefault("drifting", len(self.kept))
        return found

    def figures(self) -> Figures:
        """Medians over the rounds, and 90 % intervals.

        An interval is what the spread of the rounds leaves open, by Student's t, plus
        the half width of the meters.
        """
        rounds = [r for r in self.counting if r.energy_j == r.energy_j]
        if not rounds:
            return Figures(math.nan, math.nan, math.nan, dict(self._features()))
        energies = [r.energy_j for r in rounds]
        middle = median(energies)
        half = _t_half_width(energies) + median(r.half_width_j for r in rounds)
        low, high = max(0.0, middle - half), middle + half
        return Figures(middle, min(low, middle), high, dict(self._features()))

    def _features(self) -> Iterator[tuple[str, float]]:
        rounds = self.counting
        if not rounds:
            return
        yield "times_mean", median(r.latency_s for r in rounds)
        yield "times_spread", _spread([r.latency_s for r in rounds])
        energies = {
            "energy_spread": [r.energy_j for r in rounds],
            "gpu_energy_mean": [r.gpu_energy_j for r in rounds],
            "net_energy_mean": [r.energy_j - r.standby_w * r.latency_s for r in rounds],
        }
        for name, values in energies.items():
            yield name, _known(values, _spread if "spread" in name else median)
        for name in rounds[0].features:
            values = [r.features.get(name, math.nan) for r in rounds]
            yield name, _known(values, mean)
        yield "rounds", len(rounds)
        yield "rounds_repeated", max(0, len(self.rounds) - self.wanted)
        yield "repeats", median(r.repeats for r in rounds)
        for flag, count in self.remaining_flags.items():
            yield f"rounds_{flag}", count


def _known(values: list[float], combine: Callable[[Any], float]) -> float:
    """Made of those values that are known; NaN where none is."""
    known = [v for v in values if v == v]
    return combine(known) if known else math.nan


def _spread(values: list[float]) -> float:
    """Standard deviation of the rounds as a part of their median."""
    middle = median(values)
    return stdev(values) / middle if len(values) > 1 and middle else math.nan


def _t_half_width(values: list[float]) -> float:
    """Half the 90 % interval of the mean of some values, by Student's t."""
    if len(values) < 2:
        return 0.0
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, 0.5 + COVERAGE / 2))
    return quantile * stdev(values) / math.sqrt(len(values))
