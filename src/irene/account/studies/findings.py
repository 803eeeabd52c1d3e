"""Findings: what a study gives: numbers, tables and notes; pictures are made of these.

Among the numbers are the shares and ratios that the paper publishes, of any profile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from irene.account.studies.profile import Profile, operation_label, role_of
from irene.account.studies.program import Conditions
from irene.account.studies.run import OperationKey

NOISE = 0.5
"""Spread, as a share of the value, from which on a finding is called noise."""
Agreement = dict[float, list[float]]
"""Correlations of pairs, by what was varied."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A number that a study was made for, NaN unknown, and its spread over runs."""

    name: str
    value: float
    unit: str = ""
    spread: float = 0.0

    @property
    def is_noise(self) -> bool:
        """Whether runs differ by so much that the value says little."""
        return self.spread > NOISE * abs(self.value)

    @property
    def words(self) -> str:
        """The value with its spread and unit, to as many digits as they carry."""
        if not math.isfinite(self.value):
            return "not known"
        if not self.spread:
            return f"{self.value:.4g} {self.unit}".strip()
        digits = 2 if self.is_noise else 3
        text = f"{self.value:.{digits}g} ± {self.spread:.2g} {self.unit}".strip()
        return f"{text}, noise" if self.is_noise else text


def ratio_finding(
    name: str, above: tuple[float, float], below: tuple[float, float]
) -> Finding:
    """A ratio of two values, each with its spread."""
    value = above[0] / below[0]
    spread = abs(value) * math.hypot(*(s / v if v else 0.0 for v, s in (above, below)))
    return Finding(name, value, spread=spread)


@dataclass(frozen=True, slots=True)
class Table:
    """A table that no picture shows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Study:
    """What a study has found: the numbers that it was made for, and tables by name.

    Its pictures are called after `subject`. Profiles are the programs that were run,
    each the mean of its runs. `agreement` is how well runs agree, by `runs`, `batches`
    and `period`; `between_runs` correlates every run with every run.
    """

    kind: Literal["grid", "evolution", "modes", "precision"]
    title: str
    subject: str
    conditions: Conditions
    findings: Sequence[Finding]
    profiles: Sequence[Profile]
    tables: Mapping[str, Table] = field(default_factory=dict)
    agreement: Mapping[str, Agreement] = field(default_factory=dict)
    between_runs: Sequence[Sequence[float]] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the watts come from, and what that means."""
        meters = ", ".join(dict.fromkeys(each.produced_by for each in self.profiles))
        if all(each.source == "measured" for each in self.profiles):
            return (f"Energy measured by {meters}.",)
        return (
            f"Energy ESTIMATED by {meters}: power follows the load of the machine, so "
            "energies are mostly time × one power. Ratios say more than joules.",
        )


def operation_table(profiles: Sequence[Profile]) -> Table:
    """Every operation of every profile, J per step."""
    rows = [
        (p.name, operation_label(key), *key, role_of(key), joules, p.spread_j[key])
        for p in profiles
        for key, joules in p.joules.items()
    ]
    columns = ("program", "operation", *OperationKey._fields)
    return Table((*columns, "role", "energy_j", "std_j"), tuple(rows))


def percent(table: Mapping[str, float]) -> dict[str, float]:
    """Every value as a share of their sum, percent."""
    total = math.fsum(table.values())
    return {name: 100 * value / total for name, value in table.items() if total > 0}


def _shares(profile: Profile) -> Iterator[tuple[str, str, str, float]]:
    """Phase, what it is a share of, name and percent; the largest first."""
    for phase in ("forward", "backward"):
        for what, table in (
            ("of the model", profile.parts(phase)),
            ("inside a layer", profile.layers(phase)),
        ):
            shares = percent(table)
            for name in sorted(shares, key=lambda name: -shares[name]):
                yield phase, what, name, shares[name]


def shape_findings(profile: Profile) -> list[Finding]:
    """Shares of the parts and of what layers are made of; backward against forward."""
    shares = [
        Finding(f"{profile.name}, {phase}: {name}, {what}", share, "%")
        for phase, what, name, share in _shares(profile)
    ]
    return shares + backward_finding(profile)


def backward_finding(profile: Profile) -> list[Finding]:
    """Backward against forward, if there are both."""
    phases = profile.by_phase()
    if not phases.get("forward") or not phases.get("backward"):
        return []
    spreads = profile.spread_by(lambda key: key.phase)
    name = f"{profile.name}: backward / forward"
    pairs = ((phases[each], spreads[each]) for each in ("backward", "forward"))
    return [ratio_finding(name, *pairs)]


def shape_table(profiles: Sequence[Profile]) -> Table:
    """The shares of all profiles."""
    rows = [(each.name, *share) for each in profiles for share in _shares(each)]
    return Table(("program", "phase", "what", "name", "percent"), tuple(rows))


def top_findings(profile: Profile, top: int = 3) -> list[Finding]:
    """The operations that take most, as shares of a step."""
    total_j = math.fsum(profile.joules.values())
    return [
        Finding(
            f"{profile.name}, no. {place}: {operation_label(key)}",
            100 * profile.joules[key] / total_j,
            "%",
        )
        for place, key in enumerate(profile.largest(top), 1)
    ]
