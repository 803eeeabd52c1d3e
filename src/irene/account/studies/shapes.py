"""Shapes: the shares and ratios that the paper publishes, of any profile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from irene.account.studies.profile import Profile, operation_label
from irene.account.studies.report import Finding, Table

__all__ = [
    "backward_finding",
    "percent",
    "shape_findings",
    "shape_table",
    "top_findings",
]


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
    ratio = phases["backward"] / phases["forward"]
    return [Finding(f"{profile.name}: backward / forward", ratio)]


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
