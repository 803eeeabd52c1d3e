"""Session: all distinct nodes, one after the other, with a journal and progress."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import torch

from irene.errors import IreneError
from irene.measure.alone.bench import Bench, Round, undisturbed
from irene.measure.alone.capture import DistinctNode
from irene.measure.alone.isolation import FLAGS, flags_of
from irene.measure.alone.journal import Journal
from irene.measure.alone.node_alone import CannotRunError
from irene.measure.alone.node_result import NodeResult
from irene.measure.alone.plan import Plan

__all__ = ["Progress", "measure_node", "measure_nodes"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a measurement is.

    Attributes:
        done: Distinct nodes that are finished.
        total: Distinct nodes in all.
        node: Path and class of the one that is being run.
        left_s: About how long the rest takes, s.
        message: Something a reader should know now, or "".
    """

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
    """Run every distinct node that the journal does not have yet.

    Args:
        nodes: What to run.
        bench: Runs it; has watched the idle machine.
        plan: Guesses of how long each takes.
        journal: Keeps every finished node.
        listener: Is told of every step.

    Returns:
        A result for every node, by its key.
    """
    known = journal.results if journal else {}
    results = {node.key: known[node.key] for node in nodes if node.key in known}
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
    """Run one node alone: warm up, calibrate, rounds; flagged rounds are repeated.

    Args:
        node: What to run.
        bench: Runs it.
        tell: Is told, in words, what went wrong.
    """
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
            new = _all_flags(flags) - said
            said |= new
            if new:
                words = " and ".join(FLAGS[flag] for flag in FLAGS if flag in new)
                tell(f"{words}; repeating rounds")


def _all_flags(flags: Iterable[tuple[str, ...]]) -> set[str]:
    return {flag for one in flags for flag in one}


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
        protocol = self._plan.protocol
        left_s = 0.0
        for guess, is_open in zip(self._plan.nodes, self._open, strict=True):
            run_s = guess.run_s * self._slower
            more_s = max(0.0, run_s - protocol.round_s) * (protocol.rounds + 3)
            base_s = max(0.0, guess.run_s - protocol.round_s) * (protocol.rounds + 3)
            left_s += is_open * max(0.0, guess.total_s - base_s + more_s)
        done = len(self._open) - sum(self._open)
        return Progress(done, len(self._open), label, left_s, message)
