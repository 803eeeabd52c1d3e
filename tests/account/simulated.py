"""A machine whose power is known at every moment, and programs that run on it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from irene.account import Events, EventsBuilder, PowerSeries
from irene.meters.channel import Channel

BEGIN_NS = 1_700_000_000_000_000_000
MS = 1_000_000
WATTS = 40.0


class SteadyMeter:
    """A machine that always takes the same."""

    name = "steady"
    channels = (Channel("wall:power", "power_w", "wall", relative_error=0.01),)

    def read(self) -> list[float]:
        return [WATTS]

    def close(self) -> None:
        pass


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


@dataclass
class Program:
    """A loop over ops of different power, what a meter saw of it, and the truth.

    Attributes:
        what: Its properties, in words.
        events: The calls, in one stream or two.
        power: A counter's series, or one of samples.
        truth_j: Energy of every op, J.
        window_j: Energy of the whole window, J.
    """

    what: str
    events: Events
    power: PowerSeries
    truth_j: dict[str, float]
    window_j: float


def program(seed: int, *, sensor: str, steady: bool = False) -> Program:
    """A program drawn at random: two to six ops, runs of 0.3 to 30 samples.

    Args:
        seed: Of all that is drawn.
        sensor: `counter` or `samples`.
        steady: Whether all calls of an op draw the same, and a sensor has no noise;
            else calls differ by 3 % and samples by 1 %.
    """
    rng = np.random.default_rng(seed)
    period_ms = float(10 ** rng.uniform(0, 2))
    gap_ms = float(rng.choice([0.0, 0.001, 0.1, rng.uniform(0, 10)]))
    streams = 1 + int(rng.random() < 0.3)
    ops = [
        op
        for lane in range(streams)
        for op in _loop(rng, str(lane), period_ms, gap_ms, 0.0 if steady else 0.03)
    ]
    idle_w = float(rng.uniform(20, 80))
    at_ns, power_w = _steps(ops, idle_w)
    total_j = np.concatenate(([0.0], np.cumsum(power_w * np.diff(at_ns) * 1e-9)))
    reads = np.arange(-2.0, at_ns[-1] / MS / period_ms + 2) + rng.random()
    reads = np.unique(
        np.rint((reads + rng.uniform(-0.05, 0.05, len(reads))) * period_ms * MS)
    ).astype(np.int64)
    facts = {"device": "cuda:0"}
    if sensor == "counter":
        values = np.interp(reads, at_ns, total_j) + idle_w * 1e-9 * (
            np.minimum(reads, 0) + np.maximum(reads - at_ns[-1], 0)
        )
        power = PowerSeries.from_counter("counter", BEGIN_NS + reads, values, **facts)
    else:
        around_w = np.concatenate(([idle_w], power_w, [idle_w]))
        values = around_w[np.searchsorted(at_ns, reads, "right")]
        values *= 1.0 if steady else rng.normal(1, 0.01, len(reads))
        power = PowerSeries.from_power("sensor", BEGIN_NS + reads, values, **facts)
    truth_j: dict[str, float] = {}
    for op in ops:
        truth_j[op.name] = truth_j.get(op.name, 0.0) + op.energy_j()
    what = f"{sensor}, {period_ms:.3g} ms, gaps {gap_ms:.3g} ms, {streams} streams"
    return Program(what, Machine(ops).events(), power, truth_j, float(total_j[-1]))


def _loop(
    rng: np.random.Generator, lane: str, period_ms: float, gap_ms: float, spread: float
) -> list[Op]:
    """Calls of two to six ops in turn."""
    count = int(rng.integers(2, 7))
    watts = rng.uniform(60, 400, count)
    lengths_ms = period_ms * 10 ** rng.uniform(np.log10(0.3), np.log10(30), count)
    ops, now_ms = [], 0.0
    for _ in range(int(rng.integers(5, 40))):
        for i in range(count):
            length_ms = max(lengths_ms[i] * rng.uniform(0.9, 1.1), 0.002)
            end_ms = now_ms + round(length_ms, 6)
            drawn_w = watts[i] * (1 + spread * rng.standard_normal())
            ops.append(Op(f"{lane}.op{i}", now_ms, end_ms, drawn_w, lane=lane))
            now_ms = round(end_ms + gap_ms, 6)
    return ops


def _steps(ops: list[Op], idle_w: float) -> tuple[np.ndarray, np.ndarray]:
    """When power changes, ns, and the power between, W: idle while nothing runs."""
    edges = np.array([(round(o.begin_ms * MS), round(o.end_ms * MS)) for o in ops])
    at_ns = np.unique(np.append(edges, 0))
    drawn, busy = np.zeros(len(at_ns)), np.zeros(len(at_ns))
    for sign, column in ((1, edges[:, 0]), (-1, edges[:, 1])):
        place = np.searchsorted(at_ns, column)
        np.add.at(drawn, place, [sign * op.first_w for op in ops])
        np.add.at(busy, place, sign)
    running = np.cumsum(busy)[:-1] > 0.5
    return at_ns, np.where(running, np.cumsum(drawn)[:-1], idle_w)
