"""Progress, plan and report of a collection, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from irene.human import human_duration
from irene.show.terminal import columns
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.table import Table

    from irene.collect.collection_plan import CollectionPlan
    from irene.collect.collection_report import Report, Step

__all__ = ["collecting", "plan_table", "plan_words", "report_lines"]


@contextmanager
def collecting(name: str) -> Iterator[Callable[[Step], None]]:
    """A bar on standard error; off a terminal, a line for every run that ends.

    Args:
        name: Of the sweep.
    """
    if not sys.stderr.isatty():
        yield _print_line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} runs · {task.fields[pace]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(plain(name), total=None, pace="")

        def show(step: Step) -> None:
            bar.update(task, total=step.total, completed=step.done, pace=_pace(step))
            if step.event == "started":
                bar.update(task, description=plain(step.run))
            elif words := _words(step):
                console.print(words, markup=False)

        yield show


def _print_line(step: Step) -> None:
    if words := _words(step):
        text = f"irene collect: {step.done} of {step.total}: {words}"
        if step.event:
            text += f" · {_pace(step)}"
        print(text, file=sys.stderr, flush=True)


def _pace(step: Step) -> str:
    if not step.rate_per_hour:
        return f"about {human_duration(step.left_s)} left"
    rate = f"{step.rate_per_hour:,.3g} per hour"
    return f"{rate}, about {human_duration(step.left_s)} left"


def _words(step: Step) -> str:
    """What has happened; "" for nothing worth a line."""
    run = plain(step.run)
    if step.event == "measured":
        return f"{run}: measured in {human_duration(step.lasted_s)}"
    if step.event == "failed":
        return f"{run}: failed: {plain(step.message)}"
    if step.event == "skipped":
        return f"{run}: another collector has done it"
    return plain(step.message)


def plan_table(plan: CollectionPlan) -> Table:
    """The models of a sweep: how many runs of each, how many are there, how long."""
    table = columns("<model", "runs", "measured", "failed", "to do", "about")
    for model in dict.fromkeys(point.spec.model for point in plan.points):
        points = [point for point in plan.points if point.spec.model == model]
        states = [point.state for point in points]
        todo = [point for point in points if point.state == "open"]
        known = [point.guess_s for point in todo if point.guess_s is not None]
        about = (
            human_duration(plan.slower * sum(known)) if known else "?" if todo else ""
        )
        counts = (len(points), *(states.count(s) for s in ("measured", "failed")))
        table.add_row(plain(model), *map(str, counts), str(len(todo)), about)
    return table


def plan_words(plan: CollectionPlan) -> str:
    """How much there is to do, about how long it takes, and how that is known."""
    todo = plan.count("open")
    there, failed = plan.count("measured"), plan.count("failed")
    words = f"{len(plan.points)} runs on {plan.sweep.machine}: {there} are there"
    if failed:
        words += f", {failed} failed before (--retry-failed tries again)"
    words += f", {todo} to measure"
    if todo:
        words += (
            f", about {human_duration(plan.left_s)} one after the other, {plan.basis}"
        )
    return plain(words)


def report_lines(report: Report, store: str, most: int) -> Iterator[str]:
    """What became of a sweep, line by line.

    Args:
        report: What is told.
        store: Where the results are.
        most: How many failures are listed.
    """
    from irene.collect.point import label_of

    yield (
        f"{report.measured} measured in {human_duration(report.lasted_s)}, "
        f"{report.there} there before, {len(report.failures)} failed, "
        f"{report.left} left; store {plain(store)}"
    )
    if report.elsewhere:
        yield f"{report.elsewhere} were measured by another collector meanwhile"
    for one in report.failures[:most]:
        yield f"failed: {plain(label_of(one.point.spec))}: {plain(one.reason)}"
    if len(report.failures) > most:
        yield f"and {len(report.failures) - most} more; `irene data show` lists them"
    for message in report.messages:
        yield plain(message)
