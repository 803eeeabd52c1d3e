"""All distinct nodes, one after the other: what that takes, doing it, their tree.

A plan says what would be run and how often, and guesses how long it takes from FLOPs
and bytes alone; the same guess, corrected by what took place, tells the time left.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args

import numpy as np
import torch

from irene.energy import Source
from irene.errors import IreneError
from irene.hardware import Hardware
from irene.measure.alone.bench import Bench, undisturbed
from irene.measure.alone.capture import CannotRunError, DistinctNode
from irene.measure.alone.journal import Journal
from irene.measure.alone.rounds import FLAGS, Figures, NodeResult, Round, flags_of
from irene.measure.protocol import MeasureProtocol
from irene.meters.machine import machine_words
from irene.tree import EnergyColumns, ModelTree
from irene.tree.columns import features_of_rows

log = logging.getLogger(__name__)

PLAN_SCHEMA = "irene.measure-plan/1"
SPEEDS = {
    "cpu": (2e10, 5e9, 5e-6),
    "cuda": (5e12, 3e11, 1e-5),
    "mps": (1e12, 1e11, 2e-5),
}
"""FLOP/s (of a CPU: per thread), bytes/s and seconds per math op of a middling device:
to guess how long a run takes before anything ran. Only plans use them."""
CHECK_S = 0.15
"""Time that looking at the power before a round takes at least, s."""
SETUP_S = 3.0
"""Time to build a model and to watch it run once, s."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A distinct node, how often it is in the tree, guesses of a run and all rounds."""

    path: str
    kind: str
    op: str
    shapes: tuple[tuple[int, ...], ...]
    times: int
    run_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that would be run."""

    protocol: MeasureProtocol
    nodes: tuple[PlannedNode, ...]

    @property
    def total_s(self) -> float:
        """Guess of the whole run, s."""
        own_s = sum(node.total_s for node in self.nodes)
        return SETUP_S + self.protocol.idle_s + own_s

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready values."""
        return {
            "schema": PLAN_SCHEMA,
            "protocol": asdict(self.protocol),
            "distinct": len(self.nodes),
            "nodes_in_tree": sum(node.times for node in self.nodes),
            "total_s": self.total_s,
            "nodes": [asdict(node) for node in self.nodes],
        }


def make_plan(
    nodes: Sequence[DistinctNode],
    protocol: MeasureProtocol,
    device: str,
    threads: int,
) -> Plan:
    """Guess how long measuring takes, from FLOPs and bytes alone."""
    flops_s, bytes_s, op_s = SPEEDS.get(device.partition(":")[0], SPEEDS["cuda"])
    if device == "cpu":
        flops_s *= threads
    planned = []
    for node in nodes:
        run_s = node.flops / flops_s + node.moved_bytes / bytes_s + node.math_ops * op_s
        planned.append(
            PlannedNode(
                *(node.path, node.kind, node.op, node.shapes, len(node.rows)),
                *(run_s, _total_s(protocol, run_s)),
            )
        )
    return Plan(protocol, tuple(planned))


def _total_s(protocol: MeasureProtocol, run_s: float) -> float:
    """Time that all rounds of a node take if one run of it takes `run_s`, s."""
    round_s = max(protocol.round_s, run_s) + (CHECK_S if protocol.cool_s else 0)
    warm_s = max(protocol.warm_up_s, protocol.round_s / 4, 3 * run_s)
    return warm_s + protocol.rounds * round_s


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a measurement is, about how long the rest takes, and any news."""

    done: int
    total: int
    node: str
    left_s: float
    message: str = ""


Listener = Callable[[Progress], None]


def measure_nodes(
    nodes: Sequence[DistinctNode],
    bench: Bench,
    plan: Plan,
    journal: Journal | None = None,
    listener: Listener | None = None,
) -> dict[str, NodeResult]:
    """Run every distinct node that the journal does not have yet; results by key."""
    before = {node.key: journal.known(node.key) for node in nodes} if journal else {}
    results = {key: result for key, result in before.items() if result is not None}
    clock = _TimeLeft(plan, [node.key in results for node in nodes])
    with _steady():
        for place, node in enumerate(nodes):
            if node.key in results:
                continue

            tell = partial(_tell, listener, clock, node.label)
            tell("")
            result = measure_node(node, bench, tell)
            results[node.key] = result
            if journal is not None:
                journal.append(result)
            clock.finish(place, result)
    if listener is not None:
        listener(clock.progress("", ""))
    return results


def _tell(
    listener: Listener | None, clock: _TimeLeft, label: str, message: str
) -> None:
    if message:
        log.info("%s: %s", label, message)
    if listener is not None:
        listener(clock.progress(label, message))


@contextmanager
def _steady() -> Iterator[None]:
    """No gradients, no garbage collection, no denormal numbers, which slow CPUs."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        stack.enter_context(undisturbed())
        if torch.set_flush_denormal(True):
            stack.callback(torch.set_flush_denormal, False)
        yield


