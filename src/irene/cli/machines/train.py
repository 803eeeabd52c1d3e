"""`irene train`: learn a machine from measured trees."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.machines.learning_options import (
    DATA,
    METHODS,
    add_choice_options,
    add_config_option,
    add_engine_options,
    add_machine_options,
    add_method_options,
    chosen_engine,
    chosen_options,
    data_provenance,
    machine,
    read_measured,
)
from irene.cli.machines.machine_text import (
    error_lines,
    origin_lines,
    unmatched_lines,
    width_lines,
)
from irene.cli.options import whole_number
from irene.cli.output import put_json
from irene.cli.progress import progress_bar

if TYPE_CHECKING:
    from irene.predict.learning.own_data import DataRead
    from irene.predict.learning.training_runs import SavedMethod
    from irene.predict.machines.predictor import Predictor

__all__ = ["configure", "put_predictor", "run"]

USAGE = "DATA --out FILE [options]"
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
    from irene.predict.learning.training_runs import train, train_method

    needs_traces = options.method in ("specs", "partial")
    predictor: Predictor | SavedMethod
    with chosen_engine(options) as folds:
        trace = folds.trace if folds else None
        measured = read_measured(options, "train", needs_traces, trace)
        table, joiner = measured.table, measured.joiner
        hardware = machine(options, table.name, "wall", measured.hardware)
        rounds = folds.rounds(table, joiner, options.method, chosen) if folds else None
        with progress_bar("holding out") as progress:
            told = {**data_provenance(table), **measured.doubts()}
            how = (hardware, told, joiner, progress, rounds)
            if options.method == "specs":
                predictor = train(table, *how)
            else:
                predictor = train_method(table, options.method, chosen, *how)
    put_predictor(predictor, options, measured, "irene.training/1")
    return 0


def put_predictor(
    predictor: Predictor | SavedMethod,
    options: argparse.Namespace,
    measured: DataRead | None,
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
        put_json(document)
    else:
        _print_learned(fields, measured, options.out, size_bytes)


def _print_learned(
    fields: dict[str, Any], measured: DataRead | None, out: str, size_bytes: int
) -> None:
    told, widths = fields["provenance"], fields.get("widths")
    print(*origin_lines(fields), sep="\n")
    if "options" in fields:
        chosen = ", ".join(
            f"{name} {value}" for name, value in fields["options"].items()
        )
        print(f"method {fields['method']}, {chosen}")
    tables = (
        error_lines(told),
        width_lines(widths, told.get("coverage")) if widths else [],
        list(unmatched_lines(measured)) if measured else [],
    )
    for lines in filter(None, tables):
        print("", *lines, sep="\n")
    print(f"\nwrote {out}: {size_bytes:,} bytes, digest {fields['digest'][:16]}")
