"""A ledger as tables: views as CSV or data frames, all events as Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.account.ledger.document import SCHEMA
from irene.errors import UsageError
from irene.tables import csv_of_rows, data_frame, pyarrow
from irene.whole_file import whole_file

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.account.ledger.rows import Row

__all__ = ["VIEWS", "to_csv", "to_pandas", "to_parquet", "view_rows"]

VIEWS = ("module", "layer", "op", "operation", "phase", "device")
COLUMNS = (
    "name", "energy_j", "low_j", "high_j", "source", "power_w", "share", "time_s",
    "count", "unknown_s", "resolved", "group", "group_energy_j", "steps",
    "step_mean_j", "step_std_j",
)  # fmt: skip
MODULE_COLUMNS = ("parent_share", "forward_j", "backward_j")


def view_rows(ledger: Ledger, by: str, top: int | None = None) -> list[Row]:
    """The rows of a view other than the modules'.

    Raises:
        UsageError: There is no such view.
    """
    if by == "operation":
        return ledger.operations(top)
    views = {"op": ledger.by_op, "phase": ledger.by_phase, "device": ledger.by_device}
    if by not in views:
        raise UsageError(f"no view {by!r}; there are {', '.join(VIEWS)}")
    return views[by]()[:top]


def to_csv(ledger: Ledger, by: str, top: int | None = None) -> str:
    """A view, then what belongs to no op.

    Args:
        ledger: The ledger.
        by: One of `VIEWS`.
        top: How many rows at most; None for all.
    """
    return csv_of_rows(_names(by), _table(ledger, by, top))


def to_pandas(ledger: Ledger, by: str) -> Any:
    """A view, then what belongs to no op, as a pandas DataFrame.

    Args:
        ledger: The ledger.
        by: One of `VIEWS`.

    Raises:
        MissingExtraError: pandas is not installed.
        UsageError: There is no such view.
    """
    columns = zip(*_table(ledger, by, None), strict=True)
    return data_frame(dict(zip(_names(by), map(list, columns), strict=True)))


def _names(by: str) -> tuple[str, ...]:
    return (*COLUMNS, *(MODULE_COLUMNS if by in ("module", "layer") else ()))


def _table(ledger: Ledger, by: str, top: int | None) -> list[tuple[Any, ...]]:
    """Cells of every row; None where there is nothing to say."""
    if by in ("module", "layer"):
        modules = ledger.by_module() if by == "module" else ledger.by_layer()
        rows = [
            (*_cells(m.row), m.parent_share, m.forward_j, m.backward_j)
            for m in modules[:top]
        ]
    else:
        rows = [_cells(row) for row in view_rows(ledger, by, top)]
    for rest in ledger.rest():
        energy = _energy_cells(rest.to_dict())
        cells = (f"({rest.name})", *energy, None, rest.share, rest.time_s)
        rows.append((*cells, *[None] * (len(_names(by)) - len(cells))))
    return rows


def _cells(row: Row) -> tuple[Any, ...]:
    fields = row.to_dict()
    steps = row.steps
    return (
        row.name,
        *_energy_cells(fields),
        *(fields[key] for key in COLUMNS[5:13]),
        *((steps.steps, steps.mean_j, steps.std_j) if steps else (None,) * 3),
    )


def _energy_cells(fields: dict[str, Any]) -> list[Any]:
    return [fields[key] for key in COLUMNS[1:5]]


def to_parquet(ledger: Ledger, path: Path) -> None:
    """One row for each event, in the order of the trace; metadata in the file's own.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    events = ledger.events
    columns: dict[str, Any] = {
        "start_ns": events.start_ns,
        "end_ns": events.end_ns,
        **{
            key: arrow.DictionaryArray.from_arrays(
                getattr(events, key).codes.astype(np.int32),
                arrow.array(getattr(events, key).names, arrow.string()),
            )
            for key in ("name", "op", "scope", "phase", "device", "lane")
        },
        "parent": events.parent,
        "step": events.step,
        "is_mark": events.is_mark,
        # What has no power at all is unknown, not zero.
        "energy_j": arrow.array(ledger.energy_j, mask=~_known(ledger)),
        "own_s": ledger.own_s,
        "unknown_s": ledger.unknown_s,
        "resolved": ledger.resolved,
        "resolution_s": ledger.resolution_s,
    }
    table = arrow.table(columns)
    facts = {
        "schema": SCHEMA,
        "window_ns": ledger.window_ns,
        "split": ledger.split,
        "steps": events.steps,
        "channels": [account.to_dict() for account in ledger.accounts],
        "notes": ledger.notes,
    }
    table = table.replace_schema_metadata({"irene": json.dumps(facts)})
    with whole_file(path, make_folder=False) as file:
        parquet.write_table(table, file, compression="zstd")


def _known(ledger: Ledger) -> Any:
    """Events of whose time some power is known."""
    dark = (ledger.unknown_s >= ledger.own_s * (1 - 1e-12)) & (ledger.own_s > 0)
    return ledger.is_charged & ~(dark & (ledger.energy_j == 0))
