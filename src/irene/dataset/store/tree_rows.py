"""Rows of a segment: how trees become rows, and rows trees and nodes.

A segment is a Parquet file of entries, one after the other, each unfolded and in
pre-order. The first row of an entry carries all that is not of a node in `header`, so
that a segment can be read without the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from irene.dataset.formats.nodes_parquet import arrow
from irene.dataset.store.entries import Entry
from irene.dataset.table import NODE_FEATURES, TreeKey
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tree import KINDS, EnergyColumns, ModelTree
from irene.tree.columns import Columns, Signature
from irene.tree.model_tree import SOURCES

__all__ = [
    "COSTS",
    "KNOWN_COLUMNS",
    "KnownNode",
    "arrow_schema",
    "entry_table",
    "filled",
    "known_nodes",
    "known_values",
    "tree_of_rows",
    "tree_rows",
]

COSTS = ("params", "flops", "bytes_read", "bytes_written")
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
    "more", "node", "result", "header",
)  # fmt: skip
WHOLES = ("batch_size", "seq_len", "parent", *COSTS)
NUMBERS = ("energy_j", "low_j", "high_j", *(f"feature_{n}" for n in FEATURE_NAMES))

KNOWN_COLUMNS = ("entry", "parent", "node", "result", "energy_j", "low_j", "high_j")
"""What `known_nodes` reads."""

Rows = dict[str, list[Any]]


def arrow_schema() -> Any:
    """Names and types of the columns; any value may be unknown."""
    pa, _ = arrow()
    texts = [(name, pa.string()) for name in TEXTS]
    wholes = [(name, pa.int64()) for name in WHOLES]
    numbers = [(name, pa.float64()) for name in NUMBERS]
    return pa.schema([*texts, *wholes, *numbers])


def filled(table: Any, names: Collection[str] | None = None) -> Any:
    """A table with the columns of today; those it was written without are unknown.

    Args:
        table: What was read.
        names: Of columns; None for all.
    """
    pa, _ = arrow()
    schema = pa.schema([f for f in arrow_schema() if names is None or f.name in names])
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def entry_table(entry: Entry, told: Mapping[str, Any], rows: Rows) -> Any:
    """The rows of one entry as an Arrow table.

    Args:
        entry: Named in every row, and kept as a whole in the first.
        told: What else belongs to the entry and to no node.
        rows: Columns of its nodes; one that is missing is unknown.
    """
    pa, _ = arrow()
    about = {"entry": entry.to_dict(), "spec": entry.spec.to_dict(), **told}
    header = json.dumps(about, allow_nan=False)
    size = len(rows["path"])
    of_entry = {"entry": [entry.id] * size, "header": [header, *[None] * (size - 1)]}
    return filled(pa.table({**rows, **of_entry}))


def tree_rows(
    tree: ModelTree,
    keys: Sequence[str | None] = (),
    results: Mapping[str, Mapping[str, Any]] | None = None,
) -> Rows:
    """The nodes of a tree, column by column; without `entry` and `header`.

    Args:
        tree: Unfolded, with spec and energy.
        keys: Key of every row, if the rows have any.
        results: What was measured of a key, kept at its first row.
    """
    spec, columns = tree.spec, tree.columns
    assert spec is not None
    size = len(tree)
    shapes = [
        (json.dumps(s.inputs), json.dumps(s.outputs), s.dtype) for s in tree.signatures
    ]
    of_row = [shapes[place] for place in columns.signature.tolist()]
    sizes = spec.to_dict()
    return {
        **{name: [sizes[name]] * size for name in TreeKey._fields},
        "parent": tree.parents.tolist(),
        "path": list(tree.paths),
        "kind": [KINDS[kind] for kind in columns.kind.tolist()],
        "op": [tree.strings[op] for op in columns.op.tolist()],
        "inputs": [shape[0] for shape in of_row],
        "outputs": [shape[1] for shape in of_row],
        "dtype": [shape[2] for shape in of_row],
        **{name: getattr(columns, name).tolist() for name in COSTS},
        **_energy_rows(tree),
        **_feature_rows(tree),
        **_key_rows(size, keys, results or {}),
    }


def _energy_rows(tree: ModelTree) -> Rows:
    energy = tree.energy
    assert energy is not None
    return {
        "energy_j": known_values(energy.joules),
        "low_j": known_values(energy.low),
        "high_j": known_values(energy.high),
        "source": [SOURCES[place] for place in energy.source.tolist()],
    }


def _feature_rows(tree: ModelTree) -> Rows:
    rows: Rows = {
        f"feature_{name}": known_values(tree.features[name])
        for name in FEATURE_NAMES
        if name in tree.features
    }
    others = [name for name in tree.features if name not in FEATURE_NAMES]
    if others:
        values = [known_values(tree.features[name]) for name in others]
        rows["more"] = [
            _json({n: v for n, v in zip(others, row, strict=True) if v is not None})
            for row in zip(*values, strict=True)
        ]
    return rows


def _json(values: Mapping[str, float]) -> str | None:
    return json.dumps(values) if values else None


def known_values(values: Any) -> list[float | None]:
    """Numbers; None for those that are not known."""
    return [None if value != value else value for value in values.tolist()]


def _key_rows(
    size: int,
    keys: Sequence[str | None],
    results: Mapping[str, Mapping[str, Any]],
) -> Rows:
    if not len(keys):
        return {}
    seen: set[str | None] = set()
    told: list[str | None] = []
    for key in keys:
        first = key is not None and key not in seen and key in results
        told.append(json.dumps(results[key or ""]) if first else None)
        seen.add(key)
    return {"node": list(keys), "result": told}


def tree_of_rows(rows: Mapping[str, Sequence[Any]], hardware: Hardware) -> ModelTree:
    """The tree of one entry.

    Args:
        rows: All columns of it.
        hardware: The machine, under the name that it is known by here.
    """
    header = json.loads(rows["header"][0])
    strings: dict[str, int] = {}
    signatures: dict[tuple[str, str, str], int] = {}
    parents, paths = rows["parent"], rows["path"]
    lists: dict[str, list[int]] = {name: [] for name in Columns.__slots__}
    shapes = zip(rows["inputs"], rows["outputs"], rows["dtype"], strict=True)
    for row, (parent, path, shape) in enumerate(
        zip(parents, paths, shapes, strict=True)
    ):
        lists["depth"].append(lists["depth"][parent] + 1 if row else 0)
        lists["kind"].append(KINDS.index(rows["kind"][row]))
        name = _relative(path, paths[parent]) if row else path
        lists["name"].append(strings.setdefault(name, len(strings)))
        lists["op"].append(strings.setdefault(rows["op"][row], len(strings)))
        lists["signature"].append(signatures.setdefault(shape, len(signatures)))
        lists["count"].append(1)
    for cost in COSTS:
        lists[cost] = [value or 0 for value in rows[cost]]
    tree = ModelTree(
        Columns.from_lists(lists),
        list(strings),
        [_signature(*shape) for shape in signatures],
        spec=RunSpec.from_dict(header["spec"]),
        hardware=hardware,
        provenance=header["provenance"],
        notes=header["notes"],
        unsupported=header["unsupported"],
    )
    energy = EnergyColumns(
        _array(rows["energy_j"]),
        _array(rows["low_j"]),
        _array(rows["high_j"]),
        np.array([SOURCES.index(s) for s in rows["source"]], np.uint8),
        header["produced_by"],
    )
    return tree.with_features(_features(rows)).with_energy(energy, hardware)


def _relative(path: str, above: str) -> str:
    """A path as a tree keeps it: from its parent, or with a leading slash."""
    if not above:
        return path
    inside = path.startswith(f"{above}.")
    return path[len(above) + 1 :] if inside else f"/{path}"


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


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A distinct node that was measured.

    Attributes:
        key: Names the node, as `DistinctNode.key`.
        entry: Id of the entry it was measured in.
        energy_j: Its energy, J; None where unknown.
        low_j: Lower end of the 90 % interval, J.
        high_j: Upper end, J.
        result: `NodeResult.to_dict()` of it; None where it was not kept.
    """

    key: str
    entry: str
    energy_j: float | None
    low_j: float | None
    high_j: float | None
    result: Mapping[str, Any] | None


def known_nodes(tables: Iterable[Any]) -> dict[str, KnownNode]:
    """The distinct nodes of rows, by key; one with a result counts first.

    Args:
        tables: `KNOWN_COLUMNS` of entries, in any order.
    """
    found: dict[str, dict[str, Any]] = {}
    for table in tables:
        for row in table.filter(table.column("node").is_valid()).to_pylist():
            there = found.get(row["node"])
            if there is None or _rank(row) < _rank(there):
                found[row["node"]] = row
    return {
        key: KnownNode(
            key,
            row["entry"],
            row["energy_j"],
            row["low_j"],
            row["high_j"],
            json.loads(row["result"]) if row["result"] else None,
        )
        for key, row in found.items()
    }


def _rank(row: Mapping[str, Any]) -> tuple[bool, str]:
    """The choice is the same in whatever order segments are read."""
    return row["result"] is None, row["entry"]
