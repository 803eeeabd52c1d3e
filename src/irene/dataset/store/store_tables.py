"""Tables of a store's trees: which entries may stand in one, and their medians.

Nothing is mixed silently. Of several measurements of one run, the median of each node
counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats
from irene.dataset.from_trees import COSTS, in_table_units
from irene.dataset.store.entries import Entry, run_fields
from irene.dataset.store.segments import starts_of
from irene.dataset.table import NODE_FEATURES, NodeTable, TreeKey, joined_columns
from irene.errors import UsageError

TABLE_COLUMNS = (
    *("entry", "parent", "path", "kind", "op", "energy_j", "more", *COSTS),
    *(f"feature_{name}" for name in NODE_FEATURES),
)
"""What `median_table` reads."""
FLAGGED = '"rounds_'


def choose_for_table(
    path: Path,
    entries: Sequence[Entry],
    hardware: str | None,
    software: str | None,
    allow_mixed: bool,
) -> list[Entry]:
    """Measurements of forward passes that may stand in one table.

    Raises:
        UsageError: There is nothing, or several machines, software or kinds of run.
    """
    forward = [
        entry
        for entry in entries
        if entry.spec.phase == "forward" and software in (None, entry.software)
    ]
    if not forward:
        raise UsageError(_nothing(path, entries, hardware, software))
    _one(path, forward, "machines", lambda e: e.hardware, "choose one with --hardware")
    _one(
        path, forward, "machines under one name",
        lambda e: f"{e.hardware} covers {e.origin.hardware.covers}",
        "choose those that cover the same",
    )  # fmt: skip
    if not allow_mixed:
        _one(
            path, forward, "versions of software", lambda e: e.software,
            "choose one with --software, or allow it with --allow-mixed",
        )  # fmt: skip
    _one(
        path, forward, "kinds of run", _kind_of_run,
        "choose one with --only FIELD=VALUE, or where= in Python",
    )  # fmt: skip
    _check_configs(path, forward)
    return forward


def _nothing(
    path: Path, entries: Sequence[Entry], hardware: str | None, software: str | None
) -> str:
    asked = [f" on {hardware}"] if hardware else []
    asked += [f" with {software}"] if software else []
    there = sorted({e.software for e in entries})
    hint = f"; there is {'; '.join(there)}" if software and there else ""
    return (
        f"{path}: no measured forward pass{''.join(asked)}{hint}: "
        f"`irene data show {path}` lists what there is"
    )


def _one(
    path: Path,
    entries: Iterable[Entry],
    what: str,
    of: Callable[[Entry], str],
    choice: str,
) -> None:
    found = sorted({of(entry) for entry in entries})
    if len(found) > 1:
        named = "; ".join(found[:5])
        raise UsageError(f"{path} has {len(found)} {what} ({named}): {choice}")


def _kind_of_run(entry: Entry) -> str:
    """All of a spec that a table's key does not tell, in words."""
    apart = (*TreeKey._fields, "config_digest", "phase")
    told = run_fields(entry.spec).items()
    return ", ".join(f"{n} {v}" for n, v in told if n not in apart and v is not None)


def _check_configs(path: Path, entries: Iterable[Entry]) -> None:
    digests: dict[TreeKey, str | None] = {}
    for spec in (entry.spec for entry in entries):
        other = digests.setdefault(TreeKey.of(spec), spec.config_digest)
        if other != spec.config_digest:
            raise UsageError(
                f"{path}: two different configs are called {spec.model!r} "
                f"({other} and {spec.config_digest}): choose one with where= in Python"
            )


def median_table(
    chosen: Mapping[str, Entry], tables: Iterable[tuple[Sequence[str], Any]], name: str
) -> NodeTable:
    """Trees as one table, in the units of the 2021 data, by model and size."""
    ids: list[str] = []
    parts = []
    for names, rows in tables:
        ids += names
        parts.append(_columns(rows))
    keys = [TreeKey.of(chosen[one].spec) for one in ids]
    table = NodeTable.from_columns(name, keys, joined_columns(parts))
    order = sorted(range(len(keys)), key=lambda place: (keys[place], ids[place]))
    return _medians(table if order == list(range(len(keys))) else table.take(order))


def _columns(rows: Any) -> dict[str, Any]:
    """As `NodeTable.to_columns`: without math operations, in the units of a table."""
    texts = {name: _texts(rows.column(name)) for name in ("path", "kind", "op")}
    keep = texts["kind"] != "math"
    place, starts = np.cumsum(keep), starts_of(rows)
    first = np.repeat(starts[:-1], np.diff(starts))
    parent = rows.column("parent").to_numpy()
    costs = {name: _numbers(rows, name) for name in COSTS}
    features = {name: _numbers(rows, f"feature_{name}") for name in NODE_FEATURES}
    columns = {
        **texts,
        "parent": np.where(parent < 0, -1, place[first + parent] - place[first]),
        **in_table_units(costs, features, _numbers(rows, "energy_j")),
        # What has no column of its own and is of rounds is a flag of some.
        "disturbed": np.array(
            [FLAGGED in m for m in _texts(rows["more"].fill_null(""))]
        ),
    }
    return {name: values[keep] for name, values in columns.items()}


def _numbers(rows: Any, name: str) -> Any:
    values = rows.column(name).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def _texts(column: Any) -> Any:
    """A column of text as an array whose equal values are one object."""
    coded = column.combine_chunks().dictionary_encode()
    words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    return words[coded.indices.to_numpy(zero_copy_only=False)]


def _medians(table: NodeTable) -> NodeTable:
    """One tree of those of one model and size, which stand one after the other."""
    several: dict[TreeKey, list[slice]] = {}
    for key, rows in table.trees():
        several.setdefault(key, []).append(rows)
    if len(several) == len(table.keys):
        return table
    sizes = [len(group) for group in several.values()]
    first = table.take(np.cumsum([0, *sizes[:-1]]))
    source = np.full((max(sizes), len(first)), -1)
    for (_, place), group in zip(first.trees(), several.values(), strict=True):
        for turn, rows in enumerate(group):
            # Others are built otherwise by another software, which was allowed.
            if table.path[rows] == first.path[place]:
                source[turn, place] = np.arange(rows.start, rows.stop)

    def median(values: Floats) -> Floats:
        known: Floats = np.where(source < 0, np.nan, values[source])
        return np.asarray(np.nanmedian(known, axis=0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nothing is known of a node
        return replace(
            first,
            energy_j=median(table.energy_j),
            disturbed=median(table.disturbed.astype(np.float64)) >= 0.5,
            features={name: median(v) for name, v in table.features.items()},
        )
