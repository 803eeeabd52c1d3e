"""`irene learn`: this machine, measured and learned in minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from irene.cli.machines.machine_text import interval_line, learning_lines
from irene.cli.output import put, say
from irene.cli.progress import progress_bar
from irene.parameters import Asked
from irene.show.text import plain

if TYPE_CHECKING:
    from irene.collect.learning import Learned

USAGE = "[options]"
EXAMPLES = """\
Small models of many architectures and single products are run under the best meter
there is. Stop it whenever you like: the same command goes on. From then on all commands
predict for this machine, unless --on, $IRENE_HARDWARE or `irene hardware use` name
another.

examples:
  irene learn --quick
  irene learn
  irene learn --threads 1 --name one-thread
  irene learn --check
  irene learn --quick --nodes cluster.yaml
"""
MINUTES = {"quick": "3 minutes", "usual": "10 minutes", "thorough": "35 minutes"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        quick: At most 3 minutes.
        thorough: About 35 minutes, for the smallest errors.
        check: Half a minute: whether it still behaves as it was learned.
        name: What to call it (default this-machine, which becomes the default).
        device: cpu, cuda, cuda:1, mps, … (default: the fastest there is).
        threads: Threads of torch on the CPU (default: as many as it uses).
        fresh: Forget what a stopped run has measured.
        nodes: Learn a node of every kind that a YAML file names, on Slurm or Ray.
        json: One JSON document.
    """

    quick: Annotated[bool, Asked(either="how")] = False
    thorough: Annotated[bool, Asked(either="how")] = False
    check: Annotated[bool, Asked(either="how")] = False
    name: Annotated[str, Asked(metavar="NAME")] = "this-machine"
    device: Annotated[str, Asked(metavar="D")] = "auto"
    threads: Annotated[int | None, Asked(least=1, metavar="N")] = None
    fresh: bool = False
    nodes: Annotated[str | None, Asked(metavar="FILE")] = None
    json: bool = False


def run(options: Options) -> int:
    """Learn or check, and say how it went."""
    if options.check:
        return _check(options)
    plan = "quick" if options.quick else "thorough" if options.thorough else "usual"
    if options.nodes:
        return _nodes(options, Path(options.nodes), plan)
    say(
        f"measuring this machine: small models and products, at most {MINUTES[plan]}; "
        "leave it alone meanwhile. Ctrl-C stops it, the same command goes on."
    )
    from irene.collect.learning import learn

    with _progress() as tell:
        found = learn(
            plan, name=options.name, device=options.device, threads=options.threads,
            fresh=options.fresh, tell=tell,
        )  # fmt: skip
    put(options, found.to_dict(), learned_lines(found))
    return 0


def _nodes(options: Options, file: Path, plan: str) -> int:
    from irene.collect.fleet import learn_nodes, read_nodes

    kinds = read_nodes(file)
    say(f"learning a node each of {', '.join(kinds)}")
    found = []
    for node in learn_nodes(kinds, plan, options.device, say):
        found.append(node)
        said = f"kept in {node.path}" if node.path else f"not learned: {node.problem}"
        say(f"{node.name} ({node.host or 'nowhere'}): {said}")
    nodes = [{**node._asdict(), "path": str(node.path or "")} for node in found]
    words = "`irene hardware` lists them; --on NAME predicts for one"
    put(options, {"nodes": nodes}, [words], "irene.learned-nodes/1")
    return 0 if all(node.path for node in found) else 1


@contextmanager
def _progress() -> Iterator[Callable[[float, float, str], None]]:
    """A bar on a terminal; a line every half minute elsewhere."""
    with progress_bar("learning") as bar:
        said = [-30.0]

        def tell(done_s: float, total_s: float, what: str) -> None:
            if bar is not None:
                bar(round(done_s), round(total_s), what)
            elif done_s - said[0] >= 30 or done_s >= total_s:
                said[0] = done_s
                say(f"{done_s:.0f} of {total_s:.0f} s: {what}")

        yield tell


def learned_lines(found: Learned) -> Iterator[str]:
    """What was learned, in words."""
    hardware, told = found.machine.hardware, found.machine.provenance
    yield plain(f"{hardware.name}: {hardware.description}")
    yield from learning_lines(told)
    yield plain(interval_line(found.machine.to_dict()["widths"]))
    yield plain(f"took {found.took_s:.0f} s; kept in {found.path}")
    if hardware.name == "this-machine":
        yield "from now on predictions are for this machine, unless --on says otherwise"
    else:
        yield f"use it: --on {hardware.name}, or `irene hardware use {hardware.name}`"


def _check(options: Options) -> int:
    from irene.predict.machines.finding import find_machine

    find_machine(options.name)  # before torch is imported
    from irene.collect.drift import check_machine

    with _progress() as tell:
        found = check_machine(options.name, tell=tell)
    put(options, found.to_dict(), map(plain, found.lines()))
    return 0
