"""Options and data of the commands that learn and examine.

Measured trees with their models' configs, the method, what it sees and how it learns,
and where the rounds of a cross-validation run.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from irene import __version__
from irene.cli.options import pair
from irene.cli.output import say
from irene.cli.progress import progress_bar, working
from irene.errors import UsageError
from irene.parameters import Asked

if TYPE_CHECKING:
    from irene.collect.folds import EngineFolds
    from irene.dataset import NodeTable
    from irene.hardware import Hardware
    from irene.predict.learning.join import Joiner, Progress
    from irene.predict.learning.own_data import DataRead

    TraceTable = Callable[[NodeTable, Joiner, Progress | None], None]


def _of_store(metavar: str) -> Asked:
    return Asked(metavar=metavar, group="of a store")


def _of_machine(metavar: str) -> Asked:
    return Asked(metavar=metavar, group="the machine")


@dataclass(frozen=True, kw_only=True)
class OfData:
    """Measured data, and which part of it is meant.

    Attributes:
        data: Store of `irene collect`, folder of 2021 CSV files, JSONL or Parquet file,
            or a name such as irene-pc1.
        configs: config.json of models that are not in the catalogue;
            configs/NAME.json in or next to the data is found by itself.
        hardware: The machine, if the store has several.
        software: Such as 'torch 2.13.0, transformers 5.22.0', if the store has several.
        allow_mixed: Learn from measurements of different software together.
        models: Only these models.
        json: One JSON document.
    """

    data: Annotated[str, Asked(word=True, metavar="DATA")]
    configs: Annotated[tuple[str, ...], Asked(metavar="NAME=FILE …")] = ()
    hardware: Annotated[str | None, _of_store("NAME")] = None
    software: Annotated[str | None, _of_store("VERSIONS")] = None
    allow_mixed: Annotated[bool, _of_store("")] = False
    models: Annotated[tuple[str, ...] | None, _of_store("NAME …")] = None
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class OfMachine:
    """What a machine is called, and what its energy covers.

    Attributes:
        out: File of the predictor (JSON).
        name: Short name (default: that of the data).
        covers: What the energy covers: wall (default), gpu-board, cpu-package, ….
        description: Processor, accelerator, memory, software.
    """

    out: Annotated[str, Asked(metavar="FILE")]
    name: Annotated[str | None, _of_machine("NAME")] = None
    covers: Annotated[str | None, _of_machine("WHAT")] = None
    description: Annotated[str | None, _of_machine("TEXT")] = None


@dataclass(frozen=True, kw_only=True)
class MethodOptions(OfData):
    """How something is learned from data, and where that runs.

    Attributes:
        method: See below.
        features: What the method sees of a node: all (default), model, resource.
        option: An option of the method, such as degree=2, tau=5, epochs=20,
            standardise=False; may be given several times.
        engine: Trace and hold out in processes of this machine, or on a cluster whose
            machines all see this folder (default: in this process); the result is the
            same.
        jobs: How many processes at a time (default: one per CPU; on a cluster, as many
            as it takes); without an engine, of this machine.
    """

    method: Annotated[str, Asked(metavar="M")]
    features: Annotated[str, Asked(metavar="F")] = "all"
    option: Annotated[tuple[str, ...], Asked(metavar="NAME=VALUE")] = ()
    engine: Annotated[
        Literal["local", "ray", "slurm"] | None, Asked(group="where it runs")
    ] = None
    jobs: Annotated[int | None, Asked(least=1, metavar="N", group="where it runs")] = (
        None
    )


def machine(
    options: OfMachine, name: str, covers: str, known: Hardware | None = None
) -> Hardware:
    """The machine that the options describe."""
    from irene.hardware import Hardware

    told = known or Hardware(name, covers)
    return Hardware(
        options.name or told.name,
        options.covers or told.covers,
        options.description or told.description,
    )


def data_provenance(table: NodeTable | None) -> dict[str, Any]:
    """Where a predictor's data is from: name, date, version of this program."""
    from datetime import UTC, datetime

    return {
        "data": None if table is None else table.name,
        "date": datetime.now(UTC).date().isoformat(),
        "software": f"irene {__version__}",
    }


def read_measured(
    options: OfData,
    command: str,
    needs_traces: bool = True,
    trace: TraceTable | None = None,
) -> DataRead:
    """Read measured trees and trace their models, with progress on standard error."""
    from irene.predict.learning.own_data import Choice, read_for_training

    given = _configs(options.configs)
    choice = Choice(
        options.hardware, options.software, options.allow_mixed, options.models
    )
    with working(f"reading {options.data}"):
        read = read_for_training(options.data, choice)
    table, left_out = read.table, read.left_out
    _check_names(given, table.models, options.data)
    for line in left_out:
        say(f"irene {command}: left out: {line}")
    from irene.predict.exams.evaluation import unmatched_paths

    read.joiner.configs.update(given)
    if not needs_traces:
        return read
    with progress_bar("tracing") as progress:
        if trace is not None:
            trace(table, read.joiner, progress)
        unmatched = unmatched_paths(table, read.joiner, progress)
    return replace(read, unmatched=unmatched)


def _configs(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, file = pair(word, "configs", "NAME=FILE")
        if not Path(file).exists():
            raise UsageError(f"--configs {word}: there is no file {file}")
        found[name] = file
    return found


def _check_names(given: Iterable[str], models: Sequence[str], data: str) -> None:
    strange = [name for name in given if name not in models]
    if strange:
        raise UsageError(
            f"--configs: {data} has no model {strange[0]!r}; "
            f"there are {', '.join(models)}"
        )


METHODS = """\
methods:
  counters      from what each node's run measured: time, GPU energy, CPU load
  specs         from shapes alone: nothing is run
  partial       the model was run, the rest is split by specs
  irene         the paper's tree, learned end to end
  stepwise      the same tree, learned level by level
  sum           a parent is the sum of its children
  unstructured  one regressor for nodes of all types
  utilisation   the software estimate: time × (CPU + memory) + GPU, times PUE
"""


def chosen_options(options: MethodOptions) -> dict[str, Any]:
    """What `make_method` takes, without the seed."""
    chosen: dict[str, Any] = {"features": options.features}
    for word in options.option:
        name, value = pair(word, "option")
        if name in ("features", "seed"):
            raise UsageError(f"--option {word}: {name} has an option of its own")
        chosen[name] = _value(value)
    return chosen


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


@contextmanager
def chosen_engine(options: MethodOptions) -> Iterator[EngineFolds | None]:
    """Where the rounds run; None for this process."""
    if options.engine is None and options.jobs is None:
        yield None
        return
    from irene.collect.folds import make_folds

    with (
        redirect_stdout(sys.stderr),  # Ray prints news of its machines
        make_folds(options.engine or "local", options.jobs) as folds,
    ):
        yield folds
