"""`irene train`: learn a machine from measured trees."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.machines.engine_options import add_engine_options, chosen_engine
from irene.cli.machines.measured import (
    DATA,
    Measured,
    add_choice_options,
    add_config_option,
    add_machine_options,
    data_provenance,
    machine,
    read_measured,
)
from irene.cli.machines.method_options import (
    METHODS,
    add_method_options,
    chosen_options,
)
from irene.cli.options import whole_number
from irene.cli.progress import progress_bar

if TYPE_CHECKING:
    from irene.predict.learning.saved_methods import SavedMethod
    from irene.predict.machines.predictor import Predictor

__all__ = ["configure", "put_predictor", "run"]

EXAMPLES = f"""\
{METHODS}
A predictor of specs is for `irene predict` and `irene evaluate`; the other methods
need measured features and are for `irene evaluate`.

examples:
  irene train irene-pc1 --out pc1.json --name pc1
  irene train lab-store --out lab.json --name lab
  irene train lab-store --out lab.json --name lab --engine ray
  irene train lab.parquet --out lab.json --description "Xeon 6338, A100 40 GB"
  irene train lab.jsonl --out lab.json --configs mine=./mine/config.json
  irene train irene-pc1 --method irene --features model --out paper.json
  irene predict bert-base-uncased -b 8 -s 128 --on lab.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene train DATA --out FILE [options]"
    parser.epilog = EXAMPLES
    parser.add_argument("data", metavar="DATA", help=DATA)
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="file of the predictor (JSON)"
    )
    add_method_options(parser, "specs")
    parser.add_argument(
        "--seed", type=whole_number, default=0, metavar="N",
        help="random start of the methods that have one (default 0)",
    )  # fmt: skip
    add_config_option(parser)
    add_choice_options(parser)
    add_engine_options(parser)
    add_machine_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Read, learn, write and say what was learned."""
    from irene.cli.output import check_writable

    check_writable(options.out)
    from irene.predict import make_method

    chosen = {**chosen_options(options), "seed": options.seed}
    make_method(options.method, **chosen)  # before reading
    if options.method != "specs":
        return _train_method(options, chosen)
    from irene.predict.learning.training import train

    with chosen_engine(options) as folds:
        measured = read_measured(options, "train", trace=folds.trace if folds else None)
        table, joiner = measured.table, measured.joiner
        with progress_bar("holding out") as progress:
            predictor = train(
                table,
                machine(options, table.name, "wall", measured.hardware),
                data_provenance(table),
                joiner,
                progress,
                folds.rounds(table, joiner, "specs", chosen) if folds else None,
            )
    put_predictor(predictor, options, measured, "irene.training/1")
    return 0


def _train_method(options: argparse.Namespace, chosen: dict[str, Any]) -> int:
    from irene.predict.learning.saved_methods import train_method

    needs_traces = options.method == "partial"
    with chosen_engine(options) as folds:
        trace = folds.trace if folds else None
        measured = read_measured(options, "train", needs_traces, trace)
        table, joiner = measured.table, measured.joiner
        with progress_bar("holding out") as progress:
            saved = train_method(
                table,
                options.method,
                chosen,
                machine(options, table.name, "wall", measured.hardware),
                data_provenance(table),
                joiner,
                progress,
                folds.rounds(table, joiner, options.method, chosen) if folds else None,
            )
    put_predictor(saved, options, measured, "irene.training/1")
    return 0


def put_predictor(
    predictor: Predictor | SavedMethod,
    options: argparse.Namespace,
    measured: Measured | None,
    schema: str,
) -> None:
    """Write a predictor to `--out` and print what was learned.

    Args:
        predictor: What was learned.
        options: With `out` and `json`.
        measured: What it was learned from, if anything.
        schema: Of the JSON document.
    """
    predictor.save(options.out)
    fields = predictor.to_dict()
    size_bytes = Path(options.out).stat().st_size
    if options.json:
        file = {"out": options.out, "bytes": size_bytes, "digest": fields["digest"]}
        shown = ("method", "options", "hardware", "widths", "domain", "provenance")
        document = {
            "schema": schema,
            **file,
            **{name: fields[name] for name in shown if name in fields},
            **({} if measured is None else measured.to_dict()),
        }
        json.dump(document, sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        _print_learned(fields, measured, options.out, size_bytes)


def _print_learned(
    fields: dict[str, Any], measured: Measured | None, out: str, size_bytes: int
) -> None:
    from irene.cli.machines import machine_text as text

    told = fields["provenance"]
    tables = (
        text.error_lines(told),
        text.width_lines(fields["widths"], told.get("coverage"))
        if "widths" in fields
        else [],
        [] if measured is None else list(text.unmatched_lines(measured)),
    )
    print("\n".join(text.machine_lines(fields)))
    if "options" in fields:
        chosen = ", ".join(
            f"{name} {value}" for name, value in fields["options"].items()
        )
        print(f"method {fields['method']}, {chosen}")
    for lines in filter(None, tables):
        print("", *lines, sep="\n")
    print("", text.file_line(out, size_bytes, fields["digest"]), sep="\n")
