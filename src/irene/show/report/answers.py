"""The answers in a report: bottlenecks, sizes, trade-off, suggestions."""

from __future__ import annotations

from html import escape

from irene.analyse.bottlenecks import Bottleneck, Bottlenecks
from irene.analyse.pareto import TradeOff
from irene.analyse.suggest import Advice, Suggestion
from irene.show.headline import energy_per_unit, model_name
from irene.show.report.charts import AXES, size_chart, trade_off_chart
from irene.show.report.contents import Report
from irene.show.report.markup import Cell, Share, figure, paragraph, section, table
from irene.show.text import human_energy

__all__ = [
    "bottleneck_section",
    "size_section",
    "suggestion_section",
    "trade_off_section",
]

EFFORTS = {
    "setting": "By a setting",
    "retraining": "With training",
    "another model": "With another model",
}


def bottleneck_section(found: Bottlenecks) -> str:
    """The modules that have 90 % of the energy, and what all is for."""
    top = found.top(0.9)
    rest = len(found.views["module"]) - len(top)
    share = sum(row.share for row in top)
    more = f" {rest} more have the rest." if rest > 0 else ""
    heads = ("part", "energy", "share", "together", "above best", "bound by")
    wasted = found.wasted_j / found.energy.joules if found.energy.joules else 0.0
    per_gflop = found.best.joules_per_flop * 1e9
    return section(
        "bottlenecks",
        "Bottlenecks: what to look at first",
        paragraph(f"{_modules(len(top))} {share:.0%} of the energy.{more}")
        + table(heads, map(_bottleneck, top), words=(2, 5), minor=(3, 4, 5))
        + "<h3>By what it is for</h3>\n"
        + table(
            heads, map(_bottleneck, found.views["role"]), words=(2, 5), minor=(3, 4, 5)
        )
        + paragraph(
            f"Above best: what is used beyond {human_energy(per_gflop)} per GFLOP and "
            f"{human_energy(found.best.joules_per_byte * 1e9)} per GB, "
            f"{wasted:.0%} of all ({found.best.source}). Bound by overhead: neither "
            "arithmetic nor memory explains a third of it. * stands for every layer.",
            soft=True,
        ),
    )


def _modules(count: int) -> str:
    return "This module has" if count == 1 else f"These {count} modules have"


def _bottleneck(row: Bottleneck) -> list[Cell]:
    return [
        row.name,
        human_energy(row.energy_j),
        Share(row.share),
        f"{row.together:.0%}",
        f"{row.wasted_j / row.energy_j:.0%}" if row.energy_j else "",
        row.bound,
    ]


def size_section(report: Report) -> str:
    """A curve for every size that was varied."""
    body = _predicted(report)
    for found in report.sizes:
        axis = next(iter(found.choices))
        outside = sum(bool(row.notes) for row in found.rows)
        told = f"Energy per sequence over {AXES[axis]}; the band is the interval."
        if outside:
            some = "All" if outside == len(found.rows) else f"{outside}"
            told += (
                f" {some} of the {len(found.rows)} sizes go beyond what the machine "
                "was measured on: there the band is wider."
            )
        skipped = [row for row in found.rows if row.problem]
        if skipped:
            values = ", ".join(f"{row.settings[axis]:,}" for row in skipped)
            told += f" Not possible with this model: {values}."
        body += figure(size_chart(found), told)
    return section("sizes", "Other sizes", body)


def _predicted(report: Report) -> str:
    """A word of warning where the tree itself is no prediction."""
    energy = report.tree.energy_of(0)
    if energy is not None and energy.source == "predicted":
        return ""
    source = f"{energy.source}, not predicted" if energy else "not known"
    return paragraph(
        f"These are predictions for {report.predicted_for}; the energy of the tree is "
        f"{source}."
    )


def trade_off_section(report: Report, found: TradeOff) -> str:
    """Published accuracies against energy, with this model in it if it is."""
    name = model_name(report.tree)
    picture = trade_off_chart(found, name, "SST-2 accuracy against energy per sequence")
    heads = ("model", "accuracy", "J per sequence", "place", "scored on", "source")
    rows = [
        [
            each.model,
            f"{each.accuracy:g} %",
            human_energy(each.energy.joules),
            _place(each.on_front, each.maybe, each.beaten_by),
            each.split,
            each.source,
        ]
        for each in found.candidates
    ]
    said = table(heads, rows, words=(3, 4, 5), minor=(4, 5))
    told = "Published accuracies on SST-2; energies predicted at the size of this run."
    return section(
        "trade-off",
        "Accuracy against energy",
        _predicted(report)
        + paragraph(_standing(report, found))
        + figure(picture, told)
        + f"<details><summary>All models and sources</summary>\n{said}</details>\n",
    )


def _place(on_front: bool, maybe: bool, beaten_by: str) -> str:
    if on_front:
        return "on the front"
    return f"{'perhaps ' if maybe else ''}beaten by {beaten_by}"


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


def suggestion_section(report: Report, found: Advice) -> str:
    """What to change, the easiest first."""
    body = ""
    for effort, title in EFFORTS.items():
        several = [each for each in found.suggestions if each.effort == effort]
        if several:
            listed = "".join(_suggestion(each, found) for each in several)
            body += f'<h3>{title}</h3>\n<ul class="advice">{listed}</ul>\n'
    if not body:
        body = paragraph("No rule finds a saving of 1 % or more.")
    told = "Savings are predictions of one change each; they do not add up."
    if found.silent:
        told += f" Nothing to say about: {', '.join(found.silent)}."
    said = _predicted(report) + body + paragraph(told, soft=True)
    return section("suggestions", "Suggestions", said)


def _suggestion(each: Suggestion, found: Advice) -> str:
    unsure = "" if each.is_real else ", not certain: the interval holds zero"
    saving = (
        f"saves {human_energy(each.saving_j)} ± {human_energy(each.half_j)} per "
        f"sequence{unsure}"
    )
    warnings = "".join(
        f'<br><span class="soft">⚠ {escape(note)}</span>'
        for note in each.notes
        if note not in found.notes
    )
    return (
        f"<li><b>−{each.share:.0%}</b> <strong>{escape(each.title)}</strong>: "
        f"{escape(saving)}; {escape(each.why)}. "
        f'<span class="soft">Accuracy: {escape(each.accuracy)}.</span>{warnings}</li>'
    )
