"""Answers on a terminal, part by part: what was asked, tables, legends and notes.

Those of questions about several models are in `screens_of_several`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import StringIO
from types import SimpleNamespace
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from irene.analyse.bottlenecks import Bottleneck, Bottlenecks
from irene.analyse.costs import Costing, Line
from irene.analyse.grid import Outcome, WhatIf
from irene.analyse.sensitivity import Sensitivity
from irene.analyse.suggest import Advice, Suggestion
from irene.analyse.training_plan import TrainingPlan
from irene.human import human, human_energy, human_range, human_spread
from irene.show.cards import card_yaml
from irene.show.fitted import Screen
from irene.show.picture.units import amount
from irene.show.screens_of_several import (
    comparison_screen,
    curves_screen,
    leaderboard_screen,
    serving_screen,
    trade_off_screen,
)
from irene.show.terminal import (
    bold,
    dim,
    listed,
    machine_words,
    note_lines,
    percent,
    share_cell,
    unfit_lines,
    value,
)
from irene.show.text import plain
from irene.tree.headline import NO_ROOM, run_sizes, unit_words

OVERVIEW = ("module", "role", "primitive")
SAME_SHARE = 1e-6
HEADINGS = {
    "setting": "a setting",
    "retraining": "needs training",
    "another model": "another model",
}

AS_USUAL = SimpleNamespace(by=None, top=90.0, all=False)
"""What commands show where no option says otherwise."""
WIDTH = 100
"""Characters per line of an answer that is printed."""

Parts = Iterator[RenderableType]


def answer_text(found: Any) -> str:
    """What the command of an answer shows, without colours."""
    written = StringIO()
    console = Screen(file=written, width=WIDTH, color_system=None)
    for part in answer_screen(found, AS_USUAL):
        console.print(part)
    return "\n".join(map(str.rstrip, written.getvalue().splitlines()))


def answer_screen(found: Any, view: Any) -> Parts:
    """The screen of any answer.

    Args:
        found: The answer.
        view: Options that say what of it is shown, where its command has some.
    """
    return SCREENS[type(found).__name__](found, view)


# Bottlenecks ------------------------------------------------------------------


def shown_parts(found: Bottlenecks, by: str, view: Any) -> Sequence[Bottleneck]:
    """Rows to show, the largest first; layers in order."""
    if view.all:
        return found.views[by]
    top = {row.name for row in found.top(view.top / 100, by)}
    return [row for row in found.views[by] if row.name in top]


def shown_views(view: Any) -> tuple[str, ...]:
    """The ways to add up that are shown."""
    return tuple(dict.fromkeys(view.by or OVERVIEW))


def _bottlenecks(found: Bottlenecks, view: Any) -> Parts:
    yield bold(f"{plain(found.model)}: {human_range(found.energy)}")
    yield dim(found.run)
    unfit, notes = unfit_lines(found.notes)
    yield from unfit
    for by in shown_views(view):
        rows = shown_parts(found, by, view)
        rest = len(found.views[by]) - len(rows)
        yield ""
        yield _parts_table(by, _folded(rows) if by == "layer" else rows)
        if rest > 0:
            share = 1 - sum(row.share for row in rows)
            yield dim(f"and {rest} more, {share:.1%} together (--all)")
    best, total = found.best, found.energy.joules
    yield ""
    yield (
        f"above the machine's best: {human_energy(found.wasted_j)}, "
        f"{found.wasted_j / total:.0%} of all"
    )
    yield (
        f"its best: {value(best.joules_per_flop * 1e12, 'mJ per GFLOP')}, "
        f"{value(best.joules_per_byte * 1e9, 'J per GB')}, which meet at "
        f"{best.ridge:.0f} FLOP per byte ({best.source})"
    )
    yield from note_lines(notes)


def _folded(rows: Sequence[Bottleneck]) -> list[Bottleneck]:
    """Equal layers that follow each other as one row, what they use added up."""
    groups: list[list[Bottleneck]] = []
    for row in rows:
        same = groups and abs(groups[-1][0].share - row.share) < SAME_SHARE
        if same and groups[-1][0].name.startswith("layer "):
            groups[-1].append(row)
        else:
            groups.append([row])
    return [_joined(group) if len(group) > 1 else group[0] for group in groups]


def _joined(group: Sequence[Bottleneck]) -> Bottleneck:
    first, last = group[0], group[-1].name.removeprefix("layer ")
    added = {
        name: sum(getattr(row, name) for row in group)
        for name in ("energy_j", "share", "flops", "bytes", "at_best_j", "wasted_j")
    }
    name = f"{first.name}…{last}, each {first.share:.1%}"
    return replace(first, name=name, together=group[-1].together, **added)


def _parts_table(by: str, rows: Sequence[Bottleneck]) -> Table:
    whole = rows[0].energy_j / rows[0].share if rows and rows[0].share else 0.0
    cells: dict[str, Callable[[Bottleneck], Any]] = {
        f"<{by}": lambda row: row.name,
        "energy": lambda row: human_energy(row.energy_j),
        "<share": lambda row: share_cell(row.energy_j, whole),
        "together": lambda row: f"{row.together:.1%}",
        "J/GFLOP": lambda row: value(row.joules_per_gflop),
        "J/GB": lambda row: value(row.joules_per_gb),
        "FLOP/B": lambda row: value(row.flop_per_byte),
        "<bound by": lambda row: row.bound,
        "above best": lambda row: (
            f"{row.wasted_j / row.energy_j:.0%}" if row.energy_j else ""
        ),
    }
    goes = ("FLOP/B", "J/GB", "J/GFLOP", "together", "bound by")
    return listed(rows, cells, goes=goes)


# Costs and plans --------------------------------------------------------------


def _costs(found: Costing, _: Any) -> Parts:
    cells: dict[str, Callable[[Line], Any]] = {
        "<per": lambda line: line.name,
        "electricity": lambda line: _electricity(line.kwh),
        "interval": lambda line: (
            f"{_electricity(line.kwh_low)} – {_electricity(line.kwh_high)}"
        ),
    }
    if found.price_per_kwh is not None:
        cells[found.currency] = lambda line: value(line.money)
    cells["CO₂e"] = lambda line: (
        amount(line.kg_co2e / 1000, "t")
        if line.kg_co2e >= 1000
        else amount(line.kg_co2e * 1000, "g")
    )
    yield bold(f"{plain(found.model)}: {plain(found.run)}")
    unfit, notes = unfit_lines(found.notes)
    yield from unfit
    yield f"{human_range(found.per_query)} per request · {found.energy_source}"
    yield listed(found.lines, cells)
    yield dim(" · ".join(_assumptions(found)))
    yield from note_lines(notes)


def _electricity(kwh: float) -> str:
    return amount(1000 * kwh, "Wh")


def _assumptions(found: Costing) -> Iterator[str]:
    region = found.region
    yield f"PUE {found.pue:g}"
    if found.price_per_kwh is not None:
        yield f"{found.price_per_kwh:g} {found.currency} per kWh"
    told = (
        f"{region.name} {region.year} ({region.source})" if region.code else "as given"
    )
    yield f"{region.gco2e_per_kwh:g} g CO₂e per kWh, {told}"


def _training(found: TrainingPlan, _: Any) -> Parts:
    told = f"{human(found.tokens)} tokens in {found.steps:,} steps on {found.gpus} GPU"
    yield bold(f"{plain(found.model)}: {told}, {plain(found.run)}")
    yield dim(found.energy_source)
    amounts = {
        "kWh": found.kwh, "hours": found.hours, "money": found.money,
        "kg CO₂e": found.kg_co2e,
    }  # fmt: skip
    known = [(unit, span) for unit, span in amounts.items() if span is not None]
    yield listed(
        known,
        {
            "<": lambda row: row[0],
            "": lambda row: value(row[1].value),
            "interval": lambda row: f"{value(row[1].low)} – {value(row[1].high)}",
        },
    )
    whole_j = sum(found.parts.values())
    shares = [
        f"{name.replace('_', ' ')} {joules / whole_j:.0%}"
        for name, joules in found.parts.items()
        if joules
    ]
    place = f"{found.region.name} {found.region.gco2e_per_kwh:g} g CO₂e per kWh"
    yield dim(f"{', '.join(shares)} · PUE {found.pue:g} · {place}")
    yield from note_lines(found.notes)


# Suggestions ------------------------------------------------------------------


def _advice(found: Advice, _: Any) -> Parts:
    unit, _token = unit_words(found.spec.phase if found.spec else "")
    yield bold(
        f"{plain(found.model)} for {machine_words(found.hardware)}: "
        f"{human_energy(found.per_sequence_j)} per {unit}"
    )
    yield dim(found.run)
    unfit, notes = unfit_lines(found.notes)
    yield from unfit
    effort = ""
    for each in found.suggestions:
        if each.effort != effort:
            effort = each.effort
            yield from ("", bold(HEADINGS[effort]))
        yield from _suggestion(each, unit, found.notes)
    if not found.suggestions:
        yield "nothing to suggest: no rule finds a saving of 1 % or more"
    yield ""
    if found.silent:
        yield dim(f"nothing to say about: {', '.join(found.silent)}")
    yield dim("savings are predictions of one change each; they do not add up")
    yield from note_lines(notes)


def _suggestion(each: Suggestion, unit: str, known: Sequence[str]) -> Parts:
    unsure = "" if each.is_real else ", not certain"
    saving = f"{human_energy(each.saving_j)} per {unit}"
    yield Text(f"{f'−{each.share:.0%}':>6}  {each.title}", style="green")
    lines = [
        Text(f"{saving} ± {human_energy(each.half_j)}{unsure}; {each.why}"),
        Text(f"accuracy: {each.accuracy}"),
        *(Text(note, style="yellow") for note in each.notes if note not in known),
    ]
    for line in lines:
        yield Padding(line, (0, 0, 0, 8), expand=False)


# Other sizes and settings -----------------------------------------------------


def _what_if(found: WhatIf, _: Any) -> Parts:
    each, token = unit_words(found.phase)
    tried = [row for row in found.rows if row.settings != found.base.settings]
    rows = [found.base, *tried]
    cells: dict[str, Callable[[Outcome], Any]] = {
        f"<{plain(name)}": partial(_setting, name) for name in found.choices
    }
    cells |= {
        "J per run": lambda row: (
            human_energy(row.energy.joules) if row.energy else "cannot run"
        ),
        "interval": lambda row: human_spread(row.energy) if row.energy else "",
        f"per {each}": lambda row: _joules(row.per_sequence_j),
        f"per {token}": lambda row: _joules(row.per_token_j),
        "before": lambda row: (
            human_energy(row.before_j) if row.energy and row is not found.base else ""
        ),
        "change": lambda row: _change(row, row is found.base),
        "": lambda row: (
            "does not fit" if any(NO_ROOM in note for note in row.notes) else ""
        ),
    }
    yield bold(f"{plain(found.model)} for {machine_words(found.hardware)}")
    if found.spec is not None:
        yield dim(f"as it is: {' · '.join(run_sizes(found.spec))}")
    notes = [note for row in (found.base, *found.rows) for note in row.notes]
    unfit, notes = unfit_lines(notes)
    yield from unfit
    yield listed(rows, cells, bold=lambda row: row is found.base, goes=("before",))
    yield dim(
        f"before, change: of energy per {each}, against the model as it is at the "
        "same size (at the first, if only sizes change); ~ the interval of the change "
        "holds zero"
    )
    problems = [f"warning: {row.problem}" for row in found.rows if row.problem]
    yield from note_lines([*problems, *notes])


def _setting(name: str, row: Outcome) -> str:
    return str(row.settings[name])


def _joules(joules: float | None) -> str:
    return "" if joules is None else human_energy(joules)


def _change(row: Outcome, is_base: bool) -> str:
    if row.energy is None:
        return ""
    if is_base:
        return "base"
    return ("" if row.saving_is_real else "~") + percent(-row.saving_j, row.before_j)


def _sensitivity(found: Sensitivity, _: Any) -> Parts:
    run = ", ".join(run_sizes(found.run))
    yield bold(f"{plain(found.model)} for {machine_words(found.hardware)}, {run}")
    yield listed(
        [row for row in found.fields if row.elasticity],
        {
            "<field": lambda row: row.field,
            "value": lambda row: f"{row.value:,}",
            "tried": lambda row: f"{row.lower:,} and {row.upper:,}",
            "elasticity": lambda row: f"{row.elasticity:+.2f}",
        },
    )
    yield dim(
        "elasticity: d ln energy / d ln field; 1: twice the value takes twice the "
        "energy of a run"
    )
    nothing = [row.field for row in found.fields if row.elasticity == 0]
    if nothing:
        yield f"no effect: {', '.join(map(plain, nothing))}"
    failed = [row for row in found.fields if row.elasticity is None]
    yield from note_lines(f"not tried: {row.field}: {row.problem}" for row in failed)


SCREENS: Mapping[str, Callable[[Any, Any], Parts]] = {
    "Advice": _advice,
    "Bottlenecks": _bottlenecks,
    "Card": lambda found, _: iter((card_yaml(found),)),
    "Comparison": comparison_screen,
    "Comparisons": comparison_screen,
    "Costing": _costs,
    "Curves": curves_screen,
    "Leaderboard": leaderboard_screen,
    "Sensitivity": _sensitivity,
    "ServingPlan": serving_screen,
    "TradeOff": trade_off_screen,
    "TrainingPlan": _training,
    "WhatIf": _what_if,
}
"""How answers fill the screen, by their type."""
