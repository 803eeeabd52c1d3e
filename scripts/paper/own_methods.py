"""Our own methods beside the paper's, on all splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.accuracy import IN_WORDS, Row
from scripts.paper.markdown import markdown_table, number

from irene.predict.intervals import LEVELS

NEEDS = {
    "irene": "all nodes below the model were run",
    "irene, model features": "nothing was run",
    "irene, resource features": "all nodes below the model were run",
    "stepwise": "all nodes below the model were run",
    "sum": "all primitives were run",
    "unstructured": "every node was run",
    "utilisation": "every node was run",
    "counters": "every node was run",
    "partial": "the whole model was run once",
    "specs": "nothing was run",
}


def split_table(rows: Sequence[Row]) -> str:
    """Errors of every method, averaged over what was held out: ml / module / model."""
    grouped = [row for row in rows if row.weighting == "groups"]
    header = ("method", "what is known", *(IN_WORDS[c] for c in grouped[0].cells))
    cells = [
        [
            f"`{row.label}`",
            NEEDS[row.label],
            *(
                " / ".join(number(getattr(cell.errors, level)) for level in LEVELS)
                for cell in row.cells.values()
            ),
        ]
        for row in grouped
    ]
    return markdown_table(header, cells).replace("|---|---:|", "|---|---|", 1)


def coverage_table(covered: Mapping[str, Mapping[str, float]]) -> str:
    """How often the intervals hold, per held-out model."""
    rows = [
        [model, *(number(100 * levels[level], 0) for level in LEVELS)]
        for model, levels in covered.items()
    ]
    return markdown_table(("held-out model", "ml, %", "module, %", "model, %"), rows)
