"""A machine whose power is known at every moment, and programs that run on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from irene.account import Events, EventsBuilder, PowerSeries

BEGIN_NS = 1_700_000_000_000_000_000
MS = 1_000_000


@dataclass
class Op:
    """An op of known power: it rises evenly from `first_w` to `last_w`."""

    name: str
    begin_ms: float
    end_ms: float
    first_w: float
    last_w: float | None = None
    lane: str = "0"
    device: str = "cuda:0"
    scope: str = ""
    phase: str = "forward"
    step: int = -1
    weights: dict[str, float] = field(default_factory=dict)

    def energy_j(self) -> float:
        last_w = self.first_w if self.last_w is None else self.last_w
        return 0.5 * (self.first_w + last_w) * (self.end_ms - self.begin_ms) * 1e-3


@dataclass
class Machine:
    """Ops on top of an idle power; the truth that a sampler looks at."""

    ops: list[Op]
    idle_w: float = 0.0
    fine_ns: int = 1_000

    def end_ms(self) -> float:
        return max(op.end_ms for op in self.ops)

    def fine(self) -> tuple[np.ndarray, np.ndarray]:
        """Moments every microsecond, and the energy used up to each, J."""
        count = round(self.end_ms() * MS / self.fine_ns)
        edges = np.arange(count + 1) * self.fine_ns
        middle_ms = (edges[:-1] + 0.5 * self.fine_ns) / MS
        power_w = np.full(count, float(self.idle_w))
        for op in self.ops:
            last_w = op.first_w if op.last_w is None else op.last_w
            inside = (middle_ms >= op.begin_ms) & (middle_ms < op.end_ms)
            part = (middle_ms[inside] - op.begin_ms) / (op.end_ms - op.begin_ms)
            power_w[inside] += op.first_w + (last_w - op.first_w) * part
        total_j = np.concatenate(([0.0], np.cumsum(power_w * self.fine_ns * 1e-9)))
        return edges, total_j

    def counter(self, period_ms: float, **facts: object) -> PowerSeries:
        """What an energy counter says that is read every `period_ms`."""
        edges, total_j = self.fine()
        reads = np.arange(0, edges[-1] + 1, round(period_ms * MS))
        values = np.interp(reads, edges, total_j)
        facts.setdefault("device", "cuda:0")
        return PowerSeries.from_counter("counter", BEGIN_NS + reads, values, **facts)

    def instant(self, period_ms: float, **facts: object) -> PowerSeries:
        """What a sensor of instantaneous power says."""
        edges, total_j = self.fine()
        power_w = np.diff(total_j) / (self.fine_ns * 1e-9)
        step = round(period_ms * MS / self.fine_ns)
        power_w = np.append(power_w, power_w[-1])[::step]
        facts.setdefault("device", "cuda:0")
        return PowerSeries.from_power(
            "sensor", BEGIN_NS + edges[::step], power_w, **facts
        )

    def events(self, steps: tuple[str, ...] = ()) -> Events:
        builder = EventsBuilder()
        for op in self.ops:
            builder.add(
                op.name,
                BEGIN_NS + round(op.begin_ms * MS),
                BEGIN_NS + round(op.end_ms * MS),
                device=op.device,
                lane=op.lane,
                scope=op.scope,
                phase=op.phase,
                step=op.step,
                **op.weights,
            )
        count = 1 + max(op.step for op in self.ops)
        return builder.build(steps or [f"#{number}" for number in range(count)])
