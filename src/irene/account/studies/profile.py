"""Profile: the mean of some runs of one program, and how far two of them differ."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from irene.account.studies.run import OWN, Operation, OperationKey, Run

NORM = re.compile(r"norm|(^|[._])ln(_|$)", re.IGNORECASE)
ATTENTION = re.compile(r"attention|attn|mixer|mamba|fourier", re.IGNORECASE)
FEED_FORWARD = re.compile(
    r"feed_?forward|ffn|mlp|intermediate|moe|expert|\bfc#|\bff\b|activation|\boutput\b",
    re.IGNORECASE,
)
EMBEDDING = re.compile(r"embed|patch|rotary|position|(^|[._])w[tp]e", re.IGNORECASE)


Key = TypeVar("Key", bound=Hashable)
"""Whatever two programs can have in common."""


def deviation(values: Sequence[float]) -> float:
    """Standard deviation; 0 of a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def operation_label(key: OperationKey) -> str:
    """An operation in words."""
    return " · ".join(filter(None, (key.scope, key.op, key.phase)))


@dataclass(frozen=True, slots=True)
class Profile:
    """Mean energy of a step, operation by operation, and its spread over runs, J."""

    name: str
    joules: Mapping[OperationKey, float]
    spread_j: Mapping[OperationKey, float]
    step_j: tuple[float, ...]
    seconds: float
    parameters: int
    source: str
    produced_by: str

    @property
    def total_j(self) -> float:
        """Energy of a step, J."""
        return statistics.fmean(self.step_j)

    @property
    def deviation_j(self) -> float:
        """Standard deviation of that over runs, J; 0 for a single one."""
        return deviation(self.step_j)

    def by(self, name: Callable[[OperationKey], str | None]) -> dict[str, float]:
        """Energy of a step by any name of the operations, J; None leaves one out."""
        found: dict[str, list[float]] = {}
        for key, joules in self.joules.items():
            if (word := name(key)) is not None:
                found.setdefault(word, []).append(joules)
        return {word: math.fsum(values) for word, values in found.items()}

    def spread_by(self, name: Callable[[OperationKey], str | None]) -> dict[str, float]:
        """Standard deviations of the same sums, J, as of operations that vary alone."""
        found: dict[str, float] = {}
        for key, spread_j in self.spread_j.items():
            if (word := name(key)) is not None:
                found[word] = math.hypot(found.get(word, 0.0), spread_j)
        return found

    def by_phase(self) -> dict[str, float]:
        """Energy of a step by phase, J."""
        return self.by(lambda key: key.phase)

    def by_role(self) -> dict[str, float]:
        """Energy of a step by role, J."""
        return self.by(role_of)

    def parts(self, phase: str) -> dict[str, float]:
        """Energy of the parts of the model's body (encoder, pooler) in a phase, J."""
        return self.by(
            lambda key: (
                _first(key.scope) if key.in_body and key.phase == phase else None
            )
        )

    def layers(self, phase: str) -> dict[str, float]:
        """Energy inside all layers in a phase by what layers are made of, J."""
        keys = [key for key in self.joules if key.in_body and key.phase == phase]
        path = layer_path(key.scope for key in keys)
        if path is None:
            return {}
        start = len(path) + 1
        inside = {key for key in keys if f"{key.scope}.".startswith(f"{path}.")}
        return self.by(lambda key: _first(key.scope[start:]) if key in inside else None)

    def largest(self, top: int) -> list[OperationKey]:
        """The operations that take most."""
        return sorted(self.joules, key=lambda key: -self.joules[key])[:top]


def profile(name: str, runs: Sequence[Run]) -> Profile:
    """The mean of runs of one program."""
    rows: dict[OperationKey, list[Operation]] = {}
    for run in runs:
        for each in run.operations:
            rows.setdefault(each.key, []).append(each)
    means: dict[OperationKey, float] = {}
    spreads: dict[OperationKey, float] = {}
    for key, found in rows.items():
        values = [statistics.fmean(each.step_j) for each in found]
        # An operation that a run has not seen took nothing in it.
        values += [0.0] * (len(runs) - len(found))
        means[key] = statistics.fmean(values)
        spreads[key] = deviation(values if len(runs) > 1 else found[0].step_j)
    first = runs[0]
    sources = {run.source for run in runs}
    return Profile(
        name,
        means,
        spreads,
        tuple(statistics.fmean(run.step_j) for run in runs),
        statistics.fmean(run.window_s / len(run.step_j) for run in runs),
        first.parameters,
        "measured" if sources == {"measured"} else "estimated",
        ", ".join(dict.fromkeys(run.produced_by for run in runs)),
    )


def _first(path: str) -> str:
    return path.partition(".")[0] or OWN


def layer_path(scopes: Iterable[str]) -> str | None:
    """Path of a layer: up to its number, or the last of numbers right in each other."""
    ways = [scope.split(".") for scope in sorted(set(scopes))]
    ways = [way for way in ways if "#" in way]
    if not ways:
        return None
    path = ways[0][: ways[0].index("#") + 1]
    while True:
        size = len(path)
        below = [way[size:] for way in ways if way[:size] == path and len(way) > size]
        firsts = {way[0] for way in below}
        if len(firsts) != 1 or not all("#" in way for way in below):
            return ".".join(path)
        path += below[0][: below[0].index("#") + 1]


def role_of(key: OperationKey) -> str:
    """What an operation is for, so that models with other names can be compared."""
    if key.phase not in ("forward", "backward"):
        return key.phase
    if not key.in_body:
        return "head"
    in_layer = "#" in key.scope.split(".")
    if NORM.search(key.scope.rpartition(".")[2]):
        return "norm" if in_layer else "embeddings"
    if ATTENTION.search(key.scope):
        return "attention"
    if in_layer:
        return "feed-forward" if FEED_FORWARD.search(key.scope) else "rest of layer"
    if EMBEDDING.search(key.scope):
        return "embeddings"
    return "pooler" if "pooler" in key.scope else "other"


def _shared(a: Mapping[Key, float], b: Mapping[Key, float]) -> list[Key]:
    return [key for key in a if key in b]


def median_difference(a: Mapping[Key, float], b: Mapping[Key, float]) -> float:
    """Median of (b − a) / a over what both have, percent; NaN if they share nothing."""
    differences = [100 * (b[key] - a[key]) / a[key] for key in _shared(a, b) if a[key]]
    return statistics.median(differences) if differences else math.nan


def pearson(a: Mapping[Key, float], b: Mapping[Key, float]) -> float:
    """Pearson's correlation over what both have; NaN for fewer than three of these."""
    shared = _shared(a, b)
    x = np.array([a[key] for key in shared])
    y = np.array([b[key] for key in shared])
    if len(shared) < 3 or x.std() == 0 or y.std() == 0:
        return math.nan
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    return float(np.clip(np.mean(x * y), -1.0, 1.0))


def matrix(
    measure: Callable[[Mapping[Key, float], Mapping[Key, float]], float],
    tables: Sequence[Mapping[Key, float]],
) -> list[list[float]]:
    """How every column is to every row."""
    return [[measure(row, column) for column in tables] for row in tables]
