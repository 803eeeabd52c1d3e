"""A ledger as one page: no network, no files beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from irene.account.ledger.rows import ModuleRow, RestRow, Row
from irene.show.headline import is_warning
from irene.show.page.tree_tables import tree_section
from irene.show.picture.ledger_pictures import pictures
from irene.show.text import human, human_energy, human_range

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.tree import ModelTree

__all__ = ["to_html"]

MOST_OPS = 50
MOST_ROWS = 2000
STYLE = """
.rows { overflow-x: auto; }
.rows td { white-space: nowrap; }
"""


def to_html(
    ledger: Ledger, costs: ModelTree | None = None, title: str | None = None
) -> str:
    """One self-contained page.

    Args:
        ledger: The ledger.
        costs: A trace of one step of the same model, for FLOPs and bytes.
        title: Heading of the page.
    """
    heading = title or "Where the energy went"
    style, script = _part("page.css") + STYLE, _part("page.js")
    page = (
        f"<!DOCTYPE html>\n{_head(ledger, heading, style, script)}<body>\n"
        f"<header>\n<h1>{escape(heading)}</h1>\n{_cards(ledger)}{_notes(ledger)}"
        f"</header>\n<main>\n{_picture_sections(ledger)}{_modules(ledger, costs)}"
        f"{_tree(ledger, costs)}{_operations(ledger)}{_ops(ledger)}{_rest(ledger)}"
        f"{_channels(ledger)}"
        '</main>\n<div id="details" role="status" hidden></div>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
    # A name from a file may hold half a character, which no file could.
    return page.encode("utf-8", "replace").decode("utf-8")


def _part(name: str) -> str:
    return files("irene.show.page").joinpath(name).read_text(encoding="utf-8")


def _head(ledger: Ledger, heading: str, style: str, script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    script_source = f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
    # Pictures carry styles of their own.
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {script_source}; "
        "base-uri 'none'; form-action 'none'"
    )
    summary = human_range(ledger.total)
    return (
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(heading)}: {summary}</title>\n"
        f"<style>{style}</style>\n</head>\n"
    )


def _cards(ledger: Ledger) -> str:
    share = ledger.attributed_j / ledger.measured_j if ledger.measured_j > 0 else 0.0
    cards = [
        (
            human_range(ledger.total),
            f"{ledger.source} by {ledger.produced_by}",
            "total",
        ),
        (f"{share:.1%}", "charged to ops", ""),
        (f"{ledger.window_s:.3f} s", "accounted for", ""),
        (f"{len(ledger.events):,}", "events", ""),
        (f"{len(ledger.events.steps):,}", "steps", ""),
    ]
    items = "".join(
        f'<li class="{names}"><b>{escape(value)}</b><span>{escape(what)}</span></li>'
        for value, what, names in cards
    )
    return f'<ul class="cards">{items}</ul>\n'


def _notes(ledger: Ledger) -> str:
    items = "".join(
        f'<li class="{"warning" if is_warning(note) else "note"}">{escape(note)}</li>'
        for note in ledger.notes
    )
    return f'<ul class="notes">{items}</ul>\n' if items else ""


def _picture_sections(ledger: Ledger) -> str:
    return "".join(
        f"<section>\n{picture.svg()}</section>\n" for picture in pictures(ledger)
    )


# Tables -----------------------------------------------------------------------


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(
        f'<th scope="col"{_number(i)}>{escape(text)}</th>'
        for i, text in enumerate(heads)
    )
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{_number(i)}>{escape(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<div class="rows"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n</section>\n"
    )


def _number(column: int) -> str:
    return ' class="number"' if column else ""


ROW_HEADS = ("energy", "share", "power", "time", "calls", "per step", "resolved")


def _row_cells(row: Row) -> list[str]:
    steps = row.steps
    spread = (
        f"{human_energy(steps.mean_j)} ± {human_energy(steps.std_j)}" if steps else ""
    )
    whole = (
        f"{row.group}: {human_energy(row.group_energy.joules)}"
        if row.group_energy
        else ""
    )
    power = f"{row.power_w:.1f} W" if row.power_w == row.power_w else "–"
    return [
        human_range(row.energy) if row.energy else "–",
        f"{row.share:.1%}",
        power,
        f"{row.time_s:.4g} s",
        f"{row.count:,}",
        spread,
        "yes" if row.resolved else f"no: {whole}",
    ]


def _operations(ledger: Ledger) -> str:
    rows = ledger.operations(MOST_OPS)
    title = "Operations, layers merged"
    return _table(title, ("operation", *ROW_HEADS), _named(rows))


def _ops(ledger: Ledger) -> str:
    return _table("Ops", ("op", *ROW_HEADS), _named(ledger.by_op()[:MOST_OPS]))


def _named(rows: Sequence[Row]) -> Iterable[list[str]]:
    return ([row.name, *_row_cells(row)] for row in rows)


def _modules(ledger: Ledger, costs: ModelTree | None) -> str:
    rows = ledger.by_module(costs)
    if len(rows) < 2:
        return ""
    heads = ["module", "of parent", "forward", "backward", *ROW_HEADS]
    if costs is not None:
        heads += ["J/GFLOP", "J/GB"]
    return _table("Modules", heads, (_module(row, costs) for row in rows[:MOST_ROWS]))


def _module(row: ModuleRow, costs: ModelTree | None) -> list[str]:
    name = "\u2003" * row.depth + row.row.name.rpartition(".")[2]
    cells = [
        name,
        f"{row.parent_share:.1%}",
        human_energy(row.forward_j),
        human_energy(row.backward_j),
        *_row_cells(row.row),
    ]
    if costs is not None:
        per_byte = row.j_per_byte
        cells.append("" if row.j_per_gflop is None else f"{row.j_per_gflop:.3g}")
        cells.append("" if per_byte is None else f"{per_byte * 1e9:.3g}")
    return cells


def _tree(ledger: Ledger, costs: ModelTree | None) -> str:
    tree = ledger.tree(costs)
    for level in ("ml", "module"):
        shown = tree.at_level(level).fold()
        if len(shown) <= MOST_ROWS:
            break
    return tree_section(shown, "math" if level == "ml" else level)


def _rest(ledger: Ledger) -> str:
    def cells(row: RestRow) -> list[str]:
        energy = human_range(row.energy) if row.energy else "–"
        return [row.name, energy, f"{row.share:.1%}", f"{row.time_s:.4g} s"]

    heads = ("", "energy", "share", "time")
    return _table("What belongs to no op", heads, map(cells, ledger.rest()))


def _channels(ledger: Ledger) -> str:
    heads = (
        "channel", "device", "measured", "ops", "idle", "other processes",
        "unattributed", "difference", "no power known",
    )  # fmt: skip
    rows = (
        [
            account.name,
            account.device or "whole machine",
            *(
                human_energy(joules)
                for joules in (
                    account.measured_j,
                    account.attributed_j,
                    account.idle_j,
                    account.other_j,
                    account.unattributed_j,
                )
            ),
            f"{account.difference_j:.1e} J",
            f"{human(account.unknown_s)} s",
        ]
        for account in ledger.accounts
    )
    return _table("Channels: every joule", heads, rows)
