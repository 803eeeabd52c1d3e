"""Exporting: measured trees of a store in the formats of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from irene.dataset.formats.any_format import Format, write_data
from irene.dataset.formats.parquet import Provenance
from irene.dataset.store.entry import Entry
from irene.dataset.store.store import Store
from irene.dataset.table import NodeTable
from irene.errors import UsageError

__all__ = ["export_store", "with_fields"]


def export_store(
    store: Store,
    path: Path,
    kind: Format,
    hardware: str | None = None,
    software: str | None = None,
    only: Mapping[str, str] | None = None,
    allow_mixed: bool = False,
) -> NodeTable:
    """Write the forward passes of one machine.

    Args:
        store: The store.
        path: A folder for `csv`, otherwise a file; what is there is replaced.
        kind: The format.
        hardware: The machine; may be left out if there is one only.
        software: The software; may be left out if there is one only.
        only: Values that fields of the specs must have.
        allow_mixed: Whether measurements of different software may be mixed.

    Returns:
        What was written.

    Raises:
        UsageError: There is nothing, or several kinds of what is not mixed.
    """
    fits = with_fields(only or {})
    used: list[Entry] = []

    def where(entry: Entry) -> bool:
        if not fits(entry):
            return False
        used.append(entry)
        return True

    table = store.table(
        hardware, software=software, where=where, allow_mixed=allow_mixed
    )
    write_data(table, path, kind, _provenance(store, used, table.name, software))
    return table


def with_fields(only: Mapping[str, str]) -> Any:
    """Whether a spec has some values, as text.

    Raises:
        UsageError: A spec has no such field.
    """

    def fits(entry: Entry) -> bool:
        told = entry.spec.to_dict()
        strange = sorted(set(only) - set(told))
        if strange:
            raise UsageError(
                f"a run has no field {strange[0]!r}; there are {', '.join(told)}"
            )
        return all(str(told[name]) == value for name, value in only.items())

    return fits


def _provenance(
    store: Store, used: Sequence[Entry], hardware: str, software: str | None
) -> Provenance:
    mine = [
        entry
        for entry in used
        if entry.hardware == hardware and software in (None, entry.origin.software_name)
    ]
    first = mine[0]
    names = sorted({entry.origin.software_name for entry in mine})
    dates = sorted(filter(None, (entry.origin.started for entry in mine)))
    run = f"{first.spec.dtype}, {first.spec.attention} attention"
    machine = first.machine
    return Provenance(
        hardware=f"{machine.name}: {machine.description}",
        source=f"store {store.path.name} ({' and '.join(names)}), {run}, "
        f"covers {machine.covers}",
        date=dates[0][:10] if dates else "",
    )
