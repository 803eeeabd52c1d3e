"""A report as one page: no network, no files beside it, nothing but text is trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar

from irene import __version__
from irene.analyse.costs import Line
from irene.analyse.pareto import TradeOff
from irene.human import human_energy
from irene.plain import Document
from irene.predict.intervals import LEVELS
from irene.show.page.shell import page
from irene.show.page.tree_page import ShownTree
from irene.show.picture.answer_pictures import SIZES, size_chart, trade_off_chart
from irene.show.report.contents import Report
from irene.tree.headline import energy_per_unit, model_name, unit_words

if TYPE_CHECKING:
    from irene.predict.machines.predictor import Predictor

TITLES = {
    "icicle": "Picture",
    "bottlenecks": "Bottlenecks",
    "nodes": "Tree",
    "sizes": "Other sizes",
    "trade-off": "Accuracy",
    "suggestions": "Suggestions",
    "method": "Method",
    "left-out": "Not here",
}
EFFORTS = {
    "setting": ("By a setting", "by a setting"),
    "retraining": ("With training", ""),
    "another model": ("With another model", "with another model"),
}
"""Heading of suggestions, and how the best of them is named at the top, if it is."""
LEVEL_NAMES = dict(zip(LEVELS, ("primitives", "modules", "whole models"), strict=True))
HELD_OUT = {
    "model": "each model",
    "family": "each family of models",
    "small": "the small runs",
    "large": "the large runs",
}
LEARNED_RANGES = {
    "tokens": "tokens per run",
    "lengths": "tokens per sequence",
    "widths": "width of weights",
}
ACCURACIES = "SST-2 accuracy against energy per sequence"

Units = tuple[tuple[float, str], ...]
KWH: Units = ((1e6, "GWh"), (1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"), (1e-6, "mWh"))
KG: Units = ((1e3, "t"), (1.0, "kg"), (1e-3, "g"), (1e-6, "mg"), (1e-9, "µg"))
PLAIN: Units = ((1.0, ""),)
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class ReportPage(Document):
    """A report that was made.

    Attributes:
        html: The page, which loads nothing.
        left_out: Why a part is not on it, by its name.
    """

    html: str
    left_out: Mapping[str, str]

    schema: ClassVar = "irene.report/1"


def report_html(report: Report, title: str | None = None) -> str:
    """One self-contained page."""
    shown = ShownTree(report.tree, title)
    there = {
        "bottlenecks": report.bottlenecks is not None,
        "sizes": bool(report.sizes),
        "trade-off": report.trade_off is not None,
        "suggestions": report.advice is not None,
        "left-out": bool(report.left_out),
    }
    return page(
        "report.html",
        shown.window_title,
        styles=("page.css", "report.css"),
        has_pictures=True,
        shown=shown,
        report=report,
        parts_there={n: told for n, told in TITLES.items() if there.get(n, True)},
        energy=report.tree.energy_of(0),
        request=_request(report),
        costs=[[f"per {line.name}", *_cells(line)] for line in _lines(report)],
        million=next((_cells(ln) for ln in _lines(report) if ln.queries == 1e6), None),
        size_figures=[
            (size_chart(each), each, axis, SIZES[axis], unit_words(each.phase)[0])
            for each in report.sizes
            for axis in each.choices
        ],
        accuracies=report.trade_off
        and trade_off_chart(report.trade_off, model_name(report.tree), ACCURACIES),
        standing=report.trade_off and _standing(report, report.trade_off),
        efforts=EFFORTS,
        learned=report.predictor and _learned(report.predictor),
        made=f"Made by irene {__version__} on {date.today().isoformat()}.",
    )


# The top ----------------------------------------------------------------------


def _request(report: Report) -> str:
    """What a request is in this run."""
    spec = report.tree.spec
    if spec is not None and spec.phase == "decode":
        return "new token"
    if spec is not None and spec.phase == "train":
        return "training sequence"
    units = [unit for unit, _ in energy_per_unit(report.tree)]
    return units[0] if units else "run"


def _lines(report: Report) -> Sequence[Line]:
    return report.costing.lines if report.costing else ()


def _cells(line: Line) -> list[str]:
    """Energy, CO₂e, and money if there is a price."""
    cells = [
        _span(line.kwh, line.kwh_low, line.kwh_high, KWH),
        _span(line.kg_co2e, line.kg_co2e_low, line.kg_co2e_high, KG),
    ]
    if line.money is not None:
        assert line.money_low is not None
        assert line.money_high is not None
        cells.append(_span(line.money, line.money_low, line.money_high, PLAIN))
    return cells


def _span(value: float, low: float, high: float, units: Units) -> str:
    """A value with its interval, in the unit that suits it."""
    size, unit = next((u for u in units if value >= u[0]), units[-1])
    best, least, most = (_number(each / size) for each in (value, low, high))
    return f"{best} {unit} ({least} – {most})".replace("  ", " ")


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits, _, power = f"{value:.3g}".partition("e-")
    return f"{digits}·10⁻{power.lstrip('0').translate(RAISED)}" if power else digits


# The answers ------------------------------------------------------------------


def _standing(report: Report, found: TradeOff) -> str:
    """Where the model of the report stands among the others."""
    name = model_name(report.tree)
    here = next((each for each in found.candidates if each.model == name), None)
    if here is None:
        each_j = dict(energy_per_unit(report.tree)).get("sequence")
        cheaper = [c for c in found.candidates if each_j and c.energy.joules <= each_j]
        told = f"{name} has no published score in this table."
        if each_j is None or not cheaper:
            return told
        best = max(cheaper, key=lambda each: each.accuracy)
        return (
            f"{told} For its {human_energy(each_j)} per sequence or less the most "
            f"accurate one is {best.model} ({best.accuracy:g} %)."
        )
    if here.on_front:
        return (
            f"{name} is on the Pareto front: no model of the table is better in both."
        )
    sure = "may be" if here.maybe else "is"
    return f"{name} {sure} beaten by {here.beaten_by}: at least as accurate for less."


# The method -------------------------------------------------------------------


def _learned(predictor: Predictor) -> dict[str, Any]:
    """What a predictor has learned from, and how far off it is."""
    told, domain = predictor.provenance, predictor.domain.to_dict()
    coverage = told.get("coverage")
    held = "made to hold {:.0%} of what is measured"
    widths = predictor.widths.to_dict()
    intervals = {"within what was measured": "inside", "beyond it": "outside"}
    return {
        "domain": domain,
        "within": ", ".join(
            f"{what} {domain[name][0]:,} to {domain[name][1]:,}"
            for name, what in LEARNED_RANGES.items()
        ),
        "errors": [
            [HELD_OUT.get(name, name), *(_percent(row.get(lv)) for lv in LEVEL_NAMES)]
            for name, row in (told.get("held_out_errors_percent") or {}).items()
        ],
        "held": "guessed" if coverage is None else held.format(coverage),
        "intervals": [
            [name, *(f"+{math.expm1(widths[key][level]):.1%}" for level in LEVEL_NAMES)]
            for name, key in intervals.items()
        ],
        "levels": [(name, "number") for name in LEVEL_NAMES.values()],
    }


def _percent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f} %"
