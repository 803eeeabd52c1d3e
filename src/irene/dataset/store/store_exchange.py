"""A store and data of other formats: import into entries, export of a machine's trees.

`irene.nodes/1` files, also those that `irene measure --data` has written, and the CSV
and JSONL data of 2021. What they do not say is not made up: it stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from irene.dataset.formats.nodes_parquet import Provenance, read_provenance
from irene.dataset.from_trees import MEGA, MIB
from irene.dataset.measured_data import (
    Format,
    data_path,
    format_of,
    read_data,
    write_data,
)
from irene.dataset.store.entries import Entry, Origin, run_fields
from irene.dataset.store.segments import segments_of
from irene.dataset.store.store import Store
from irene.dataset.store.tree_rows import entry_table, known_values
from irene.dataset.table import NODE_FEATURES, NodeTable, TreeKey
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.spec import RunSpec

UNKNOWN = "unknown"
FLAG = json.dumps({"rounds_disturbed": 1.0})
"""What is kept of a node that something disturbed, where nobody says what."""


def import_data(store: Store, path: Path | str) -> tuple[list[str], list[str]]:
    """Add data of any format that `read_data` reads.

    Returns:
        Ids of the entries, and in words what was left out.

    Raises:
        UsageError: There is nothing there, or another machine of its name is in the
            store.
        FormatError: It is damaged.
    """
    table, left_out = read_data(path)
    found = data_path(path)
    kind = format_of(found)
    told = read_provenance(found) if kind == "parquet" else Provenance()
    name, _, description = told.hardware.partition(": ")
    unknown = Hardware(name, UNKNOWN, description)
    dtype, attention, hardware = told.run or ("fp32", "eager", unknown)
    hardware = replace(hardware, name=hardware.name or table.name)
    origin = Origin(UNKNOWN, hardware, started=told.date, engine="import")
    note = f"imported from {kind} data: {told.source or table.name}"
    if told.run is None:
        note += "; dtype and attention were not recorded, fp32 and eager are assumed"
    kind_of_run = {"dtype": dtype, "attention": attention}
    return _add_trees(store, table, origin, note, kind_of_run), left_out


def _add_trees(
    store: Store, table: NodeTable, origin: Origin, note: str, kind: Mapping[str, str]
) -> list[str]:
    """Put the trees of a table into a store; the ids of all of them."""
    store.check_machine(origin.hardware)
    about = {
        "provenance": {},
        "notes": [note],
        "unsupported": {},
        "produced_by": "imported",
    }
    ids: list[str] = []
    new: dict[str, Entry] = {}

    def tables() -> Iterator[tuple[list[str], Any]]:
        for key, rows in _trees(table):
            run = RunSpec.from_dict({**key._asdict(), **kind})
            content = json.dumps([run_fields(run), rows], sort_keys=True)
            entry = Entry.made_now(run, origin, content, len(rows["path"]))
            ids.append(entry.id)
            if entry.id not in store.manifest.entries and entry.id not in new:
                new[entry.id] = entry
                yield [entry.id], entry_table(entry, about, rows)

    for names, content in segments_of(tables()):
        store.put(new, names, content)
    return ids


def _trees(table: NodeTable) -> Iterator[tuple[TreeKey, dict[str, list[Any]]]]:
    """Every tree of a table as the rows of a segment."""
    columns = table.to_columns()
    columns |= {n: known_values(columns[n]) for n in (*NODE_FEATURES, "energy_j")}
    columns["parent"] = columns["parent"].tolist()
    for key, place in table.trees():
        rows = {name: values[place] for name, values in columns.items()}
        features = {name: rows.pop(name) for name in NODE_FEATURES}
        if (disturbed := rows.pop("disturbed")).any():
            rows["more"] = [FLAG if each else None for each in disturbed]
        size = len(rows["path"])
        rows |= {name: [value] * size for name, value in key._asdict().items()}
        rows |= {
            "inputs": ["[]"] * size,
            "outputs": ["[]"] * size,
            "dtype": [""] * size,
        }
        rows |= {
            "params": _whole(features["num_parameters"], 1),
            "flops": _whole(features["flops"], MEGA),
            "bytes_read": _whole(features["mem_bytes"], MIB),
            "bytes_written": [0] * size,
            "low_j": rows["energy_j"],
            "high_j": rows["energy_j"],
            "source": ["measured"] * size,
        }
        yield key, rows | {f"feature_{name}": v for name, v in features.items()}


def _whole(values: list[float | None], unit: float) -> list[int | None]:
    return [None if value is None else round(value * unit) for value in values]


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
    used: list[Entry] = []

    def where(entry: Entry) -> bool:
        fits = _has_values(entry, only or {})
        if fits:
            used.append(entry)
        return fits

    table = store.table(
        hardware, software=software, where=where, allow_mixed=allow_mixed
    )
    mine = [e for e in used if e.hardware == table.name]
    if software is not None:
        mine = [entry for entry in mine if entry.software == software]
    write_data(table, path, kind, _provenance(store, mine))
    return table


def _has_values(entry: Entry, only: Mapping[str, str]) -> bool:
    told = run_fields(entry.spec)
    strange = sorted(set(only) - set(told))
    if strange:
        raise UsageError(
            f"a run has no field {strange[0]!r}; there are {', '.join(told)}"
        )
    return all(str(told[name]) == value for name, value in only.items())


def _provenance(store: Store, entries: Sequence[Entry]) -> Provenance:
    names = sorted({entry.software for entry in entries})
    dates = sorted(filter(None, (entry.origin.started for entry in entries)))
    source = f"store {store.path.name} ({' and '.join(names)})"
    first, date = entries[0], dates[0] if dates else ""
    return Provenance.of_run(source, first.spec, first.machine, date)
