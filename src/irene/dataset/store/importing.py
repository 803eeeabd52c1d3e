"""Importing: data of other formats becomes entries of a store.

`irene.nodes/1` files, also those that `irene measure --data` has written, and the CSV
and JSONL data of 2021. What they do not say is not made up: it stays unknown.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, cast

from irene.dataset.formats.any_format import data_path, format_of, read_data
from irene.dataset.formats.parquet import Provenance, read_provenance
from irene.dataset.store.columns import FEATURE_NAMES
from irene.dataset.store.entry import Entry, entry_id
from irene.dataset.store.manifest import Segment
from irene.dataset.store.origin import Origin
from irene.dataset.store.packing import Packer
from irene.dataset.store.recovery import entry_line
from irene.dataset.store.segments import entry_table
from irene.dataset.store.store import Store
from irene.dataset.table import FEATURES, NodeTable, TreeKey
from irene.hardware import Hardware
from irene.spec import Attention, DType, RunSpec
from irene.tree import KINDS

__all__ = ["import_data", "import_table"]

MEASURED_HERE = re.compile(r".+, (\w+), (\w+) attention, covers (.+)")
"""The source of what `irene measure --data` and `irene data export` have written."""
UNKNOWN = "unknown"
MEGA = 1e6
MIB = 2**20


def import_data(store: Store, path: Path | str) -> tuple[list[str], list[str]]:
    """Add data of any format that `read_data` reads.

    Args:
        store: Where it goes.
        path: File, folder or name.

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
    match = MEASURED_HERE.fullmatch(told.source)
    dtype, attention, covers = match.groups() if match else ("fp32", "eager", UNKNOWN)
    origin = Origin(
        host=UNKNOWN,
        hardware=Hardware(name or table.name, covers, description),
        started=told.date,
        engine="import",
    )
    note = f"imported from {kind} data: {told.source or table.name}"
    if not match:
        note += "; dtype and attention were not recorded, fp32 and eager are assumed"
    specs = {"dtype": cast(DType, dtype), "attention": cast(Attention, attention)}
    return import_table(store, table, origin, [note], **specs), left_out


def import_table(
    store: Store,
    table: NodeTable,
    origin: Origin,
    notes: list[str] | None = None,
    **spec: Any,
) -> list[str]:
    """Add the trees of a table.

    Args:
        store: Where they go.
        table: Of measured forward passes.
        origin: Where all of them come from.
        notes: What a reader should know, in words.
        **spec: Fields of their specs, beside model and size.

    Returns:
        Ids of the entries, those that were there already too.

    Raises:
        UsageError: Another machine of this name is in the store.
    """
    store._check_machine(origin.hardware)
    entries: dict[str, Entry] = {}
    ids = []

    def commit(done: list[str], segment: Segment) -> None:
        lines = []
        for name in done:
            fields = {**entries[name].to_dict(), "segment": segment.file}
            lines.append(entry_line(Entry.from_dict(fields), segment))
        store.manifest.append(lines)

    with Packer(store.layout, commit) as packer:
        for key, place in table.trees():
            rows = _rows(table, key, place)
            run = RunSpec(**key._asdict(), **spec)
            name = entry_id(origin, json.dumps([run.to_dict(), rows], sort_keys=True))
            ids.append(name)
            if name in store.manifest.entries or name in entries:
                continue
            entry = entries[name] = Entry(
                name, run, origin.hardware.name, origin, "measured",
                len(rows["path"]), time.time_ns(), "",
            )  # fmt: skip
            packer.add([name], entry_table(entry, _told(run, notes or []), rows))
    return ids


def _told(spec: RunSpec, notes: list[str]) -> dict[str, Any]:
    return {
        "spec": spec.to_dict(),
        "provenance": {},
        "notes": notes,
        "unsupported": {},
        "produced_by": "imported",
    }


def _rows(table: NodeTable, key: TreeKey, place: slice) -> dict[str, list[Any]]:
    size = place.stop - place.start
    features = {n: _known(table.features[n][place]) for n in FEATURES}
    energy_j = _known(table.energy_j[place])
    parent = table.parent[place]
    return {
        **{name: [getattr(key, name)] * size for name in TreeKey._fields},
        "parent": [p - place.start if p >= 0 else -1 for p in parent.tolist()],
        "path": list(table.path[place]),
        "kind": [KINDS[kind] for kind in table.kind[place].tolist()],
        "op": list(table.op[place]),
        "inputs": ["[]"] * size,
        "outputs": ["[]"] * size,
        "dtype": [""] * size,
        "params": _whole(features["num_parameters"], 1),
        "flops": _whole(features["flops"], MEGA),
        "bytes_read": _whole(features["mem_bytes"], MIB),
        "bytes_written": [0] * size,
        "energy_j": energy_j,
        "low_j": energy_j,
        "high_j": energy_j,
        "source": ["measured"] * size,
        **{f"feature_{n}": v for n, v in features.items() if n in FEATURE_NAMES},
    }


def _known(values: Any) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def _whole(values: list[float | None], unit: float) -> list[int | None]:
    return [None if value is None else round(value * unit) for value in values]
