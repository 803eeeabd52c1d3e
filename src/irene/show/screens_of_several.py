"""Answers about several models, machines or servings on a terminal, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from irene.analyse.comparison import Comparison, Comparisons, Contribution, Side
from irene.analyse.curve import Curves
from irene.analyse.leaderboard import Leaderboard, Ranked
from irene.analyse.pareto import PUBLISHED, Candidate, TradeOff
from irene.analyse.serving_plan import ServingOption, ServingPlan
from irene.human import human, human_energy, human_spread, human_time
from irene.show.terminal import (
    bold,
    dim,
    left_out_lines,
    listed,
    machine_words,
    note_lines,
    percent,
    unfit_lines,
)
from irene.show.text import plain, signed_energy
from irene.tree.headline import run_sizes, unit_words

SCORE = "SST-2 %"
SHOWN = 9
"""Points of a curve on the screen; the document has all."""

Parts = Iterator[RenderableType]


# Side by side -----------------------------------------------------------------


def comparison_screen(found: Comparison | Comparisons, view: Any) -> Parts:
    """All side by side, then what makes each differ from the first."""
    if isinstance(found, Comparison):
        found = Comparisons(found.per, (found,))
    unfit, notes = unfit_lines(found.notes)
    yield from unfit
    comparisons = found.comparisons
    sides = [comparisons[0].base, *(each.other for each in comparisons)]
    yield _overview(sides, comparisons)
    for each in comparisons:
        yield ""
        yield bold(_sides(each.base, each.other))
        yield _verdict(each)
        usual = ["role", "path"] if each.aligned_by == "path" else ["role"]
        for by in [view.by] if view.by else usual:
            rows: Sequence[Contribution] = each.differences(by)
            if view.all:
                rows = each.by_role if by == "role" else each.by_path
            if rows:
                yield _contributions(by, rows, each)
    yield from left_out_lines(found.left_out)
    covers = dict.fromkeys(side.covers for side in sides if side.covers)
    told = f"warning: these energies cover different things: {', '.join(covers)}"
    yield from note_lines([told, *notes] if len(covers) > 1 else notes)


def _overview(sides: Sequence[Side], comparisons: Sequence[Comparison]) -> Table:
    ratios = [None, *(each.ratio for each in comparisons)]
    cells: dict[str, Callable[[tuple[Side, float | None]], Any]] = {
        "<model": lambda row: row[0].name,
        f"J per {comparisons[0].unit}": lambda row: human_energy(row[0].energy_j),
        "interval": lambda row: _ends(row[0].low_j, row[0].high_j),
        "ratio": lambda row: "" if row[1] is None else f"×{row[1]:.2f}",
        "FLOPs": lambda row: human(row[0].flops),
        "bytes": lambda row: human(row[0].bytes),
    }
    apart, same = [], []
    for name, told in (("run", attrgetter("run")), ("energy is", _source)):
        if len({told(side) for side in sides}) > 1:
            cells[f"<{name}"] = partial(_of_side, told)
            apart.append(name)
        else:
            same.append(told(sides[0]))
    rows = zip(sides, ratios, strict=True)
    table = listed(rows, cells, wide=apart, goes=("bytes", "FLOPs"))
    table.caption = "\n".join(same)
    return table


def _of_side(told: Callable[[Side], str], row: tuple[Side, float | None]) -> str:
    return told(row[0])


def _ends(low_j: float, high_j: float) -> str:
    return f"{human_energy(low_j)} – {human_energy(high_j)}"


def _source(side: Side) -> str:
    """Where an energy is from: machine and what of it, without the predictor."""
    return side.source.partition(" · by ")[0]


def _sides(base: Side, other: Side) -> str:
    """Both names; of one model what tells its two sides apart."""
    names = [plain(base.name), plain(other.name)]
    for told in (_source, attrgetter("run")):
        if names[0] == names[1]:
            names = [f"{base.name} {plain(told(each))}" for each in (base, other)]
    return " → ".join(names)


def _verdict(each: Comparison) -> str:
    change = percent(each.difference_j, each.base.energy_j)
    if not each.differences("role") and not each.differences("path"):
        return "no difference"
    told = (
        f"{signed_energy(each.difference_j)} per {each.unit} ({change}), "
        f"± {human_energy(each.half_j)}"
    )
    return told if each.is_real else f"no real difference: {told}"


def _contributions(by: str, rows: Sequence[Contribution], each: Comparison) -> Table:
    cells: dict[str, Callable[[Contribution], Any]] = {
        f"<{by}": lambda row: row.name,
        "before": lambda row: human_energy(row.base_j) if row.base_count else "–",
        "after": lambda row: human_energy(row.other_j) if row.other_count else "–",
        "difference": lambda row: signed_energy(row.difference_j),
        "of all": lambda row: percent(row.difference_j, each.base.energy_j),
        "by FLOPs": lambda row: signed_energy(row.flops_j),
        "by bytes": lambda row: signed_energy(row.bytes_j),
        "by efficiency": lambda row: signed_energy(row.efficiency_j),
    }
    return listed(rows, cells, goes=("by bytes", "by FLOPs", "by efficiency"))


# Models in order --------------------------------------------------------------


def leaderboard_screen(found: Leaderboard, _: Any) -> Parts:
    """The models in their places."""
    unit, token = unit_words(found.run.phase)
    scored = any(each.accuracy for each in found.models)
    cells: dict[str, Callable[[tuple[int, Ranked]], Any]] = {
        "#": lambda row: str(row[0]),
        "<model": lambda row: row[1].model,
        "<kind": lambda row: row[1].kind,
        "params": lambda row: human(row[1].params),
        f"J per {unit}": lambda row: human_energy(row[1].per_sequence_j or 0.0),
        f"per {token}": lambda row: (
            "–" if row[1].per_token_j is None else human_energy(row[1].per_token_j)
        ),
        "interval": lambda row: human_spread(row[1].energy),
        SCORE: lambda row: "" if row[1].accuracy is None else f"{row[1].accuracy:g}",
        "FLOPs": lambda row: human(row[1].flops),
        "<": lambda row: (
            "does not fit" if row[1].fits is False else "*" * row[1].is_extrapolated
        ),
    }
    if not scored:
        del cells[SCORE]
    run = ", ".join(run_sizes(found.run))
    yield bold(f"{len(found.models)} models for {machine_words(found.hardware)}: {run}")
    goes = ("FLOPs", "kind", "params", SCORE)
    yield listed(enumerate(found.models, start=1), cells, goes=goes)
    if unit == "sequence":
        yield dim(
            "a sequence is one input: an image or clip for models that read no tokens, "
            "whatever --seq says"
        )
    if scored:
        yield dim(f"{SCORE}: published, of the fine-tuned model")
    if any(each.is_extrapolated for each in found.models):
        yield dim(f"* outside what {found.hardware} was measured on")
    yield from left_out_lines(found.left_out)


# Accuracy ---------------------------------------------------------------------


def trade_off_screen(found: TradeOff, _: Any) -> Parts:
    """The candidates, the legend, and which one to take."""
    cells: dict[str, Callable[[Candidate], Any]] = {
        "<": lambda each: "●" if each.on_front else "○" if each.maybe else "",
        "<model": lambda each: each.model + (" *" if each.notes else ""),
        "accuracy": lambda each: f"{each.accuracy:g}",
        "<on": lambda each: each.split,
        "J per sequence": lambda each: human_energy(each.energy.joules),
        "interval": lambda each: (
            "as given"
            if each.energy.low == each.energy.high
            else _ends(each.energy.low, each.energy.high)
        ),
        "<beaten by": lambda each: f"{'perhaps ' * each.maybe}{each.beaten_by}",
    }
    if not any(each.split for each in found.candidates):
        del cells["<on"]
    sizes, machine = ", ".join(run_sizes(found.run)), machine_words(found.hardware)
    yield bold(f"{plain(found.score)} against energy: {sizes}, for {machine}")
    yield listed(
        found.candidates, cells, bold=lambda each: each.on_front,
        goes=("beaten by", "on"),
    )  # fmt: skip
    legend = "● on the Pareto front: none is better in both"
    if any(each.maybe and not each.on_front for each in found.candidates):
        legend += "; ○ may be as good, intervals overlap"
    yield dim(legend)
    if any(each.notes for each in found.candidates):
        yield dim("* outside what the machine was measured on: a wider interval")
    if found.score == PUBLISHED:
        yield dim(
            "published accuracies, on the test or the dev set of GLUE as marked; "
            "--csv has the source of each"
        )
    yield from _choice(found)
    yield from left_out_lines(found.left_out)


def _choice(found: TradeOff) -> Parts:
    wanted = []
    if found.budget_j is not None:
        wanted.append(f"at most {human_energy(found.budget_j)} per sequence")
    if found.at_least is not None:
        wanted.append(f"accuracy at least {found.at_least:g}")
    chosen = found.chosen
    if wanted and chosen is None:
        yield Text(f"no model has {' and '.join(wanted)}", style="yellow")
    elif wanted and chosen is not None:
        yield bold(
            f"{' and '.join(wanted)}: {chosen.model}, {chosen.accuracy:g} for "
            f"{human_energy(chosen.energy.joules)} per sequence"
        )


# Servings ---------------------------------------------------------------------


def serving_screen(found: ServingPlan, _: Any) -> Parts:
    """The ways that none is both cheaper and quicker than, and which one to take."""
    front = [each for each in found.options if each.on_front]
    cells: dict[str, Callable[[ServingOption], Any]] = {
        "<": lambda each: "●" if each == found.best else "" if each.meets else "slow",
        "<on": lambda each: each.name,
        "streams": lambda each: f"{each.batch_size:,}",
        "per output token": lambda each: human_energy(each.j_per_output_token),
        "interval": lambda each: _ends(each.low_j, each.high_j),
        "between tokens": lambda each: human_time(each.tbt_s),
        "first token": lambda each: human_time(each.ttft_s),
        "tokens per s": lambda each: f"{each.output_tokens_per_s:,.0f}",
        "W": lambda each: f"{each.watts:,.0f}",
        "memory": lambda each: f"{each.memory_share:.0%}",
    }
    chosen = found.run.get("chosen", ())
    lengths = ", ".join(
        f"{name.removesuffix('_len')} {value}{'*' * (name in chosen)}"
        for name, value in found.run.items()
        if name != "chosen"
    ) + " (*=chosen)" * bool(chosen)
    on = ", ".join(map(machine_words, dict.fromkeys(each.on for each in front)))
    yield bold(f"{plain(found.model)} for {on}: {plain(lengths)}")
    yield listed(front, cells, bold=lambda each: each == found.best)
    yield dim(
        f"{len(front)} of {len(found.options)} ways that fit into memory: no other is "
        "both cheaper and quicker; --csv has all of them"
    )
    yield _cheapest(found)
    yield from left_out_lines(found.left_out)
    yield from note_lines((found.best or front[0]).notes)


def _cheapest(found: ServingPlan) -> Text:
    limits = {
        "between tokens": found.limit.between_s,
        "to the first token": found.limit.first_s,
    }
    wanted = " and ".join(
        f"at most {human_time(most)} {what}"
        for what, most in limits.items()
        if most is not None
    )
    best = found.best
    if best is None:
        return Text(f"none has {wanted}", style="yellow")
    sure = "" if best.surely_meets or not wanted else "; its interval passes the limit"
    return bold(
        f"{wanted or 'any latency'}: {best.name}, {best.batch_size:,} streams, "
        f"{human_energy(best.j_per_output_token)} per output token{sure}"
    )


# Energies as functions of a size ------------------------------------------------


def curves_screen(found: Curves, _: Any) -> Parts:
    """What was looked for first, then some points of every curve."""
    yield from (bold(plain(told)) for told in _found_on(found))
    points = [
        (line.name if number == 0 else "", point)
        for line in found.lines
        for number, point in enumerate(line.points)
        if number % -(-len(line.points) // SHOWN) == 0 or point is line.points[-1]
    ]
    yield listed(
        points,
        {
            "<model": lambda row: row[0],
            found.over: lambda row: f"{row[1].size:,}",
            "J per run": lambda row: human_energy(row[1].energy.joules),
            "interval": lambda row: human_spread(row[1].energy),
        },
    )
    machines = dict.fromkeys(machine_words(line.hardware) for line in found.lines)
    yield dim(f"for {', '.join(machines)}")
    runs = {
        each.name: " · ".join(run_sizes(each.run, found.over)) for each in found.lines
    }
    if len(set(runs.values())) > 1:
        runs = {name: f"{plain(name)}: {run}" for name, run in runs.items()}
    yield from map(dim, dict.fromkeys(runs.values()))
    yield from left_out_lines(found.left_out)


def _found_on(found: Curves) -> Iterator[str]:
    """One sentence for each budget and each crossing."""
    name = found.over
    for line in found.lines if found.under_j is not None else ():
        budget = human_energy(found.under_j or 0.0)
        if line.largest is None:
            least = line.points[0].size
            yield f"{line.name} takes more than {budget} already at {name} {least:,}"
        elif line.largest == line.most:
            yield f"{line.name} stays under {budget} to its end, {name} {line.most:,}"
        else:
            yield f"{line.name} stays under {budget} up to {name} {line.largest:,}"
    for each in found.crossings:
        if each.since is None:
            yield f"{each.cheaper} and {each.dearer} take the same"
            continue
        since = f"from {name} {each.since:,} on"
        told = f"{each.cheaper} is cheaper than {each.dearer} {since}"
        if each.surely_since is None:
            yield f"{told}, nowhere for sure"
        elif each.surely_since == each.since:
            yield f"{told}, for sure"
        else:
            yield f"{told}, for sure from {each.surely_since:,} on"
