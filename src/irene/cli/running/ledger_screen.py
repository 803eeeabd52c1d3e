"""A ledger on the terminal: rows of a view, what belongs to no op, the channels."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.account.ledger.tables import view_rows
from irene.cli.screens.cells import empty_table, plain, share_cell
from irene.cli.screens.tree_screen import WIDTH_OFF_TERMINAL
from irene.show.text import human_energy, human_range, human_spread

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from irene.account import Ledger, ModuleRow, Row
    from irene.tree import ModelTree

__all__ = ["print_ledger", "show"]

UNRESOLVED = "~"


def print_ledger(
    ledger: Ledger, options: argparse.Namespace, costs: ModelTree | None = None
) -> None:
    """Print the view that the options name.

    Args:
        ledger: The ledger.
        options: `by` and `top`.
        costs: A trace of one step of the same model, for FLOPs and bytes.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_OFF_TERMINAL)
    show(ledger, options, costs, console)


def show(
    ledger: Ledger,
    options: argparse.Namespace,
    costs: ModelTree | None,
    console: Console,
) -> None:
    """Print a ledger on a given console."""
    total, steps = ledger.total, len(ledger.events.steps)
    amount = (
        human_range(total) if total.low < total.high else human_energy(total.joules)
    )
    console.print(
        f"{amount} {total.source} by {plain(total.produced_by)} in "
        f"{ledger.window_s:.3f} s, {len(ledger.events):,} events"
        + (f", {steps} steps" if steps else "")
    )
    if options.by in ("module", "layer"):
        rows = _modules(ledger, options, costs)
        flat = options.top is not None or options.by == "layer"
        table = _module_table(rows, flat, costs)
        shown = [row.row for row in rows]
    else:
        shown = view_rows(ledger, options.by, options.top)
        table = _table(shown, options.by)
    _add_rest(table, ledger)
    console.print(table)
    _print_flags(console, shown)
    for account in ledger.accounts:
        console.print(
            f"{plain(account.name)}: {human_energy(account.measured_j)} = "
            f"{human_energy(account.attributed_j)} ops + "
            f"{human_energy(account.idle_j)} idle + "
            f"{human_energy(account.other_j)} other processes + "
            f"{human_energy(account.unattributed_j)} unattributed",
            style="dim",
        )


def _modules(
    ledger: Ledger, options: argparse.Namespace, costs: ModelTree | None
) -> list[ModuleRow]:
    if options.by == "layer":
        return ledger.by_layer(costs)[: options.top]
    rows = ledger.by_module(costs)
    if options.top is None:
        return rows
    largest = sorted(rows[1:], key=lambda row: -row.row.share)
    return [rows[0], *largest[: options.top]]


def _columns(table: Table, first: str) -> None:
    table.add_column(first, no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("energy", justify="right", no_wrap=True, min_width=9)
    table.add_column("", no_wrap=True, style="dim", min_width=11)
    table.add_column("share", no_wrap=True, min_width=17)
    table.add_column("power", justify="right", no_wrap=True, min_width=9)


def _cells(row: Row, name: str) -> list[object]:
    flag = "" if row.resolved else UNRESOLVED
    power = "–" if row.power_w != row.power_w else f"{row.power_w:.1f} W"
    return [
        plain(name),
        f"{flag}{human_energy(row.energy_j)}",
        human_spread(row.energy) if row.energy else "",
        share_cell(row.share, 1.0),
        power,
    ]


def _table(rows: list[Row], first: str) -> Table:
    table = empty_table()
    _columns(table, first)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("calls", justify="right", no_wrap=True)
    has_steps = any(row.steps for row in rows)
    if has_steps:
        table.add_column("per step", justify="right", no_wrap=True)
    for row in rows:
        cells = [*_cells(row, row.name), f"{row.time_s:.4g} s", f"{row.count:,}"]
        if has_steps and row.steps:
            cells.append(
                f"{human_energy(row.steps.mean_j)} ± {human_energy(row.steps.std_j)}"
            )
        table.add_row(*cells)  # type: ignore[arg-type]
    return table


def _module_table(rows: list[ModuleRow], flat: bool, costs: ModelTree | None) -> Table:
    table = empty_table()
    _columns(table, "module")
    for head in ("of parent", "forward", "backward"):
        table.add_column(head, justify="right", no_wrap=True, min_width=9)
    if costs is not None:
        table.add_column("J/GFLOP", justify="right", no_wrap=True)
    for row in rows:
        path = row.row.name
        name = path if flat else "  " * row.depth + path.rpartition(".")[2]
        cells = [
            *_cells(row.row, name),
            f"{row.parent_share:.1%}",
            human_energy(row.forward_j),
            human_energy(row.backward_j),
        ]
        if costs is not None:
            rate = row.j_per_gflop
            cells.append("" if rate is None else f"{rate:.3g}")
        table.add_row(*cells)  # type: ignore[arg-type]
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


def _print_flags(console: Console, rows: list[Row]) -> None:
    """Say what a flag means, and give the energy of the groups instead."""
    flagged = [row for row in rows if not row.resolved]
    if not flagged:
        return
    console.print(
        f"{UNRESOLVED} runs shorter than the sensor resolves: the split between "
        f"neighbours is a guess ({len(flagged)} rows); what is known is the energy of",
        style="dim",
    )
    groups = {
        row.group: row.group_energy for row in flagged if row.group_energy is not None
    }
    for name, energy in groups.items():
        console.print(f"  {plain(name)}: {human_range(energy)}", style="dim")
