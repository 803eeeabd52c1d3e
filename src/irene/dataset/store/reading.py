"""Reading trees of a store while others add to it and pack it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.dataset.store.columns import COSTS, FEATURE_NAMES
from irene.dataset.store.entry import Entry
from irene.dataset.store.segments import row_groups, starts_of
from irene.dataset.table import FEATURES, NodeTable, TreeKey
from irene.errors import FormatError
from irene.tree import KINDS

if TYPE_CHECKING:
    from irene.dataset.store.store import Store

__all__ = ["read_segments", "table_of_entries"]

NEEDED = ("entry", "parent", "path", "kind", "op", "energy_j", *COSTS)
MEASURED = tuple(name for name in FEATURES if name in FEATURE_NAMES)
MEGA = 1e6
MIB = 2**20


def read_segments(
    store: Store, chosen: Mapping[str, Entry]
) -> Iterator[tuple[Path, frozenset[str]]]:
    """Segments that hold entries, with the ids to read from each.

    A segment may be packed into another while it waits: what was not read is then
    looked for where it is now.

    Args:
        store: The store.
        chosen: Entries to read, by id.

    Raises:
        FormatError: A segment is gone.
    """
    left = set(chosen)
    missing: str | None = None
    while left:
        files: dict[str, set[str]] = {}
        for name in sorted(left):
            entry = store.manifest.entries.get(name)
            if entry is None:
                raise FormatError(f"{store.path}: {name} is not in the store any more")
            files.setdefault(entry.file, set()).add(name)
        for file, ids in files.items():
            path = store.layout.segments / file
            if not path.exists():
                if file == missing:
                    raise FormatError(
                        f"{path} is missing: `irene data check {store.path}` puts the "
                        "store in order"
                    )
                missing = file
                store.manifest.refresh()
                break
            yield path, frozenset(ids)
            left -= ids


def table_of_entries(store: Store, entries: Sequence[Entry], name: str) -> NodeTable:
    """Trees of entries as one table, in the units of the 2021 data, by model and size.

    Args:
        store: The store.
        entries: Measured, each of another model or size.
        name: What the table is called.
    """
    chosen = {entry.id: entry for entry in entries}
    parts: list[dict[str, Any]] = []
    for path, ids in read_segments(store, chosen):
        columns = [*NEEDED, *(f"feature_{n}" for n in MEASURED)]
        for group in row_groups(path, columns, ids):
            part = _part(group, ids)
            if part["ids"]:
                parts.append(part)
    return _joined(parts, chosen, name)


def _part(group: Any, ids: frozenset[str]) -> dict[str, Any]:
    """Rows of the wanted entries of a row group, without math operations."""
    starts = starts_of(group)
    sizes = np.diff(starts)
    names = group.column("entry").take(starts[:-1]).to_pylist()
    wanted = np.array([name in ids for name in names], dtype=bool)
    kind = _texts(group.column("kind"))
    keep = np.repeat(wanted, sizes) & (kind != "math")
    place = np.cumsum(keep) - 1
    parent = group.column("parent").to_numpy()
    first = np.repeat(starts[:-1], sizes)
    return {
        "ids": [name for name, is_in in zip(names, wanted, strict=True) if is_in],
        "sizes": np.add.reduceat(keep.astype(np.int64), starts[:-1])[wanted].tolist(),
        "parent": np.where(parent < 0, -1, place[first + parent])[keep],
        "kind": np.select([kind == k for k in KINDS], range(len(KINDS)), -1)[keep],
        "path": _texts(group.column("path"))[keep],
        "op": _texts(group.column("op"))[keep],
        "energy_j": _energies(group)[keep],
        **{name: values[keep] for name, values in _features(group).items()},
    }


def _texts(column: Any) -> Any:
    """A column of text as an array whose equal values are one object."""
    coded = column.combine_chunks().dictionary_encode()
    words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    return words[coded.indices.to_numpy(zero_copy_only=False)]


def _numbers(group: Any, name: str) -> Any:
    values = group.column(name).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def _energies(group: Any) -> Any:
    """Energy, J; unknown where the meter did not move."""
    energy_j = _numbers(group, "energy_j")
    return np.where(energy_j > 0, energy_j, np.nan)


def _features(group: Any) -> dict[str, Any]:
    moved = _numbers(group, "bytes_read") + _numbers(group, "bytes_written")
    counted = {
        "num_parameters": _numbers(group, "params"),
        "flops": _numbers(group, "flops") / MEGA,
        "mem_bytes": moved / MIB,
    }
    found = {}
    for name in MEASURED:
        values = np.maximum(_numbers(group, f"feature_{name}"), 0.0)
        other = counted.get(name)
        found[name] = values if other is None else _either(values, other)
    return found


def _either(values: Any, otherwise: Any) -> Any:
    return np.where(np.isnan(values), otherwise, values)


def _joined(
    parts: Sequence[dict[str, Any]], chosen: Mapping[str, Entry], name: str
) -> NodeTable:
    ids = [one for part in parts for one in part["ids"]]
    specs = [chosen[one].spec for one in ids]
    keys = [TreeKey(s.model, s.batch_size, s.seq_len) for s in specs]
    sizes = [size for part in parts for size in part["sizes"]]
    before = np.cumsum([0, *(len(part["parent"]) for part in parts)])
    parent = np.concatenate(
        [
            np.where(part["parent"] < 0, -1, part["parent"] + start)
            for part, start in zip(parts, before, strict=False)
        ]
    )
    features = {n: np.concatenate([part[n] for part in parts]) for n in MEASURED}
    for place, size in enumerate(TreeKey._fields[1:], start=1):
        values = np.array([key[place] for key in keys], dtype=np.float64)
        features[size] = np.repeat(values, sizes)
    table = NodeTable(
        name,
        tuple(keys),
        np.cumsum([0, *sizes]).astype(np.int64),
        parent.astype(np.int64),
        np.concatenate([part["kind"] for part in parts]).astype(np.int64),
        tuple(np.concatenate([part["path"] for part in parts])),
        tuple(np.concatenate([part["op"] for part in parts])),
        features,
        np.concatenate([part["energy_j"] for part in parts]),
    )
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return table if order == list(range(len(keys))) else table.take(order)
