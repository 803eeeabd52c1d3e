"""A ledger as one page: no network, no files beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.human import human_range
from irene.show.page.shell import page
from irene.show.page.tree_page import ShownTree
from irene.show.picture.answer_pictures import ledger_pictures

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.tree import ModelTree

MOST_OPS = 50
MOST_ROWS = 2000


def ledger_page(
    ledger: Ledger, costs: ModelTree | None = None, title: str | None = None
) -> str:
    """One self-contained page."""
    heading, total = title or "Where the energy went", human_range(ledger.total())
    share = ledger.attributed_j / ledger.measured_j if ledger.measured_j > 0 else 0.0
    return page(
        "ledger.html",
        f"{heading}: {total}",
        has_pictures=True,
        heading=heading,
        cards=[
            (total, f"{ledger.source} by {ledger.produced_by}"),
            (f"{share:.1%}", "charged to ops"),
            (f"{ledger.window_s:.3f} s", "accounted for"),
            (f"{len(ledger.events):,}", "events"),
            (f"{len(ledger.events.steps):,}", "steps"),
        ],
        ledger=ledger,
        has_costs=costs is not None,
        pictures=ledger_pictures(ledger),
        modules=ledger.by_module(costs)[:MOST_ROWS],
        operations=ledger.operations(MOST_OPS),
        ops=ledger.by_op()[:MOST_OPS],
        shown=ShownTree(ledger.tree(costs), None, ("ml", "module"), MOST_ROWS),
    )
