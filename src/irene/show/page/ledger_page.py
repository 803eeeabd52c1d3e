"""A ledger as one page: no network, no files beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from irene.human import human, human_energy, human_range
from irene.show.page.shell import page
from irene.show.page.tree_page import Columns, ShownTree
from irene.show.picture.answer_pictures import ledger_pictures

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.account.ledger.rows import ModuleRow, Row
    from irene.tree import ModelTree

MOST_OPS = 50
MOST_ROWS = 2000
ROW_HEADS = ("energy", "share", "power", "time", "calls", "per step", "resolved")

Section = tuple[str, Columns, Iterable[list[str]]]
"""A table with its heading: the first column is words, the others are numbers."""


def ledger_page(
    ledger: Ledger, costs: ModelTree | None = None, title: str | None = None
) -> str:
    """One self-contained page."""
    heading = title or "Where the energy went"
    modules = ledger.by_module(costs)[:MOST_ROWS]
    return page(
        "ledger.html",
        f"{heading}: {human_range(ledger.total())}",
        has_pictures=True,
        heading=heading,
        cards=_cards(ledger),
        notes=ledger.notes,
        pictures=ledger_pictures(ledger),
        modules=_modules(modules, costs is not None) if len(modules) > 1 else None,
        shown=ShownTree(ledger.tree(costs), None, ("ml", "module"), MOST_ROWS),
        tables=_tables(ledger),
    )


def _cards(ledger: Ledger) -> list[tuple[str, str]]:
    share = ledger.attributed_j / ledger.measured_j if ledger.measured_j > 0 else 0.0
    return [
        (human_range(ledger.total()), f"{ledger.source} by {ledger.produced_by}"),
        (f"{share:.1%}", "charged to ops"),
        (f"{ledger.window_s:.3f} s", "accounted for"),
        (f"{len(ledger.events):,}", "events"),
        (f"{len(ledger.events.steps):,}", "steps"),
    ]


def _section(title: str, *heads: str, rows: Iterable[list[str]]) -> Section:
    return title, [(name, "number" if i else "") for i, name in enumerate(heads)], rows


def _tables(ledger: Ledger) -> list[Section]:
    """All but the modules."""
    operations, ops = ledger.operations(MOST_OPS), ledger.by_op()[:MOST_OPS]
    return [
        _section(
            "Operations, layers merged", "operation", *ROW_HEADS,
            rows=[[row.name, *_cells(row)] for row in operations],
        ),
        _section(
            "Ops", "op", *ROW_HEADS, rows=[[row.name, *_cells(row)] for row in ops]
        ),
        _section(
            "What belongs to no op", "", "energy", "share", "time",
            rows=[
                [
                    row.name,
                    human_range(row.energy) if row.energy else "–",
                    f"{row.share:.1%}",
                    f"{row.time_s:.4g} s",
                ]
                for row in ledger.rest()
            ],
        ),
        _channels(ledger),
    ]  # fmt: skip


def _cells(row: Row) -> list[str]:
    steps, group = row.steps, row.group_energy
    spread = (
        f"{human_energy(steps.mean_j)} ± {human_energy(steps.std_j)}" if steps else ""
    )
    whole = f"{row.group}: {human_energy(group.joules)}" if group else ""
    return [
        human_range(row.energy) if row.energy else "–",
        f"{row.share:.1%}",
        f"{row.power_w:.1f} W" if row.power_w == row.power_w else "–",
        f"{row.time_s:.4g} s",
        f"{row.count:,}",
        spread,
        "yes" if row.resolved else f"no: {whole}",
    ]


def _modules(rows: list[ModuleRow], has_costs: bool) -> Section:
    rates = ("J/GFLOP", "J/GB") if has_costs else ()
    heads = ("module", "of parent", "forward", "backward", *ROW_HEADS, *rates)
    return _section("Modules", *heads, rows=[_module(row, has_costs) for row in rows])


def _module(row: ModuleRow, has_costs: bool) -> list[str]:
    cells = [
        "\u2003" * row.depth + row.name.rpartition(".")[2],
        f"{row.parent_share:.1%}",
        human_energy(row.forward_j),
        human_energy(row.backward_j),
        *_cells(row),
    ]
    if has_costs:
        per_byte = row.j_per_byte
        cells.append("" if row.j_per_gflop is None else f"{row.j_per_gflop:.3g}")
        cells.append("" if per_byte is None else f"{per_byte * 1e9:.3g}")
    return cells


def _channels(ledger: Ledger) -> Section:
    parts = ("measured_j", "attributed_j", "idle_j", "other_j", "unattributed_j")
    return _section(
        "Channels: every joule", "channel", "device", "measured", "ops", "idle",
        "other processes", "unattributed", "difference", "no power known",
        rows=[
            [
                account.name,
                account.device or "whole machine",
                *(human_energy(getattr(account, part)) for part in parts),
                f"{account.difference_j:.1e} J",
                f"{human(account.unknown_s)} s",
            ]
            for account in ledger.accounts
        ],
    )  # fmt: skip
