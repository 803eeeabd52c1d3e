"""Options that say where the rounds of a cross-validation run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from irene.cli.options import whole_number

if TYPE_CHECKING:
    from irene.collect.folds import EngineFolds

__all__ = ["add_engine_options", "chosen_engine"]


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
