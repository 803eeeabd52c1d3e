"""NodeResult: what the rounds of one distinct node gave, and the figures from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import mean, median, stdev
from typing import Any

from irene.measure.alone.bench import Round
from irene.measure.alone.isolation import choose_rounds, count_flags, flags_of, trend

__all__ = ["Figures", "NodeResult"]

COVERAGE = 0.90


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run of a node.

    Attributes:
        energy_j: Median over the rounds, J; NaN where unknown.
        low_j: Lower end of the 90 % interval, J.
        high_j: Upper end, J.
        features: Measured values by name; see `NodeResult.figures`.
    """

    energy_j: float
    low_j: float
    high_j: float
    features: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What was measured of a distinct node.

    Attributes:
        key: Names the node.
        label: Path and class of its first occurrence, for people.
        rounds: All rounds that were run, in order.
        wanted: How many of them may count.
        problem: Why there are none, in words; "" if there are.
        date: When it was measured, UTC.
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
        """Judge the rounds and choose those that count."""
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
        found = count_flags([self.flags[place] for place in self.kept])
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
        for name, value in (
            ("energy_spread", lambda r: r.energy_j),
            ("gpu_energy_mean", lambda r: r.gpu_energy_j),
            ("net_energy_mean", lambda r: r.energy_j - r.standby_w * r.latency_s),
        ):
            yield name, self._known(value, _spread if "spread" in name else median)
        for name in rounds[0].features:
            yield name, self._known(_feature(name), mean)
        yield "rounds", len(rounds)
        yield "rounds_repeated", max(0, len(self.rounds) - self.wanted)
        yield "repeats", median(r.repeats for r in rounds)
        for flag, count in self.remaining_flags.items():
            yield f"rounds_{flag}", count

    def _known(
        self, value: Callable[[Round], float], combine: Callable[[Any], float]
    ) -> float:
        values = [value(r) for r in self.counting]
        known = [v for v in values if v == v]
        return combine(known) if known else math.nan

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "key": self.key,
            "label": self.label,
            "date": self.date,
            "wanted": self.wanted,
            "problem": self.problem,
            "rounds": [r.to_dict() for r in self.rounds],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> NodeResult:
        """Read what `to_dict` wrote."""
        rounds = tuple(Round.from_dict(one) for one in fields["rounds"])
        plain = {name: value for name, value in fields.items() if name != "rounds"}
        return cls(rounds=rounds, **plain)


def _feature(name: str) -> Callable[[Round], float]:
    return lambda one: one.features.get(name, math.nan)


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
