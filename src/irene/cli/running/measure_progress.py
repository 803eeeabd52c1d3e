"""Progress and plan of a measurement, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from irene.show.terminal import columns
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.table import Table

    from irene.measure.alone.plan import Plan
    from irene.measure.alone.session import Progress

__all__ = ["human_time", "measuring", "plan_table", "plan_words"]

MINUTE_S, HOUR_S = 60, 3600


@contextmanager
def measuring(model: str) -> Iterator[Callable[[Progress], None]]:
    """A bar with the time left on standard error; off a terminal, lines now and then.

    Args:
        model: What is measured.
    """
    if not sys.stderr.isatty():
        yield _Lines(model)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} nodes · {task.fields[left]} left"),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"preparing {plain(model)}", total=None, left="?")
        said: set[str] = set()

        def show(step: Progress) -> None:
            bar.update(
                task,
                total=step.total,
                completed=step.done,
                description=plain(step.node) or model,
                left=human_time(step.left_s),
            )
            if step.message and step.message not in said:
                said.add(step.message)
                console.print(f"{step.node}: {step.message}", markup=False)

        yield show


class _Lines:
    """A line at the beginning, at every quarter, and for each new kind of trouble."""

    def __init__(self, model: str) -> None:
        self._model = plain(model)
        self._quarter = -1
        self._said: set[str] = set()

    def __call__(self, step: Progress) -> None:
        quarter = 4 * step.done // max(step.total, 1)
        if quarter > self._quarter:
            self._quarter = quarter
            self._print(
                f"{step.done} of {step.total} distinct nodes, about "
                f"{human_time(step.left_s)} left"
            )
        if step.message and step.message not in self._said:
            self._said.add(step.message)
            self._print(f"{plain(step.node)}: {step.message}")

    def _print(self, words: str) -> None:
        print(f"irene measure: {self._model}: {words}", file=sys.stderr, flush=True)


def plan_table(plan: Plan) -> Table:
    """The distinct nodes, how often each occurs, and about how long each takes."""
    ratio = {"node": 3, "op": 2, "inputs": 2}
    heads = ("<node", "<op", "<inputs", "times", "about")
    table = columns(*heads, ratio=ratio, dim=("op", "inputs"))
    for node in plan.nodes:
        shapes = " ".join("×".join(map(str, shape)) for shape in node.shapes)
        times = f"×{node.times}" if node.times > 1 else ""
        name = plain(node.path) or "(model)"
        table.add_row(name, plain(node.op), shapes, times, human_time(node.total_s))
    return table


def plan_words(plan: Plan) -> str:
    """How much it is, and about how long it takes."""
    protocol = plan.protocol
    times = sum(node.times for node in plan.nodes)
    return (
        f"{len(plan.nodes)} distinct nodes of {times:,} · {protocol.rounds} rounds of "
        f"{protocol.round_s:g} s, up to {protocol.extra_rounds} more where something "
        f"disturbs · about {human_time(plan.total_s)} in all, guessed from FLOPs"
    )


def human_time(seconds: float) -> str:
    """A length of time in words: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 1.5 * MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 1.5 * HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:.1f} h"
