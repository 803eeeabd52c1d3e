"""The end of a report: how the numbers were made, and what is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from irene.show.page.tree_page import provenance_details
from irene.show.report.contents import Report
from irene.show.report.markup import items, paragraph, section, table

if TYPE_CHECKING:
    from irene.predict.machines.predictor import Predictor
    from irene.tree import ModelTree

__all__ = ["left_out_section", "method_section"]

LEVELS = {"ml": "primitives", "module": "modules", "model": "whole models"}
HELD_OUT = {
    "model": "each model",
    "family": "each family of models",
    "small": "the small runs",
    "large": "the large runs",
}
SOURCES = {
    "measured": "The energy was measured by {by}.",
    "predicted": "The energy was predicted by {by}; the model was not run.",
    "estimated": "The energy is an estimate by {by}, not a measurement.",
}


def method_section(report: Report) -> str:
    """Who says so, from which data, and how far off that is."""
    tree, predictor = report.tree, report.predictor
    energy = tree.energy_of(0)
    told = (
        SOURCES[energy.source].format(by=energy.produced_by)
        if energy
        else "FLOPs and bytes are counted from the shapes of every operation."
    )
    body = paragraph(told)
    if predictor is not None:
        body += _learned(predictor)
    elif energy is not None and energy.source == "predicted":
        body += paragraph(
            "That predictor is not at hand here, so its errors are not shown."
        )
    body += paragraph(
        "FLOPs count a multiply-add as two; bytes are what every operation reads and "
        "writes. The energy of a node includes what is below it."
    )
    body += items(_limits(tree))
    return section("method", "Method and provenance", body + provenance_details(tree))


def _learned(predictor: Predictor) -> str:
    told, domain = predictor.provenance, predictor.domain.to_dict()
    body = ""
    if told.get("trees"):
        body += paragraph(
            f"It learned {predictor.hardware.name} ({predictor.hardware.description}; "
            f"{predictor.hardware.covers} energy) from {told.get('data')}: "
            f"{told['trees']:,} measured trees and {told['measurements']:,} "
            f"measurements of {', '.join(told['models'])}."
        )
    ranges = {
        "tokens": "tokens per run",
        "lengths": "tokens per sequence",
        "widths": "width of weights",
    }
    within = ", ".join(
        f"{what} {domain[name][0]:,} to {domain[name][1]:,}"
        for name, what in ranges.items()
    )
    body += paragraph(
        f"Measured were {within}; {domain['dtype']}; {domain['software']}. What goes "
        "beyond that is marked as extrapolation and has a wider interval."
    )
    return body + _errors(told) + _intervals(predictor)


def _errors(told: Mapping[str, Any]) -> str:
    errors = told.get("held_out_errors_percent") or {}
    if not errors:
        return ""
    rows = [
        [HELD_OUT.get(name, name), *(_percent(row.get(level)) for level in LEVELS)]
        for name, row in errors.items()
    ]
    heads = ("held out, predicted from the rest", *LEVELS.values())
    return f"<h3>Cross-validated errors</h3>\n{table(heads, rows)}"


def _intervals(predictor: Predictor) -> str:
    coverage = predictor.provenance.get("coverage")
    widths = predictor.widths.to_dict()
    kind = (
        "guessed"
        if coverage is None
        else f"made to hold {coverage:.0%} of what is measured"
    )
    rows = [
        [name, *(f"+{math.expm1(widths[key][level]):.1%}" for level in LEVELS)]
        for name, key in (
            ("within what was measured", "inside"),
            ("beyond it", "outside"),
        )
    ]
    return table((f"intervals, {kind}", *LEVELS.values()), rows)


def _percent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f} %"


def _limits(tree: ModelTree) -> Sequence[str]:
    hardware = tree.hardware
    found = []
    if hardware is not None and hardware.covers:
        found.append(
            f"Covered is {hardware.covers} energy of {hardware.name}: no cooling, "
            "network or other machines, and nothing that making it took."
        )
    if tree.energy is not None:
        found.append("Other hardware, software or clocks give other numbers.")
    return found


def left_out_section(left_out: Mapping[str, str]) -> str:
    """Which parts are not on the page, and why; nothing if all are."""
    if not left_out:
        return ""
    told = items(f"{name}: {reason}" for name, reason in left_out.items())
    return section("left-out", "Not in this report", told)
