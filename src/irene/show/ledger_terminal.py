"""A ledger on a terminal: rows of a view, what belongs to no op, the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from irene.account.ledger.ledger_documents import view_rows
from irene.human import human_energy, human_range, human_spread
from irene.show.terminal import columns, dim, share_cell
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from irene.account import Ledger, ModuleRow, Row
    from irene.tree import ModelTree

UNRESOLVED = "~"
FIRST = ("energy", "interval", "<share", "power")


def ledger_screen(
    ledger: Ledger, by: str, top: int | None = None, costs: ModelTree | None = None
) -> list[RenderableType]:
    """The whole, a view of it, and where the energy of every channel went."""
    if by in ("module", "layer"):
        modules = _modules(ledger, by, top, costs)
        flat = top is not None or by == "layer"
        table = _module_table(modules, flat, costs is not None)
        rows: Sequence[Row] = modules
    else:
        rows = view_rows(ledger, by, top)
        table = _table(rows, by)
    _add_rest(table, ledger)
    return [_headline(ledger), table, *_flags(rows), *_channels(ledger)]


def _headline(ledger: Ledger) -> str:
    total, steps = ledger.total(), len(ledger.events.steps)
    return (
        f"{human_range(total)} {total.source} by {plain(total.produced_by)} in "
        f"{ledger.window_s:.3f} s, {len(ledger.events):,} events"
        + (f", {steps} steps" if steps else "")
    )


def _modules(
    ledger: Ledger, by: str, top: int | None, costs: ModelTree | None
) -> list[ModuleRow]:
    if by == "layer":
        return ledger.by_layer(costs)[:top]
    rows = ledger.by_module(costs)
    if top is None:
        return rows
    largest = sorted(rows[1:], key=lambda row: -row.share)
    return [rows[0], *largest[:top]]


def _cells(row: Row, name: str) -> tuple[str | Text, ...]:
    flag = "" if row.resolved else UNRESOLVED
    return (
        plain(name),
        f"{flag}{human_energy(row.energy_j)}",
        human_spread(row.energy) if row.energy else "",
        share_cell(row.share, 1.0),
        "–" if row.power_w != row.power_w else f"{row.power_w:.1f} W",
    )


def _table(rows: Sequence[Row], by: str) -> Table:
    spread = ("per step",) if any(row.steps for row in rows) else ()
    heads = (f"<{by}", *FIRST, "time", "calls", *spread)
    table = columns(*heads, goes=("calls", "time"), dim=("interval",))
    for row in rows:
        steps = row.steps
        each = (
            f"{human_energy(steps.mean_j)} ± {human_energy(steps.std_j)}"
            if steps
            else ""
        )
        cells = (*_cells(row, row.name), f"{row.time_s:.4g} s", f"{row.count:,}")
        table.add_row(*cells, *([each] if spread else []))
    return table


def _module_table(rows: Sequence[ModuleRow], flat: bool, has_costs: bool) -> Table:
    parts = ("of parent", "forward", "backward")
    heads = ("<module", *FIRST, *parts, *(("J/GFLOP",) if has_costs else ()))
    goes = ("J/GFLOP", "backward", "forward", "of parent")
    table = columns(*heads, goes=goes, dim=("interval",))
    for row in rows:
        name = row.name if flat else "  " * row.depth + row.name.rpartition(".")[2]
        rate = "" if row.j_per_gflop is None else f"{row.j_per_gflop:.3g}"
        table.add_row(
            *_cells(row, name),
            f"{row.parent_share:.1%}",
            human_energy(row.forward_j),
            human_energy(row.backward_j),
            *([rate] if has_costs else []),
        )
    return table


def _add_rest(table: Table, ledger: Ledger) -> None:
    for rest in ledger.rest():
        if rest.energy is None:
            if rest.time_s > 0:
                name = f"({rest.name}: {rest.time_s:.4g} s)"
                table.add_row(name, "–", style="dim")
        elif rest.energy.joules > 0:
            energy = human_energy(rest.energy.joules)
            share = share_cell(rest.share, 1.0)
            table.add_row(f"({rest.name})", energy, "", share, style="dim")


def _flags(rows: Sequence[Row]) -> list[Text]:
    """What a flag means, and the energy of the groups instead."""
    flagged = [row for row in rows if not row.resolved]
    if not flagged:
        return []
    groups = {row.group: row.group_energy for row in flagged if row.group_energy}
    return [
        dim(
            f"{UNRESOLVED} runs shorter than the sensor resolves: the split between "
            f"neighbours is a guess ({len(flagged)} rows); what is known is the energy "
            "of"
        ),
        *(dim(f"  {plain(n)}: {human_range(energy)}") for n, energy in groups.items()),
    ]


def _channels(ledger: Ledger) -> list[Text]:
    return [
        dim(
            f"{plain(account.name)}: {human_energy(account.measured_j)} = "
            f"{human_energy(account.attributed_j)} ops + "
            f"{human_energy(account.idle_j)} idle + "
            f"{human_energy(account.other_j)} other processes + "
            f"{human_energy(account.unattributed_j)} unattributed"
        )
        for account in ledger.accounts
    ]
