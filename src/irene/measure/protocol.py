"""MeasureProtocol: how long, how often and how strictly each node is run."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, replace
from typing import Any

from irene.errors import UsageError

MOST_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class MeasureProtocol:
    """What is done with every node.

    Attributes:
        rounds: Rounds that count.
        round_s: A round lasts at least this long, s.
        extra_rounds: Rounds that may be repeated because something disturbed them.
        warm_up_s: A node is run at least this long before its first round, s.
        idle_s: How long the machine is watched doing nothing at the beginning, s.
        cool_s: How long to wait at most before a round for standby power, s.
        period_s: Time between two samples of the meters, s.
    """

    rounds: int = 5
    round_s: float = 2.0
    extra_rounds: int = 5
    warm_up_s: float = 0.5
    idle_s: float = 5.0
    cool_s: float = 5.0
    period_s: float = 0.05

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise UsageError(f"rounds must be 1 to {MOST_ROUNDS:,}, got {self.rounds}")
        if not 0 <= self.extra_rounds <= MOST_ROUNDS:
            raise UsageError(f"extra_rounds must not be negative: {self.extra_rounds}")
        for name, least in (("round_s", 0.001), ("idle_s", 0.0), ("cool_s", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                raise UsageError(f"{name} must be at least {least} s, got {value}")

    def changed(self, **values: Any) -> MeasureProtocol:
        """The same with other values; None leaves one as it is."""
        given = {name: value for name, value in values.items() if value is not None}
        if "rounds" in given:
            given.setdefault("extra_rounds", given["rounds"])
        return replace(self, **given)


def pin_threads() -> None:
    """Keep each thread on a core of its own, before torch makes them.

    Two threads on one core wait for each other, and that only now and then.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_PROC_BIND", "true")
        os.environ.setdefault("OMP_PLACES", "cores")


DEFAULT = MeasureProtocol()
QUICK = MeasureProtocol(
    rounds=3, round_s=0.2, extra_rounds=5, warm_up_s=0.05, idle_s=1.0, cool_s=0.0
)
"""About a minute for a model of a hundred million parameters."""
PAPER = MeasureProtocol(
    round_s=20.0, warm_up_s=2.0, idle_s=20.0, cool_s=30.0, period_s=0.17
)
"""As in the IrEne paper: five rounds of 20 s, sampled every 170 ms."""
