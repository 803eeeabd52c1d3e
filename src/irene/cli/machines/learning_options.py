"""Options and data of the commands that learn and examine.

DataRead trees with their models' configs, the method, what it sees and how it learns,
and where the rounds of a cross-validation run.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.options import whole_number
from irene.cli.progress import progress_bar, working
from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.dataset import NodeTable
    from irene.hardware import Hardware
    from irene.predict.learning.join import Joiner, Progress
    from irene.predict.learning.own_data import Choice, DataRead

    TraceTable = Callable[[NodeTable, Joiner, Progress | None], None]
    from irene.collect.folds import EngineFolds

__all__ = [
    "DATA",
    "METHODS",
    "add_choice_options",
    "add_config_option",
    "add_engine_options",
    "add_machine_options",
    "add_method_options",
    "chosen_engine",
    "chosen_options",
    "data_provenance",
    "machine",
    "read_measured",
]

DATA = (
    "store of `irene collect`, folder of 2021 CSV files, JSONL or Parquet file, or a "
    "name such as irene-pc1"
)


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Configs of models that the catalogue does not have."""
    parser.add_argument(
        "--configs", nargs="+", default=[], metavar="NAME=FILE",
        help="config.json of models that are not in the catalogue; configs/NAME.json "
        "in or next to the data is found by itself",
    )  # fmt: skip


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """What the machine is called, and what its energy covers."""
    group = parser.add_argument_group("the machine")
    group.add_argument("--name", help="short name (default: that of the data)")
    group.add_argument(
        "--covers", metavar="WHAT",
        help="what the energy covers: wall (default), gpu-board, cpu-package, …",
    )  # fmt: skip
    group.add_argument(
        "--description", metavar="TEXT", help="processor, accelerator, memory, software"
    )


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    """Which part of a store is meant."""
    group = parser.add_argument_group("of a store")
    group.add_argument(
        "--hardware", metavar="NAME", help="the machine, if the store has several"
    )
    group.add_argument(
        "--software", metavar="VERSIONS",
        help="such as 'torch 2.13.0, transformers 5.22.0', if the store has several",
    )  # fmt: skip
    group.add_argument(
        "--allow-mixed", action="store_true",
        help="learn from measurements of different software together",
    )  # fmt: skip
    group.add_argument("--models", nargs="+", metavar="NAME", help="only these models")


def _choice(options: argparse.Namespace) -> Choice:
    from irene.predict.learning.own_data import Choice

    models = options.models
    return Choice(
        options.hardware,
        options.software,
        options.allow_mixed,
        None if models is None else tuple(models),
    )


def machine(
    options: argparse.Namespace,
    name: str,
    covers: str,
    known: Hardware | None = None,
) -> Hardware:
    """The machine that the options describe.

    Args:
        options: Of `add_machine_options`.
        name: Its name if none is given.
        covers: What its energy covers if nothing is said.
        known: What the data says of it.
    """
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

    from irene import __version__

    return {
        "data": None if table is None else table.name,
        "date": datetime.now(UTC).date().isoformat(),
        "software": f"irene {__version__}",
    }


def read_measured(
    options: argparse.Namespace,
    command: str,
    needs_traces: bool = True,
    trace: TraceTable | None = None,
) -> DataRead:
    """Read measured trees and trace their models, with progress on standard error.

    Args:
        options: With `data`, and what `add_config_option` and `add_choice_options` add.
        command: Name of the command, for what is said on standard error.
        needs_traces: False for methods that look at measured features alone.
        trace: Traces a table's models elsewhere; None for here.

    Raises:
        UsageError: There is no such data, or a word is not NAME=FILE.
    """
    from irene.predict.learning.own_data import read_for_training

    given = _configs(getattr(options, "configs", ()))
    with working(f"reading {options.data}"):
        read = read_for_training(options.data, _choice(options))
    table, left_out = read.table, read.left_out
    _check_names(given, table.models, options.data)
    for line in left_out:
        print(f"irene {command}: left out: {line}", file=sys.stderr)
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
        name, is_pair, file = word.partition("=")
        if not (name and is_pair and file):
            raise UsageError(f"--configs takes NAME=FILE, got {word!r}")
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


def add_method_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Add `--method`, `--features` and `--option`.

    Args:
        parser: Of a command.
        default: Name of the method if none is given.
    """
    parser.add_argument(
        "--method", default=default, metavar="M", help=f"see below (default {default})"
    )
    parser.add_argument(
        "--features", default="all", metavar="F",
        help="what the method sees of a node: all (default), model, resource",
    )  # fmt: skip
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="an option of the method, such as degree=2, tau=5, epochs=20, "
        "standardise=False; may be given several times",
    )  # fmt: skip


def chosen_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `make_method` takes, without the seed.

    Args:
        options: With `features` and `option`.

    Raises:
        UsageError: A word is not NAME=VALUE, or names what has an option of its own.
    """
    chosen: dict[str, Any] = {"features": options.features}
    for word in options.option:
        name, is_pair, value = word.partition("=")
        if not (name and is_pair and value):
            raise UsageError(f"--option takes NAME=VALUE, got {word!r}")
        if name in ("features", "seed"):
            raise UsageError(f"--option {word}: {name} has an option of its own")
        chosen[name] = _value(value)
    return chosen


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add `--engine` and `--jobs`."""
    group = parser.add_argument_group("where it runs")
    group.add_argument(
        "--engine", choices=("local", "ray", "slurm"),
        help="trace and hold out in processes of this machine, or on a cluster whose "
        "machines all see this folder (default: in this process); the result is the "
        "same",
    )  # fmt: skip
    group.add_argument(
        "--jobs", type=whole_number, metavar="N",
        help="how many processes at a time (default: one per CPU; on a cluster, as "
        "many as it takes); without --engine, of this machine",
    )  # fmt: skip


@contextmanager
def chosen_engine(options: argparse.Namespace) -> Iterator[EngineFolds | None]:
    """What the options of `add_engine_options` ask for; None for this process.

    Raises:
        UsageError: Less than one job.
        MissingExtraError: What the engine needs is not installed.
    """
    if options.engine is None and options.jobs is None:
        yield None
        return
    from irene.collect.folds import make_folds

    with (
        redirect_stdout(sys.stderr),  # Ray prints news of its machines
        make_folds(options.engine or "local", options.jobs) as folds,
    ):
        yield folds
