"""`irene measure`: a model run on this machine, node by node, under power meters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from irene.cli.options import TreeView
from irene.cli.output import check_files, check_output, put_json, put_tree, say, screen
from irene.cli.progress import counted_bar, working
from irene.errors import UsageError
from irene.human import human_duration
from irene.parameters import Asked, parameters_of, written
from irene.show.terminal import columns
from irene.show.text import plain
from irene.spec import SERVING, RunSpec

if TYPE_CHECKING:
    from rich.table import Table

    from irene.measure.alone.node_by_node import Plan, Progress
    from irene.tree import ModelTree

USAGE = "MODEL [options]"
EXAMPLES = """\
Every distinct node is run alone, in several rounds; nothing else should run meanwhile.
Finished nodes are kept: after Ctrl-C or a crash, the same command goes on.

examples:
  irene measure bert-l4-h256 -b 8 -s 128 --quick
  irene measure bert-base-uncased -b 8 -s 128 --device cuda --out bert.json
  irene measure gpt2 --phase decode --context 512 --dtype bf16 --attention sdpa
  irene measure bert-base-uncased -b 16 -s 256 --data lab.parquet
  irene measure bert-base-uncased --paper --plan
"""
MEASURING = "the measurement"
SERVED = tuple(p.name for p in parameters_of(RunSpec) if p.asked.group == SERVING)


def _how(metavar: str = "", least: float | None = None, either: str = "") -> Asked:
    return Asked(metavar=metavar, least=least, either=either, group=MEASURING)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        device: cpu, cuda, cuda:1, mps, …; auto (default): the fastest there is.
        no_limits: Accept configs and sizes past the limits.
        quick: 3 rounds of 0.2 s: a first look.
        paper: 5 rounds of 20 s, as in the IrEne paper.
        rounds: Rounds per node (default 5).
        round_seconds: Least length of a round, s (default 2).
        threads: Threads of torch on the CPU.
        exclusive: Keep other processes off the CPUs during rounds (Linux, as root).
        meter: A meter, may be given several times (default: the best here, as `irene
            doctor` lists them).
        name: What to call this machine.
        plan: Say what would be run, and run nothing.
        data: Add the tree to a Parquet file that `irene train` reads.
        journal: File that keeps finished nodes (default: one in the user's cache).
        fresh: Forget nodes that are finished already.
    """

    run: RunSpec = field(metadata={"required": ("model",), "left_out": SERVED})
    device: str = "auto"
    no_limits: bool = False
    quick: Annotated[bool, _how(either="protocol")] = False
    paper: Annotated[bool, _how(either="protocol")] = False
    rounds: Annotated[int | None, _how("N")] = None
    round_seconds: Annotated[float | None, _how("S")] = None
    threads: Annotated[int | None, _how("N")] = None
    exclusive: Annotated[bool, _how()] = False
    meter: Annotated[tuple[str, ...] | None, _how("NAME")] = None
    name: Annotated[str, _how("NAME")] = "this-machine"
    plan: Annotated[bool, _how()] = False
    data: Annotated[str | None, _how("FILE")] = None
    journal: Annotated[str | None, _how("FILE")] = None
    fresh: Annotated[bool, _how()] = False
    view: TreeView = field(default_factory=TreeView)


def run(options: Options) -> int:
    """Measure, then print or write; or only say what would be run."""
    from irene.measure.protocol import pin_threads
    from irene.trace.limits import NO_LIMITS
    from irene.trace.sources import locate

    check_output(options.view)
    if options.data:
        _check_data(Path(options.data), options.run)
        check_files(options.data)
    locate(options.run.model)  # before torch is loaded
    arguments = written(options.run) | {
        "device": options.device,
        "limits": NO_LIMITS if options.no_limits else None,
        "protocol": "quick"
        if options.quick
        else "paper"
        if options.paper
        else "default",
        "rounds": options.rounds,
        "round_s": options.round_seconds,
        "threads": options.threads,
    }
    pin_threads()
    if options.plan:
        _put_plan(_plan(arguments), options)
        return 0
    tree = _measure(options, arguments)
    put_tree(tree, options.view)
    if options.data:
        from irene.dataset import add_to_file

        trees = add_to_file(tree, Path(options.data))
        say(f"wrote {options.data}: {trees} trees")
    return 0


def _check_data(file: Path, run: RunSpec) -> None:
    """Refuse data that could not be written after hours of measuring."""
    from irene.dataset import read_parquet

    if run.phase != "forward":
        raise UsageError(f"--data holds forward passes, not phase {run.phase}")
    if file.is_file():
        read_parquet(file)


def _measure(options: Options, arguments: dict[str, Any]) -> ModelTree:
    try:
        with _measuring(options.run.model) as progress:
            from irene.measure.api import measure

            return measure(
                exclusive=options.exclusive,
                meters=options.meter,
                name=options.name,
                journal=Path(options.journal) if options.journal else "auto",
                fresh=options.fresh,
                progress=progress,
                **arguments,
            )
    except KeyboardInterrupt:
        say("irene measure: finished nodes are kept; the same command goes on")
        raise


def _plan(arguments: dict[str, Any]) -> Plan:
    with working(f"planning {arguments['model']}"):
        from irene.measure.api import plan_measurement

        return plan_measurement(**arguments)


def _put_plan(plan: Plan, options: Options) -> None:
    if options.view.json:
        put_json(plan.to_dict())
        return
    console = screen()
    console.print(_plan_table(plan))
    console.print(_plan_words(plan))


@contextmanager
def _measuring(model: str) -> Iterator[Callable[[Progress], None]]:
    """A bar on standard error with the time left; off a terminal, lines at times."""
    if not sys.stderr.isatty():
        yield _Lines(model)
        return
    said = {""}
    with counted_bar(f"preparing {plain(model)}", "nodes") as bar:

        def show(step: Progress) -> None:
            is_new = step.message not in said
            said.add(step.message)
            line = f"{plain(step.node)}: {step.message}" if is_new else ""
            left = f"{human_duration(step.left_s)} left"
            bar(step.done, step.total, plain(step.node or model), left, line)

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
                f"{human_duration(step.left_s)} left"
            )
        if step.message and step.message not in self._said:
            self._said.add(step.message)
            self._print(f"{plain(step.node)}: {step.message}")

    def _print(self, words: str) -> None:
        say(f"irene measure: {self._model}: {words}")


def _plan_table(plan: Plan) -> Table:
    """The distinct nodes, how often each occurs, and about how long each takes."""
    heads = ("<node", "<op", "<inputs", "times", "about")
    table = columns(*heads, goes=("inputs", "op"), dim=("op", "inputs"))
    for node in plan.nodes:
        shapes = " ".join("×".join(map(str, shape)) for shape in node.shapes)
        times = f"×{node.times}" if node.times > 1 else ""
        name = node.path or "(model)"
        table.add_row(name, node.op, shapes, times, human_duration(node.total_s))
    return table


def _plan_words(plan: Plan) -> str:
    """How much it is, and about how long it takes."""
    protocol = plan.protocol
    times = sum(node.times for node in plan.nodes)
    return (
        f"{len(plan.nodes)} distinct nodes of {times:,} · {protocol.rounds} rounds of "
        f"{protocol.round_s:g} s, up to {protocol.extra_rounds} more where something "
        f"disturbs · about {human_duration(plan.total_s)} in all, guessed from FLOPs"
    )
