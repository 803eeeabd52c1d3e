"""docs/explanation/the-whole-chain.md: what the chain gave on the machine at hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.paper.markdown import markdown_table, number

__all__ = ["write_page"]

LEVELS = ("ml", "module", "model")


def write_page(
    path: Path,
    predictor: Mapping[str, Any],
    left_out: Mapping[str, Any],
    exam: Mapping[str, Any],
    shown: Mapping[str, Any],
    lasted_s: float,
    passes: int,
) -> None:
    """Write the page.

    Args:
        path: The file.
        predictor: What was learned.
        left_out: `irene crossvalidate --json`: each model from the others.
        exam: `irene validate --json`: architectures that were not collected.
        shown: `irene data show --json` of what was collected.
        lasted_s: How long the chain took, s.
        passes: How often everything was measured.
    """
    told, hardware = predictor["provenance"], predictor["hardware"]
    evaluation = exam["evaluation"]
    notes = "\n".join(f"- {note}" for note in exam["notes"])
    path.write_text(
        f"""# The whole chain on one machine

`make chain` collects, trains, leaves models out, and validates on architectures that
were never collected, with the commands that a user would give. This page is what it
wrote on {told["date"]}, in {lasted_s / 60:.0f} minutes.

The machine: {hardware["description"]}; one thread of torch. The models are the
architectures of the IrEne paper with fewer and narrower layers: {
            told["trees"]
        } runs of a
model at a size, each measured in {passes} passes over the whole sweep; of several
measurements of a node the median counts. {told["measurements"]:,} distinct nodes were
learned from. The energy covers `{hardware["covers"]}`.

{notes}

## A model left out

Each model predicted from the other five, errors in %:

{_errors([(row["held_out"], row) for row in left_out["rows"]], left_out["average"])}

## Architectures that were not collected

Errors in %, and the part of the nodes inside their 90 % interval:

{
            _errors(
                [(row["name"], row) for row in evaluation["rows"]],
                evaluation["average"],
            )
        }

{_coverage(evaluation)}

Whole models, run by run:

{_runs(exam["runs"])}

## How to read it

- The estimate knows the load of the CPU and not what the CPU does with it, so these
  energies are time times an estimated power. How well *time* is predicted is what this
  page tests; what a counter would say of the power is another question.
- A primitive that takes microseconds is measured less precisely than one that takes
  milliseconds, and there are many of them: the column `ml` counts them all alike.
- The machine is virtual. What its neighbours do changes the speed of its cores, from
  one pass to the next; the median of the passes takes out part of it.
- The form of the predictor (an op costs more in a node that moves more than the caches
  hold) was settled with the second table in sight; its numbers were not.
""",
        encoding="utf-8",
    )


def _name(model: str) -> str:
    return model.removeprefix("configs/").removesuffix(".json")


def _errors(
    rows: list[tuple[str, Mapping[str, float | None]]],
    average: Mapping[str, float | None],
) -> str:
    lines = [
        [_name(name), *(number(errors[level], 1) for level in LEVELS)]
        for name, errors in [*rows, ("average", average)]
    ]
    return markdown_table(["", *LEVELS], lines)


def _coverage(evaluation: Mapping[str, Any]) -> str:
    covered = evaluation.get("coverage") or {}
    cells = [
        "–" if covered.get(level) is None else f"{100 * covered[level]:.0f} %"
        for level in LEVELS
    ]
    return markdown_table(["", *LEVELS], [["inside the interval", *cells]])


def _runs(runs: list[Mapping[str, Any]]) -> str:
    lines = [
        [
            f"{_name(run['spec']['model'])}, "
            f"{run['spec']['batch_size']} × {run['spec']['seq_len']}",
            number(1e3 * run["time_s"] if run["time_s"] else None, 1),
            number(1e3 * run["measured_j"], 1),
            number(1e3 * run["predicted_j"], 1),
            f"{run['error_percent']:+.1f}",
        ]
        for run in runs
    ]
    return markdown_table(
        ["run", "time, ms", "measured, mJ", "predicted, mJ", "error, %"], lines
    )
