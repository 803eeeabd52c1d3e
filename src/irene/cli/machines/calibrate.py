"""`irene calibrate`: a new machine from a known one and few measured trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from irene.cli.machines.learning_options import (
    OfData,
    OfMachine,
    data_provenance,
    machine,
    read_measured,
)
from irene.cli.output import check_files
from irene.cli.progress import progress_bar
from irene.errors import UsageError
from irene.parameters import Asked

USAGE = "--from NAME [DATA] --out FILE [options]"
EXAMPLES = """\
examples:
  irene calibrate --from pc1 lab.parquet --out lab.json --name lab
  irene calibrate --from pc1 --out guess.json --name lab   (nothing measured yet)
  irene predict bert-base-uncased -b 8 -s 128 --on lab.json
"""


@dataclass(frozen=True, kw_only=True)
class Options(OfMachine, OfData):
    """What the command is asked with.

    Attributes:
        data: Trees measured on the new machine: a store of `irene collect`, a folder of
            2021 CSV files, a JSONL or Parquet file, or a name such as irene-pc1;
            without it the known machine's rates are taken as they are.
        from_: Known machine, or the file of a predictor.
    """

    data: Annotated[str, Asked(word=True, metavar="DATA")] = ""
    from_: Annotated[str, Asked(metavar="NAME")]


def run(options: Options) -> int:
    """Read, choose, write and say what was chosen."""
    from irene.cli.machines.train import put_predictor
    from irene.predict.learning.join import Joiner
    from irene.predict.learning.machine_calibration import calibrate
    from irene.predict.machines.finding import find_trained

    check_files(options.out)
    if not options.data and not options.name:
        raise UsageError("without data the new machine needs a name: --name NAME")
    source = find_trained(options.from_)
    measured = None
    if options.data:
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
    put_predictor(predictor, options.out, options.json, measured, "irene.calibration/1")
    return 0