def measure_node(
    node: DistinctNode, bench: Bench, tell: Callable[[str], None] = lambda text: None
) -> NodeResult:
    """Run one node alone: warm up, calibrate, rounds; flagged rounds are repeated."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        if node.call is None:
            raise CannotRunError("its call could not be captured")
        rounds = _rounds(node.call.alone(), bench, tell)
    except IreneError:
        raise
    except Exception as error:  # noqa: BLE001  a model's own code may raise anything
        problem = f"{error}" or type(error).__name__
        tell(f"cannot be run alone: {problem}")
        return NodeResult(node.key, node.label, problem=problem, date=now)
    wanted = bench.protocol.rounds
    return NodeResult(node.key, node.label, tuple(rounds), wanted, date=now)


def _rounds(
    run: Callable[[], Any], bench: Bench, tell: Callable[[str], None]
) -> list[Round]:
    protocol = bench.protocol
    repeats = bench.calibrate(run)
    rounds: list[Round] = []
    said: set[str] = set()
    while True:
        rounds.append(bench.round(run, repeats))
        longer = protocol.round_s / rounds[-1].duration_s
        if longer > 1:  # calibrated while something else slowed it down
            repeats = math.ceil(1.02 * longer * repeats)
        flags = flags_of(rounds)
        clean = sum(not one for one in flags)
        if clean >= protocol.rounds:
            return rounds
        if len(rounds) >= protocol.rounds + protocol.extra_rounds:
            return rounds
        if len(rounds) >= protocol.rounds:
            new = {flag for one in flags for flag in one} - said
            said |= new
            if new:
                words = " and ".join(FLAGS[flag] for flag in FLAGS if flag in new)
                tell(f"{words}; repeating rounds")


class _TimeLeft:
    """Guesses the time left: the plan's, corrected by what took place."""

    def __init__(self, plan: Plan, known: Sequence[bool]) -> None:
        self._plan = plan
        self._open = [not done for done in known]
        self._slower = 1.0

    def finish(self, place: int, result: NodeResult) -> None:
        self._open[place] = False
        guess = self._plan.nodes[place]
        if result.counting and guess.run_s > 1e-3:
            self._slower = result.counting[0].mean_s / guess.run_s

    def progress(self, label: str, message: str) -> Progress:
        left_s = sum(
            _total_s(self._plan.protocol, guess.run_s * self._slower)
            for guess, is_open in zip(self._plan.nodes, self._open, strict=True)
            if is_open
        )
        done = len(self._open) - sum(self._open)
        return Progress(done, len(self._open), label, left_s, message)


MOST_NAMED = 5
UNSTEADY = 0.1


def measured_tree(
    tree: ModelTree,
    nodes: Sequence[DistinctNode],
    results: Mapping[str, NodeResult],
    bench: Bench,
    machine: Mapping[str, str],
    name: str = "this-machine",
) -> ModelTree:
    """A tree with the energy and the features of every node that could be run."""
    figures: list[Figures | None] = [None] * len(tree)
    for node in nodes:
        one = results[node.key].figures()
        for row in node.rows:
            figures[row] = one
    known = [one or Figures(np.nan, np.nan, np.nan, {}) for one in figures]
    readings, protocol = bench.readings, bench.protocol
    source = get_args(Source).index(readings.source)
    rounds = f"{protocol.rounds} × {protocol.round_s:g} s"
    energy = EnergyColumns(
        np.array([one.energy_j for one in known]),
        np.array([one.low_j for one in known]),
        np.array([one.high_j for one in known]),
        np.full(len(tree), source, np.uint8),
        f"{readings.meters}, {rounds}",
    )
    told = {**tree.provenance, **machine, **_story(bench, results, rounds)}
    described = tree.with_provenance(told).with_notes(*_notes(nodes, results, bench))
    hardware = Hardware(name, readings.covers, machine_words(machine))
    features = features_of_rows([one.features for one in known])
    return described.with_features(features).with_energy(energy, hardware)


def _story(
    bench: Bench, results: Mapping[str, NodeResult], rounds: str
) -> dict[str, str]:
    idle = bench.idle
    dates = sorted(result.date for result in results.values() if result.date)
    return {
        "meters": ", ".join(c.name for c in bench.sampler.channels),
        "counted": ", ".join(c.name for c in bench.readings.counted),
        "sampling_period": f"{bench.protocol.period_s:g} s",
        "rounds": rounds,
        "idle_power": f"{idle.power_w:.2f} W, ±{idle.spread:.1%}"
        if idle.power_w == idle.power_w
        else "not known",
        "measured": " – ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "",
    }


def _notes(
    nodes: Sequence[DistinctNode], results: Mapping[str, NodeResult], bench: Bench
) -> list[str]:
    told = [results[node.key] for node in nodes]
    notes = [
        "energy is gross, idle power included; net_energy_mean is without it",
        *bench.readings.notes,
        *_unknown(told),
        *_flagged(told),
    ]
    if bench.idle.spread > UNSTEADY:
        notes.append(
            f"warning: idle power was not steady (±{bench.idle.spread:.0%}): was the "
            "machine doing something else?"
        )
    return notes


def _unknown(results: Sequence[NodeResult]) -> list[str]:
    """A note for every reason for which energies are not known."""
    reasons: dict[str, list[str]] = {}
    for result in results:
        if not result.energy_known:
            reason = f"cannot be run alone: {result.problem}"
            if not result.problem:
                reason = "a meter was lost, latency is known"
            reasons.setdefault(reason, []).append(result.label)
    return [
        f"warning: energy not known of {_named(labels)}: {reason}"
        for reason, labels in reasons.items()
    ]


def _flagged(results: Sequence[NodeResult]) -> list[str]:
    """A note for every flag that rounds still have, and one on repeated rounds."""
    labels: dict[str, list[str]] = {flag: [] for flag in FLAGS}
    for result in results:
        for flag in result.remaining_flags:
            labels[flag].append(result.label)
    again = sum(max(0, len(r.rounds) - r.wanted) for r in results)
    notes = [
        f"warning: {words} in rounds of {len(labels[flag])} of {len(results)} distinct "
        f"nodes: {_named(labels[flag])}"
        for flag, words in FLAGS.items()
        if labels[flag]
    ]
    if again:
        notes.append(f"{again} disturbed rounds were repeated")
    return notes


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - MOST_NAMED
    named = ", ".join(labels[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named
