"""`irene evaluate`: a saved predictor against measured trees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from irene.cli.machines.learning_options import OfData, read_measured
from irene.cli.machines.machine_text import level_table, unmatched_lines
from irene.cli.output import check_files, put_json, say_written
from irene.cli.progress import progress_bar, working
from irene.parameters import Asked
from irene.show.text import plain

if TYPE_CHECKING:
    from irene.predict.exams.evaluation import Evaluation
    from irene.predict.learning.own_data import DataRead

USAGE = "DATA --predictor NAME [options]"
EXAMPLES = """\
examples:
  irene evaluate irene-pc1 --predictor pc1
  irene evaluate lab.parquet --predictor lab.json --json
  irene evaluate trees.jsonl --predictor pc1 --out predicted.jsonl
"""


@dataclass(frozen=True, kw_only=True)
class Options(OfData):
    """What the command is asked with.

    Attributes:
        predictor: Known machine, or the file of a predictor.
        out: Write the trees as 2021 JSONL with predicted_energy filled in.
    """

    predictor: Annotated[str, Asked(metavar="NAME")]
    out: Annotated[str | None, Asked(metavar="FILE")] = None


def run(options: Options) -> int:
    """Read, compare and print."""
    check_files(options.out)
    measured, result = _compare(options)
    if options.out:
        _write(options.data, options.out, measured, result)
    if options.json:
        put_json({**result.to_dict(), **measured.to_dict()})
    else:
        _print_tables(result, measured)
    return 0


def _compare(options: Options) -> tuple[DataRead, Evaluation]:
    from irene.predict.exams.evaluation import evaluate, evaluate_method
    from irene.predict.learning.training_runs import is_saved_method, load_method
    from irene.predict.machines.finding import find_trained, known_machines

    named = options.predictor
    if named not in known_machines() and is_saved_method(named):
        saved = load_method(named)
        measured = read_measured(options, "evaluate", saved.needs_traces)
        saved.use(measured.joiner)
        with working("comparing"):
            return measured, evaluate_method(saved, measured.table)
    predictor = find_trained(named)
    measured = read_measured(options, "evaluate")
    with progress_bar("comparing") as progress:
        result = evaluate(predictor, measured.table, measured.joiner, progress)
    return measured, result


def _write(data: str, out: str, measured: DataRead, result: Evaluation) -> None:
    """A JSONL file keeps its identifiers; data of another format gets new ones."""
    from irene.dataset import copy_with_predictions, write_jsonl
    from irene.dataset.measured_data import data_path, format_of

    path = data_path(data)
    if format_of(path) == "jsonl":
        copy_with_predictions(path, Path(out), result.predicted_j)
    else:
        write_jsonl(measured.table, Path(out), result.predicted_j)
    say_written(out)


def _print_tables(result: Evaluation, measured: DataRead) -> None:
    print(plain(f"{result.dataset}, predicted by {result.predictor}") + "\n")
    errors = {row.model: row.errors.to_dict() for row in result.rows}
    errors |= {
        "average": result.average.to_dict(),
        "node-weighted": result.node_weighted.to_dict(),
    }
    print(*level_table("error in %", errors), "", sep="\n")
    _print_coverage(result)
    for line in (*_remarks(result), *unmatched_lines(measured)):
        print(line)


def _print_coverage(result: Evaluation) -> None:
    if result.coverage is None:
        print("this method has no intervals")
        return
    inside = {row.model: row.coverage for row in result.rows if row.coverage}
    inside["all nodes"] = result.coverage
    percent = {
        name: {k: None if v is None else 100 * v for k, v in row.to_dict().items()}
        for name, row in inside.items()
    }
    promised = result.promised_coverage
    told = f", {promised:.0%} promised" if promised else ""
    print(*level_table(f"% inside the interval{told}", percent), sep="\n")


def _remarks(result: Evaluation) -> list[str]:
    outside = sum(row.outside or 0 for row in result.rows)
    trees = sum(row.trees for row in result.rows)
    unpredicted = sum(row.unpredicted for row in result.rows)
    lines = []
    if outside:
        lines.append(
            f"{outside} of {trees} trees go beyond what the predictor was measured on"
        )
    inside = result.coverage.model if result.coverage else None
    promised = result.promised_coverage
    if inside is not None and promised and inside < promised / 2:
        lines.append(
            f"only {inside:.0%} of whole models are inside their interval: is the data "
            "of the machine that the predictor is of? `irene calibrate` adapts one"
        )
    if unpredicted:
        lines.append(f"{unpredicted} nodes have no prediction and do not count")
    return lines
