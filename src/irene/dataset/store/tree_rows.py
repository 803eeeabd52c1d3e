"""Rows of a segment: from trees and to trees, and to one table of many.

A segment is a Parquet file of entries, one after the other, each unfolded and in
pre-order. The first row of an entry carries all that is not of a node in `header`, so
that a segment can be read without the manifest. Into a table nothing is mixed silently;
of several measurements of one run, the median of each node counts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats
from irene.dataset.measured_data import COSTS, in_table_units
from irene.dataset.store.entries import Entry, run_fields
from irene.dataset.table import NODE_FEATURES, NodeTable, TreeKey, joined_columns
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tables import pyarrow
from irene.tree import KINDS, EnergyColumns, ModelTree
from irene.tree.columns import SOURCES, Columns, Signature
from irene.tree.document import relative_path

FEATURE_NAMES = (
    *NODE_FEATURES,
    "times_spread",
    "energy_spread",
    "net_energy_mean",
    "rounds",
    "rounds_repeated",
    "repeats",
)
"""Features with a column of their own, `feature_NAME`; others are in `more`."""
TEXTS = (
    "entry", "model", "path", "kind", "op", "inputs", "outputs", "dtype", "source",
    "more", "header",
)  # fmt: skip
WHOLES = ("batch_size", "seq_len", "parent", *COSTS)
NUMBERS = ("energy_j", "low_j", "high_j", *(f"feature_{n}" for n in FEATURE_NAMES))

Rows = dict[str, list[Any]]


def arrow_schema() -> Any:
    """Names and types of the columns; any value may be unknown."""
    pa, _ = pyarrow()
    texts = [(name, pa.string()) for name in TEXTS]
    wholes = [(name, pa.int64()) for name in WHOLES]
    numbers = [(name, pa.float64()) for name in NUMBERS]
    return pa.schema([*texts, *wholes, *numbers])


def filled(table: Any, names: Collection[str] | None = None) -> Any:
    """A table with the columns of today; those it was written without are unknown."""
    pa, _ = pyarrow()
    schema = pa.schema([f for f in arrow_schema() if names is None or f.name in names])
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def starts_of(table: Any) -> Any:
    """First row of every entry, and the number of rows at the end."""
    parent = table.column("parent").to_numpy()
    return np.append(np.flatnonzero(parent == -1), len(parent))


def entry_table(entry: Entry, told: Mapping[str, Any], rows: Rows) -> Any:
    """The rows of one entry as an Arrow table."""
    pa, _ = pyarrow()
    about = {"entry": entry.to_dict(), "spec": entry.spec.to_dict(), **told}
    header = json.dumps(about, allow_nan=False)
    size = len(rows["path"])
    of_entry = {"entry": [entry.id] * size, "header": [header, *[None] * (size - 1)]}
    return filled(pa.table({**rows, **of_entry}))


def tree_rows(tree: ModelTree) -> Rows:
    """The nodes of a tree, column by column; without `entry` and `header`."""
    spec, energy, columns = tree.spec, tree.energy, tree.columns
    assert spec is not None
    assert energy is not None
    shapes = [
        (json.dumps(s.inputs), json.dumps(s.outputs), s.dtype) for s in tree.signatures
    ]
    of_row = [shapes[place] for place in columns.signature.tolist()]
    return {
        **{n: [value] * len(tree) for n, value in TreeKey.of(spec)._asdict().items()},
        "parent": tree.parents.tolist(),
        "path": list(tree.paths),
        "kind": [KINDS[kind] for kind in columns.kind.tolist()],
        "op": [tree.strings[op] for op in columns.op.tolist()],
        "inputs": [shape[0] for shape in of_row],
        "outputs": [shape[1] for shape in of_row],
        "dtype": [shape[2] for shape in of_row],
        **{name: getattr(columns, name).tolist() for name in COSTS},
        "energy_j": known_values(energy.joules),
        "low_j": known_values(energy.low),
        "high_j": known_values(energy.high),
        "source": [SOURCES[place] for place in energy.source.tolist()],
        **_feature_rows(tree),
    }


def _feature_rows(tree: ModelTree) -> Rows:
    values = {name: known_values(values) for name, values in tree.features.items()}
    own = {f"feature_{n}": values.pop(n) for n in FEATURE_NAMES if n in values}
    more = [
        {name: row for name, row in zip(values, rows, strict=True) if row is not None}
        for rows in zip(*values.values(), strict=True)
    ]
    others = [json.dumps(one) if one else None for one in more]
    return {**own, "more": others or [None] * len(tree)}


def known_values(values: Any) -> list[float | None]:
    """Numbers; None for those that are not known."""
    return [None if value != value else value for value in values.tolist()]


def tree_of_rows(rows: Mapping[str, Sequence[Any]], hardware: Hardware) -> ModelTree:
    """The tree of one entry."""
    header = json.loads(rows["header"][0])
    strings: dict[str, int] = {}
    signatures: dict[tuple[str, str, str], int] = {}
    shapes = zip(rows["inputs"], rows["outputs"], rows["dtype"], strict=True)
    paths, depth = rows["path"], [0]
    names = [paths[0]]
    for parent, path in zip(rows["parent"][1:], paths[1:], strict=True):
        depth.append(depth[parent] + 1)
        names.append(relative_path(path, paths[parent]))
    columns = Columns.from_lists(
        {
            "depth": depth,
            "kind": [KINDS.index(kind) for kind in rows["kind"]],
            "name": [strings.setdefault(name, len(strings)) for name in names],
            "op": [strings.setdefault(op, len(strings)) for op in rows["op"]],
            "signature": [signatures.setdefault(s, len(signatures)) for s in shapes],
            "count": [1] * len(paths),
            **{cost: [value or 0 for value in rows[cost]] for cost in COSTS},
        }
    )
    source = np.array([SOURCES.index(name) for name in rows["source"]], np.uint8)
    joules, low, high = (_array(rows[n]) for n in ("energy_j", "low_j", "high_j"))
    told = ("provenance", "notes", "unsupported")
    return ModelTree(
        columns,
        list(strings),
        [_signature(*shape) for shape in signatures],
        spec=RunSpec.from_dict(header["spec"]),
        hardware=hardware,
        energy=EnergyColumns(joules, low, high, source, header["produced_by"]),
        features=_features(rows),
        **{name: header[name] for name in told},
    )


def _signature(inputs: str, outputs: str, dtype: str) -> Signature:
    into, out = (tuple(map(tuple, json.loads(text))) for text in (inputs, outputs))
    return Signature(into, out, dtype)


def _features(rows: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    columns = {name: _array(rows[f"feature_{name}"]) for name in FEATURE_NAMES}
    known = {name: v for name, v in columns.items() if not np.isnan(v).all()}
    for row, text in enumerate(rows["more"]):
        for name, value in json.loads(text or "{}").items():
            known.setdefault(name, np.full(len(rows["more"]), np.nan))[row] = value
    return known


def _array(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


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
    """Measurements of forward passes that may stand in one table."""
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
        parts.append(_table_columns(rows))
    keys = [TreeKey.of(chosen[one].spec) for one in ids]
    table = NodeTable.from_columns(name, keys, joined_columns(parts))
    order = sorted(range(len(keys)), key=lambda place: (keys[place], ids[place]))
    return _medians(table if order == list(range(len(keys))) else table.take(order))


def _table_columns(rows: Any) -> dict[str, Any]:
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
