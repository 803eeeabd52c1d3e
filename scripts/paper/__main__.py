"""Compute everything and write the page and its pictures."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from benchmarks.accuracy import CANDIDATES, compare, coverage, read_pc1
from scripts.paper.energy_shares import FIGURE_MODEL, bert_branches
from scripts.paper.figures import (
    BATCH,
    LENGTH,
    figure_3,
    figure_4,
    figure_5,
    predict_miniatures,
)
from scripts.paper.held_out import predict_all
from scripts.paper.page import Results, page

from irene.dataset import NodeTable, TreeKey
from irene.errors import IreneError

DOCS = Path(__file__).parents[2] / "docs"


def compute(table: NodeTable, date: str) -> Results:
    """Everything that the page shows; takes a few minutes."""
    labels = [candidate.label for candidate in CANDIDATES]
    predictions = predict_all(table, labels, _note)
    rows = compare(table, progress=_note)
    _note("BERT sizes")
    size = table.keys.index(TreeKey(FIGURE_MODEL, BATCH, LENGTH))
    return Results(
        table,
        predictions,
        rows,
        coverage(table),
        bert_branches(table, predictions),
        predict_miniatures(),
        float(table.energy_j[table.starts[size]]),
        date,
    )


def write(results: Results, docs: Path) -> None:
    """Write the page and its pictures below a folder."""
    images = docs / "images"
    figure_3(results.predictions).save(images / "paper-figure-3.svg")
    picture = figure_4(results.miniatures, results.measured_base_j)
    picture.save(images / "paper-figure-4.svg")
    figure_5(results.branches).save(images / "paper-figure-5.svg")
    explanation = docs / "explanation"
    explanation.mkdir(parents=True, exist_ok=True)
    (explanation / "results.md").write_text(page(results), encoding="utf-8")


def main() -> int:
    """Read the data, compute, write."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.paper", description=__doc__
    )
    today = datetime.date.today().isoformat()
    parser.add_argument("--date", default=today, help="date on the page (today)")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of the docs")
    options = parser.parse_args()
    try:
        table = read_pc1()
    except IreneError as error:
        print(f"paper: {error}", file=sys.stderr)
        return error.exit_code
    write(compute(table, options.date), options.docs)
    print(f"wrote {options.docs / 'explanation' / 'results.md'}")
    return 0


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
