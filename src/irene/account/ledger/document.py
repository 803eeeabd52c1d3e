"""The JSON document of a ledger: `irene.tree/1`, with `irene.ledger/1` inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from irene.account.ledger.rows import energy_fields
from irene.account.ledger.timeline import compact

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.tree import ModelTree

__all__ = ["SCHEMA", "ledger_dict", "to_dict", "to_json"]

SCHEMA = "irene.ledger/1"


def to_dict(ledger: Ledger, costs: ModelTree | None = None) -> dict[str, Any]:
    """The tree's document with the ledger in it.

    Args:
        ledger: The ledger.
        costs: A trace of one step of the same model, for FLOPs and bytes.
    """
    return {**ledger.tree(costs).to_dict(), "ledger": ledger_dict(ledger, costs)}


def to_json(ledger: Ledger, costs: ModelTree | None = None) -> str:
    """The same as text."""
    return json.dumps(to_dict(ledger, costs), allow_nan=False)


def ledger_dict(ledger: Ledger, costs: ModelTree | None = None) -> dict[str, Any]:
    """The ledger alone, as JSON-ready values."""
    begin_ns, end_ns = ledger.window_ns
    return {
        "schema": SCHEMA,
        "begin_ns": begin_ns,
        "end_ns": end_ns,
        "window_s": ledger.window_s,
        "split": ledger.split,
        "events": len(ledger.events),
        "steps": list(ledger.events.steps),
        **energy_fields(ledger.total),
        "measured_j": ledger.measured_j,
        "attributed_j": ledger.attributed_j,
        "produced_by": ledger.produced_by,
        "channels": [account.to_dict() for account in ledger.accounts],
        "rest": [row.to_dict() for row in ledger.rest()],
        "by_phase": [row.to_dict() for row in ledger.by_phase()],
        "by_device": [row.to_dict() for row in ledger.by_device()],
        "by_op": [row.to_dict() for row in ledger.by_op()],
        "by_module": [row.to_dict() for row in ledger.by_module(costs)],
        "operations": [row.to_dict() for row in ledger.operations()],
        "timeline": compact(ledger).to_dict(),
        "notes": list(ledger.notes),
    }
