"""The top of a report: the whole, what it costs, and what to take from the page."""

from __future__ import annotations

from html import escape

from irene.analyse.costs import Costing, Line
from irene.show.headline import energy_per_unit, energy_source, model_name, run_sizes
from irene.show.page.tree_page import card_items, notes_list
from irene.show.report.contents import Report
from irene.show.report.markup import items, paragraph, table
from irene.show.text import human_energy, human_range

__all__ = ["header"]

MOST_NAMED = 3

Units = tuple[tuple[float, str], ...]
KWH: Units = ((1e6, "GWh"), (1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"), (1e-6, "mWh"))
KG: Units = ((1e3, "t"), (1.0, "kg"), (1e-3, "g"), (1e-6, "mg"), (1e-9, "µg"))
PLAIN: Units = ((1.0, ""),)
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def header(report: Report, title: str) -> str:
    """Title, total, findings, cost and warnings.

    Args:
        report: All that is known.
        title: Heading of the page.
    """
    tree = report.tree
    where = energy_source(tree) or "costs only: this tree carries no energy"
    if tree.hardware and tree.hardware.description:
        where += f" · {tree.hardware.description}"
    sizes = run_sizes(tree.spec) if tree.spec else []
    name = [] if title == model_name(tree) else [model_name(tree)]
    return (
        f"<h1>{escape(title)}</h1>\n"
        f"{paragraph(' · '.join([*name, *sizes]))}{paragraph(where, soft=True)}"
        f'<ul class="cards">{card_items(tree)}</ul>\n'
        f"{items(_findings(report))}{notes_list(tree)}{_cost(report)}"
    )


def _findings(report: Report) -> list[str]:
    """What to take from the page, a sentence each."""
    found = []
    if report.costing is not None:
        found.append(_million(report.costing, _query(report)))
    if report.bottlenecks is not None:
        largest = report.bottlenecks.top(0.95, "role")[:MOST_NAMED]
        told = ", ".join(f"{row.name} {row.share:.0%}" for row in largest)
        wasted = report.bottlenecks.wasted_j / report.bottlenecks.energy.joules
        found.append(
            f"The largest parts by what they are for: {told}. {wasted:.0%} of the "
            "energy is more than this machine needs at its best."
        )
    if report.advice is not None:
        found += _best_advice(report)
    return found


def _million(costing: Costing, query: str) -> str:
    line = next(line for line in costing.lines if line.queries == 1e6)
    region = costing.region
    dated = f", mean of {region.year}" if region.year else ""
    return (
        f"A million {query}s take {_span(line.kwh, line.kwh_low, line.kwh_high, KWH)} "
        f"and cause {_carbon(line)} of CO₂e "
        f"({region.name}{dated}: {region.gco2e_per_kwh:g} g per kWh)."
    )


def _best_advice(report: Report) -> list[str]:
    assert report.advice is not None
    sure = [each for each in report.advice.suggestions if each.is_real]
    found = []
    for effort, what in (
        ("setting", "by a setting"),
        ("another model", "with another model"),
    ):
        best = max(
            (each for each in sure if each.effort == effort),
            key=lambda each: each.saving_j,
            default=None,
        )
        if best is not None:
            saved = human_energy(best.saving_j)
            found.append(
                f"The largest sure saving {what}: {best.title}, −{best.share:.0%} "
                f"({saved} per sequence)."
            )
    return found


def _query(report: Report) -> str:
    """What a query is in this run."""
    spec = report.tree.spec
    if spec is not None and spec.phase == "decode":
        return "new token"
    if spec is not None and spec.phase == "train":
        return "training sequence"
    units = [unit for unit, _ in energy_per_unit(report.tree)]
    return units[0] if units else "run"


def _cost(report: Report) -> str:
    costing = report.costing
    if costing is None:
        return ""
    price = costing.price_per_kwh
    heads = ["", "energy", "CO₂e"]
    heads += [] if price is None else [f"money, at {price:g} per kWh"]
    rows = [[f"per {line.name}", *_line_cells(line)] for line in costing.lines]
    pue = f" The building takes {costing.pue:g} times that of its machines."
    told = (
        f"A query is one {_query(report)}: {human_range(costing.per_query)}."
        f"{pue if costing.pue != 1 else ''} CO₂e per kWh: {costing.region.source}."
    )
    return f"<h2>What that means</h2>\n{table(heads, rows)}{paragraph(told, soft=True)}"


def _line_cells(line: Line) -> list[str]:
    cells = [_span(line.kwh, line.kwh_low, line.kwh_high, KWH), _carbon(line)]
    if line.money is not None:
        assert line.money_low is not None
        assert line.money_high is not None
        cells.append(_span(line.money, line.money_low, line.money_high, PLAIN))
    return cells


def _carbon(line: Line) -> str:
    return _span(line.kg_co2e, line.kg_co2e_low, line.kg_co2e_high, KG)


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
