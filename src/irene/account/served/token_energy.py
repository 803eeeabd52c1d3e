"""Energy and tokens of a time, and whose energy it was.

A step of a server reads prompts and continues answers together, and some of its energy
is of nobody: weights are read once for all, and the machine takes power anyway. Energy
is therefore split by what one more token of a kind costs: what is of nobody follows the
rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from irene.account.served.server_counts import ServerCounts
from irene.plain import Document

FEWEST = 12
"""Intervals that costs are learned from at least."""
WORST_CONDITION = 50.0
"""Kinds of tokens that come in step cannot be told apart: largest by smallest singular
value of their columns, each scaled to length 1."""

LEAST_LASTING = 0.2
"""Errors of meters are levelled over some five intervals, no more."""


@dataclass(frozen=True, slots=True)
class Interval(Document):
    """What a server did in some time, prompts without cached ones; NaN unknown."""

    seconds: float
    energy_j: float
    prompt_tokens: float
    cached_tokens: float
    output_tokens: float
    requests: float
    running: float
    waiting: float

    also: ClassVar = (
        "power_w", "output_tokens_per_s", "j_per_output_token", "j_per_token",
        "j_per_request",
    )  # fmt: skip

    @classmethod
    def between(
        cls, begin: ServerCounts, end: ServerCounts, seconds: float, energy_j: float
    ) -> Interval:
        """From some counts to others; a server that began anew counts from zero."""

        def grown(name: str) -> float:
            old, new = getattr(begin, name), getattr(end, name)
            if new is None:
                return 0.0 if name == "cached_tokens" else math.nan
            return float(new - old if old is not None and old <= new else new)

        def mean(name: str) -> float:
            ends = (getattr(begin, name), getattr(end, name))
            known = [float(value) for value in ends if value is not None]
            return sum(known) / len(known) if known else math.nan

        return cls(
            seconds, energy_j, grown("prompt_tokens"), grown("cached_tokens"),
            grown("output_tokens"), grown("requests"), mean("running"), mean("waiting"),
        )  # fmt: skip

    @property
    def power_w(self) -> float:
        """Mean power, W."""
        return _ratio(self.energy_j, self.seconds)

    @property
    def output_tokens_per_s(self) -> float:
        """Tokens of answers of all requests together."""
        return _ratio(self.output_tokens, self.seconds)

    @property
    def tokens(self) -> float:
        """Tokens of prompts and answers, cached ones too."""
        return self.prompt_tokens + self.cached_tokens + self.output_tokens

    @property
    def j_per_output_token(self) -> float:
        """All energy by tokens of answers, J."""
        return _ratio(self.energy_j, self.output_tokens)

    @property
    def j_per_token(self) -> float:
        """All energy by all tokens, J."""
        return _ratio(self.energy_j, self.tokens)

    @property
    def j_per_request(self) -> float:
        """All energy by the requests that ended, J."""
        return _ratio(self.energy_j, self.requests)


def _ratio(value: float, by: float) -> float:
    return value / by if by > 0 else math.nan


def added_up(intervals: Iterable[Interval]) -> Interval:
    """Several intervals as one; gauges are means over time."""
    rows = list(intervals)
    seconds = math.fsum(row.seconds for row in rows)
    sums = {}
    for each in fields(Interval):
        values = [getattr(row, each.name) for row in rows]
        if each.name in ("running", "waiting"):
            spans = (v * row.seconds for v, row in zip(values, rows, strict=True))
            sums[each.name] = _ratio(math.fsum(spans), seconds)
        else:
            sums[each.name] = math.fsum(values)
    return Interval(**sums)


# Whose energy it was ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """What one more token costs, J: predicted, observed or equal, as `source` says.

    `base_w` is used whatever is done, as far as it is known. `lasting` is the share of
    what an interval takes beyond these costs that is of its work, and no error of its
    meters.
    """

    prompt_j: float
    cached_j: float
    output_j: float
    source: str
    base_w: float = 0.0
    lasting: float = 1.0

    def weights(self, tokens: Any) -> tuple[float, float, float]:
        """Costs of prompt, cached prompt and answer of an interval or a request, J."""
        return (
            self.prompt_j * tokens.prompt_tokens,
            self.cached_j * tokens.cached_tokens,
            self.output_j * tokens.output_tokens,
        )


EQUAL = TokenCosts(1.0, 0.0, 1.0, "equal")
"""Where nothing is known: every token that is computed costs the same."""


@dataclass(frozen=True, slots=True)
class Split:
    """An energy by what it was for; all four add up to it, J."""

    prompt_j: float
    cached_j: float
    output_j: float
    idle_j: float


def shared(energy_j: float, weights: Sequence[float]) -> list[float]:
    """An energy in parts as weights are, which are not all 0; they add up to it."""
    total = math.fsum(weights)
    parts = [energy_j * (weight / total) for weight in weights]
    largest = max(range(len(parts)), key=lambda i: abs(parts[i]))
    parts[largest] += energy_j - math.fsum(parts)
    return parts


def split(interval: Interval, costs: TokenCosts) -> Split:
    """Energy of prompts, cached prompts and answers; all is idle where nothing ran."""
    weights = costs.weights(interval)
    if not math.fsum(weights) > 0:
        return Split(0.0, 0.0, 0.0, interval.energy_j)
    prompt_j, cached_j, output_j = shared(interval.energy_j, weights)
    return Split(prompt_j, cached_j, output_j, 0.0)


def observed_costs(intervals: Sequence[Interval]) -> TokenCosts | None:
    """What one more token costs, from intervals that differ in what they did.

    Energy is fitted as a sum of tokens of each kind and of seconds, none of them
    negative. None where there are too few intervals, or kinds come in step.
    """
    from scipy.optimize import nnls

    names = ("prompt_tokens", "cached_tokens", "output_tokens", "seconds", "energy_j")
    rows = np.array([[getattr(row, n) for n in names] for row in intervals])
    rows = rows[np.isfinite(rows).all(axis=1)] if len(rows) else rows
    if len(rows) < FEWEST:
        return None
    used = [i for i in range(4) if rows[:, i].any()]
    columns = rows[:, used]
    lengths = np.linalg.norm(columns, axis=0)
    values = np.linalg.svd(columns / lengths, compute_uv=False)
    if values[-1] * WORST_CONDITION < values[0]:
        return None
    found, _ = nnls(columns / lengths, rows[:, 4])
    costs = [0.0] * 4
    for i, cost in zip(used, found / lengths, strict=True):
        costs[i] = float(cost)
    if not any(costs[:3]):
        return None
    expected = columns @ (found / lengths)
    lasting = _lasting(rows[expected > 0, 4] / expected[expected > 0] - 1)
    return TokenCosts(costs[0], costs[1], costs[2], "observed", costs[3], lasting)


def _lasting(beyond: np.ndarray) -> float:
    """How much of what is beyond the costs the next interval has, too."""
    squares = float(beyond @ beyond)
    if not squares > 0:
        return 1.0
    return min(1.0, max(LEAST_LASTING, float(beyond[1:] @ beyond[:-1]) / squares))
