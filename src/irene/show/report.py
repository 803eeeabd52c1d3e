"""A report: everything about one model on one page, to send to a colleague.

What could not be asked is named with the reason. The page loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import ClassVar, TypeVar

from irene import __version__
from irene.analyse.bottlenecks import Bottlenecks, find_bottlenecks
from irene.analyse.costs import Costing, CostTerms, Line, cost_of
from irene.analyse.grid import WhatIf, what_if
from irene.analyse.pareto import TradeOff, published_accuracies, trade_off
from irene.analyse.subject import Progress, Subject
from irene.analyse.suggest import Advice, suggestions
from irene.errors import UsageError
from irene.plain import Document
from irene.predict.intervals import LEVELS
from irene.predict.machines.finding import find_machine, known_predictors
from irene.predict.machines.predictor import Predictor
from irene.show.page.shell import page
from irene.show.page.tree_page import ShownTree
from irene.show.picture.answer_pictures import SIZES, size_chart, trade_off_chart
from irene.tree import ModelTree
from irene.tree.headline import NO_ENERGY, energy_per_unit, model_name, unit_words

PARTS = ("bottlenecks", "sizes", "trade-off", "suggestions")
"""Parts of a report that can be left out."""
PREDICTED_PARTS = PARTS[1:]
"""Parts that need predictions of other sizes or models."""
BATCHES = (1, 2, 4, 8, 16, 32)
LENGTHS = (32, 64, 128, 256, 384, 512)
SAVED = (
    "this report is of a saved tree, and other sizes and models need a predictor: "
    "`irene report TREE.json --on NAME` has one"
)
AS_ASKED = "left out as asked"
EFFORTS = {
    "setting": ("By a setting", "by a setting"),
    "retraining": ("With training", ""),
    "another model": ("With another model", "with another model"),
}
"""Heading of suggestions, and how the best of them is named at the top, if it is."""
LEVEL_NAMES = dict(zip(LEVELS, ("primitives", "modules", "whole models"), strict=True))
ACCURACIES = "SST-2 accuracy against energy per sequence"

Units = tuple[tuple[float, str], ...]
KWH: Units = ((1e6, "GWh"), (1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"), (1e-6, "mWh"))
KG: Units = ((1e3, "t"), (1.0, "kg"), (1e-3, "g"), (1e-6, "mg"), (1e-9, "µg"))
PLAIN: Units = ((1.0, ""),)
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Report:
    """Everything about one tree; why a part is not there is in `left_out`."""

    tree: ModelTree
    costing: Costing | None
    bottlenecks: Bottlenecks | None
    sizes: tuple[WhatIf, ...]
    trade_off: TradeOff | None
    advice: Advice | None
    predictor: Predictor | None
    predicted_for: str
    left_out: Mapping[str, str]


def make_report(
    tree: ModelTree,
    base: Subject | None = None,
    *,
    without: Collection[str] = (),
    cost: CostTerms | None = None,
    progress: Progress | None = None,
) -> Report:
    """Ask everything about a tree that can be asked."""
    unknown = sorted(set(without) - set(PARTS))
    if unknown:
        raise UsageError(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    has_energy = tree.energy_of(0) is not None
    making = _Making(tree, base, without, progress)
    return Report(
        tree,
        cost_of(tree, cost) if has_energy else None,
        making.part("bottlenecks", lambda: find_bottlenecks(tree)),
        making.part("sizes", making.sizes) or (),
        making.part("trade-off", making.trade_off),
        making.part("suggestions", making.advice),
        _predictor_of(tree, base),
        base.on if base else "",
        making.left_out,
    )


@dataclass(slots=True)
class _Making:
    """The parts one by one, and why some are not made."""

    tree: ModelTree
    base: Subject | None
    without: Collection[str]
    progress: Progress | None
    left_out: dict[str, str] = field(default_factory=dict)

    def part(self, name: str, make: Callable[[], Found]) -> Found | None:
        """A part, or None with the reason noted."""
        reason = self._reason(name)
        if reason is None:
            try:
                return make()
            except UsageError as error:
                reason = str(error)
        self.left_out[name] = reason
        return None

    def _reason(self, name: str) -> str | None:
        if name in self.without:
            return AS_ASKED
        if name in PREDICTED_PARTS:
            return SAVED if self.base is None else None
        return NO_ENERGY if self.tree.energy_of(0) is None else None

    def sizes(self) -> tuple[WhatIf, ...]:
        base = self._base()
        run = base.run
        length = "context_len" if run.phase == "decode" else "seq_len"
        here = {"batch_size": run.batch_size, "seq_len": run.seq_len}
        here["context_len"] = run.context_len or run.seq_len
        wanted: list[tuple[str, Sequence[int]]] = [("batch_size", BATCHES)]
        if _reads_tokens(self.tree):
            wanted.append((length, LENGTHS))
        return tuple(
            what_if(base, {name: sorted({*values, here[name]})}, self._telling("sizes"))
            for name, values in wanted
        )

    def trade_off(self) -> TradeOff:
        base = self._base()
        phase = base.run.phase
        if phase != "forward" or not _reads_tokens(self.tree):
            what = "reads no text" if phase == "forward" else f"is a {phase} run"
            raise UsageError(
                f"the table has scores of models that read a sentence; this {what}"
            )
        run = base.run.changed(model_class=None)
        rows = published_accuracies()
        return trade_off(rows, run, base.on, progress=self._telling("trade-off"))

    def advice(self) -> Advice:
        return suggestions(self._base(), self._telling("suggestions"))

    def _base(self) -> Subject:
        assert self.base is not None
        return self.base

    def _telling(self, part: str) -> Progress | None:
        if self.progress is None:
            return None
        tell = self.progress
        return lambda done, total, what: tell(done, total, f"{part}, {what}")


def _reads_tokens(tree: ModelTree) -> bool:
    """Whether the model reads sequences of tokens."""
    return any(unit == "token" for unit, _ in energy_per_unit(tree))


def _predictor_of(tree: ModelTree, base: Subject | None) -> Predictor | None:
    """The predictor that made a tree's energy, if it is one that is at hand."""
    hardware, energy = tree.hardware, tree.energy_of(0)
    if hardware is None or energy is None or energy.source != "predicted":
        return None
    places = [base.on] if base else []
    places += [hardware.name] if hardware.name in known_predictors() else []
    for machine in map(find_machine, places):
        is_it = machine.hardware.predictor == hardware.predictor
        if is_it and isinstance(machine, Predictor):
            return machine
    return None


# The page ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportPage(Document):
    """A page that loads nothing, and why a part is not on it, by its name."""

    html: str
    left_out: Mapping[str, str]

    schema: ClassVar = "irene.report/1"


def report_html(report: Report, title: str | None = None) -> str:
    """One self-contained page."""
    shown = ShownTree(report.tree, title)
    return page(
        "report.html",
        shown.window_title,
        styles=("page.css", "report.css"),
        has_pictures=True,
        shown=shown,
        report=report,
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
        each_j=dict(energy_per_unit(report.tree)).get("sequence"),
        efforts=EFFORTS,
        levels=LEVEL_NAMES,
        made=f"Made by irene {__version__} on {date.today().isoformat()}.",
    )


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
