"""`irene train`: learn a machine from measured trees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from irene.cli.machines.learning_options import (
    METHODS,
    MethodOptions,
    OfMachine,
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
from irene.cli.output import check_files, put_json
from irene.cli.progress import progress_bar
from irene.parameters import Asked

if TYPE_CHECKING:
    from irene.predict.learning.own_data import DataRead
    from irene.predict.learning.training_runs import SavedMethod
    from irene.predict.machines.predictor import Predictor

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


@dataclass(frozen=True, kw_only=True)
class Options(OfMachine, MethodOptions):
    """What the command is asked with.

    Attributes:
        seed: Random start of the methods that have one.
    """

    method: Annotated[str, Asked(metavar="M")] = "specs"
    seed: Annotated[int, Asked(metavar="N")] = 0


def run(options: Options) -> int:
    """Read, learn, write and say what was learned."""
    check_files(options.out)
    from irene.predict import make_method

    how = {**chosen_options(options), "seed": options.seed}
    make_method(options.method, **how)  # before reading
    from irene.predict.learning.training_runs import train, train_method

    needs_traces = options.method in ("specs", "partial")
    predictor: Predictor | SavedMethod
    with chosen_engine(options) as folds:
        trace = folds.trace if folds else None
        measured = read_measured(options, "train", needs_traces, trace)
        table, joiner = measured.table, measured.joiner
        hardware = machine(options, table.name, "wall", measured.hardware)
        rounds = folds.rounds(table, joiner, options.method, how) if folds else None
        with progress_bar("holding out") as progress:
            told = {**data_provenance(table), **measured.doubts()}
            rest = (hardware, told, joiner, progress, rounds)
            if options.method == "specs":
                predictor = train(table, *rest)
            else:
                predictor = train_method(table, options.method, how, *rest)
    put_predictor(predictor, options.out, options.json, measured, "irene.training/1")
    return 0


def put_predictor(
    predictor: Predictor | SavedMethod,
    out: str,
    as_json: bool,
    measured: DataRead | None,
    schema: str,
) -> None:
    """Write a predictor to a file and print what was learned."""
    predictor.save(out)
    fields = predictor.to_dict()
    size_bytes = Path(out).stat().st_size
    if as_json:
        file = {"out": out, "bytes": size_bytes, "digest": fields["digest"]}
        shown = ("method", "options", "hardware", "widths", "domain", "provenance")
        document = {
            "schema": schema,
            **file,
            **{name: fields[name] for name in shown if name in fields},
            **({} if measured is None else measured.to_dict()),
        }
        put_json(document)
    else:
        _print_learned(fields, measured, out, size_bytes)


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
