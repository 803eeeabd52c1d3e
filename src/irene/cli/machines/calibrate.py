"""`irene calibrate`: a new machine from a known one and few measured trees."""

from __future__ import annotations

import argparse

from irene.cli.machines.learning_options import (
    DATA,
    add_choice_options,
    add_config_option,
    add_machine_options,
    data_provenance,
    machine,
    read_measured,
)
from irene.cli.progress import progress_bar
from irene.errors import UsageError

__all__ = ["configure", "run"]

USAGE = "--from NAME [DATA] --out FILE [options]"
EXAMPLES = """\
examples:
  irene calibrate --from pc1 lab.parquet --out lab.json --name lab
  irene calibrate --from pc1 --out guess.json --name lab   (nothing measured yet)
  irene predict bert-base-uncased -b 8 -s 128 --on lab.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "data", metavar="DATA", nargs="?",
        help=f"trees measured on the new machine: {DATA}; without it the known "
        "machine's rates are taken as they are",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="source", metavar="NAME", required=True,
        help="known machine, or the file of a predictor",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="file of the predictor (JSON)"
    )
    add_config_option(parser)
    add_choice_options(parser)
    add_machine_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Read, choose, write and say what was chosen."""
    from irene.cli.machines.train import put_predictor
    from irene.cli.output import check_writable
    from irene.predict.learning.join import Joiner
    from irene.predict.learning.machine_calibration import calibrate
    from irene.predict.machines.finding import find_trained

    check_writable(options.out)
    if options.data is None and not options.name:
        raise UsageError("without data the new machine needs a name: --name NAME")
    source = find_trained(options.source)
    measured = None
    if options.data is not None:
        measured = read_measured(options, "calibrate")
    table = measured.table if measured else None
    hardware = machine(options, table.name if table else "", source.hardware.covers)
    with progress_bar("holding out") as progress:
        predictor = calibrate(
            source,
            table,
            hardware,
            data_provenance(table),
            measured.joiner if measured else Joiner(),
            progress,
        )
    put_predictor(predictor, options, measured, "irene.calibration/1")
    return 0
