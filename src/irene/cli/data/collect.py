"""`irene collect`: the runs of a sweep, measured into a store."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from irene.cli.output import put, put_json, say, screen
from irene.cli.progress import counted_bar, working
from irene.human import human_duration
from irene.parameters import Asked
from irene.show.terminal import columns
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.table import Table

    from irene.collect.collection_plan import CollectionPlan, Report, Step
    from irene.collect.sweep import Sweep

USAGE = "SWEEP.yaml --store DIR [options]"
EXAMPLES = """\
A run is in the store whole or not at all. After Ctrl-C, a crash or a power cut, the
same command goes on: it skips what is there. Runs that fail are kept with the reason.
Sweeps that come with irene: paper (the one of the IrEne paper), small.

examples:
  irene collect small --store lab --dry-run
  irene collect small --store lab
  irene collect sweep.yaml --store lab --name desk --retry-failed
  irene collect sweep.yaml --store lab --engine ray
  irene data show lab
"""
MOST_LISTED = 10


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        sweep: File that lists the runs, or paper, small.
        store: Folder that the measured trees go to; made if need be.
        engine: Where to measure (default: as the sweep says, else local).
        name: What to call the machine (default: as the sweep says, else this-machine).
        retry_failed: Try runs again that failed before.
        dry_run: Say what would be measured and how long it takes, and do nothing.
        json: One JSON document: irene.collection/1, or irene.collection-plan/1.
    """

    sweep: Annotated[str, Asked(word=True, metavar="SWEEP.yaml")]
    store: Annotated[str, Asked(metavar="DIR")]
    engine: Literal["local", "ray", "slurm"] | None = None
    name: Annotated[str | None, Asked(metavar="NAME")] = None
    retry_failed: bool = False
    dry_run: bool = False
    json: bool = False


def run(options: Options) -> int:
    """Plan, then measure; or only say what would be measured."""
    from irene.collect.sweep import read_sweep

    sweep = _chosen(read_sweep(options.sweep), options)
    path = Path(options.store)
    if options.dry_run:
        _put_plan(_plan(sweep, path, options.retry_failed, make=False), options)
        return 0
    report, status = collect_sweep(sweep, path, retry_failed=options.retry_failed)
    document = {**report.to_dict(), "store": options.store}
    put(options, document, _report_lines(report, options.store, MOST_LISTED))
    return status


def collect_sweep(
    sweep: Sweep, store: Path, command: str = "collect", *, retry_failed: bool = False
) -> tuple[Report, int]:
    """Measure a sweep into a store, with progress on standard error.

    Returns:
        What became of it, and the exit status.
    """
    plan = _plan(sweep, store, retry_failed)
    for words in (_plan_words(plan), *plan.notes):
        say(f"irene {command}: {words}")
    report, signum = _collect(plan, store)
    if report.stopped:
        say(
            f"irene {command}: stopped with {report.left} runs to go; what is measured "
            "is in the store, the same command goes on"
        )
        return report, 128 + signum if signum else 1
    return report, 1 if report.failures else 0


def _chosen(sweep: Sweep, options: Options) -> Sweep:
    """The sweep, with what the command line says otherwise."""
    if options.engine:
        sweep = replace(sweep, engine=replace(sweep.engine, kind=options.engine))
    return replace(sweep, machine=options.name) if options.name else sweep


def _plan(
    sweep: Sweep, path: Path, retry_failed: bool, make: bool = True
) -> CollectionPlan:
    from irene.collect.collection_plan import StoredRuns, plan_collection
    from irene.collect.measuring import Measuring
    from irene.dataset.store import Store, is_store

    there = make or is_store(path)
    known = StoredRuns(Store.open(path, create=make) if there else None, sweep.machine)
    with working(f"planning {len(sweep.specs)} runs"):
        return plan_collection(sweep, known, Measuring(), retry_failed=retry_failed)


def _collect(plan: CollectionPlan, store: Path) -> tuple[Report, int]:
    """Measure; the report, and the signal that ended it, or 0."""
    from irene.collect.collector import Collector
    from irene.collect.measuring import Measuring
    from irene.work.engines import make_engine

    with (
        redirect_stdout(sys.stderr),  # Ray prints news of its machines
        _signals() as got,
        make_engine(plan.sweep.engine) as engine,
        _collecting(plan.sweep.name) as listener,
    ):
        report = Collector(
            plan, store, engine, Measuring(), listener, lambda: bool(got)
        ).run()
    return report, got[0] if got else 0


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Signals that ask to stop, as they come; a second one stops at once."""
    got: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def note(signum: int, frame: object) -> None:
        if got:
            raise KeyboardInterrupt
        got.append(signum)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, note)
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _put_plan(plan: CollectionPlan, options: Options) -> None:
    if options.json:
        put_json(plan.to_dict())
        return
    console = screen()
    console.print(_plan_table(plan))
    console.print(_plan_words(plan))
    for note in plan.notes:
        console.print(note)


# In words ---------------------------------------------------------------------


@contextmanager
def _collecting(name: str) -> Iterator[Callable[[Step], None]]:
    """A bar on standard error; off a terminal, a line for every run that ends."""
    if not sys.stderr.isatty():
        yield _print_line
        return
    with counted_bar(plain(name), "runs") as bar:

        def show(step: Step) -> None:
            is_next = step.event == "started"
            doing, line = (plain(step.run), "") if is_next else (None, _words(step))
            bar(step.done, step.total, doing, _pace(step), line)

        yield show


def _print_line(step: Step) -> None:
    if words := _words(step):
        text = f"irene collect: {step.done} of {step.total}: {words}"
        if step.event:
            text += f" · {_pace(step)}"
        say(text)


def _pace(step: Step) -> str:
    if not step.rate_per_hour:
        return f"about {human_duration(step.left_s)} left"
    rate = f"{step.rate_per_hour:,.3g} per hour"
    return f"{rate}, about {human_duration(step.left_s)} left"


def _words(step: Step) -> str:
    """What has happened; "" for nothing worth a line."""
    run = plain(step.run)
    if step.event == "measured":
        told = f"; {plain(step.message)}" if step.message else ""
        return f"{run}: measured in {human_duration(step.lasted_s)}{told}"
    if step.event == "failed":
        return f"{run}: failed: {plain(step.message)}"
    if step.event == "skipped":
        return f"{run}: another collector has done it"
    return plain(step.message)


def _plan_table(plan: CollectionPlan) -> Table:
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
        table.add_row(model, *map(str, counts), str(len(todo)), about)
    return table


def _plan_words(plan: CollectionPlan) -> str:
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


def _report_lines(report: Report, store: str, most: int) -> Iterator[str]:
    """What became of a sweep, line by line."""
    from irene.collect.measuring import label_of

    yield (
        f"{report.measured} measured in {human_duration(report.lasted_s)}, "
        f"{report.there} there before, {len(report.failures)} failed, "
        f"{report.left} left; store {plain(store)}"
    )
    if report.disturbed:
        yield (
            f"{report.disturbed} of them were disturbed, by other processes or a clock "
            "that was throttled: their nodes weigh less in training"
        )
    if report.elsewhere:
        yield f"{report.elsewhere} were measured by another collector meanwhile"
    for one in report.failures[:most]:
        yield f"failed: {plain(label_of(one.spec))}: {plain(one.reason)}"
    if len(report.failures) > most:
        yield f"and {len(report.failures) - most} more; `irene data show` lists them"
    for message in report.messages:
        yield plain(message)
