"""Columns of a segment: one row per node, and how trees become rows and rows trees.

A segment is a Parquet file of entries, one after the other, each unfolded and in
pre-order. The first row of an entry carries all that is not of a node in `header`, so
that a segment can be read without the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from irene.dataset.table import FEATURES, TreeKey
from irene.errors import MissingExtraError
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tree import KINDS, EnergyColumns, ModelTree
from irene.tree.columns import Columns, Signature
from irene.tree.model_tree import SOURCES

__all__ = [
    "COSTS",
    "FEATURE_NAMES",
    "KEYED",
    "Arrow",
    "arrow",
    "arrow_schema",
    "filled",
    "tree_of_rows",
    "tree_rows",
]

COSTS = ("params", "flops", "bytes_read", "bytes_written")
KEYED = ("model", *TreeKey._fields[1:])
FEATURE_NAMES = (
    *(name for name in FEATURES if name not in TreeKey._fields),
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

Rows = dict[str, list[Any]]


class Arrow(NamedTuple):
    """The two modules of pyarrow that are used."""

    pa: Any
    pq: Any


def arrow() -> Arrow:
    """pyarrow, if it is installed.

    Raises:
        MissingExtraError: It is not.
    """
    try:
        return Arrow(import_module("pyarrow"), import_module("pyarrow.parquet"))
    except ImportError as error:
        raise MissingExtraError(
            "a store of measured trees needs pyarrow and duckdb: "
            "pip install 'irene-energy[data]'"
        ) from error


def arrow_schema() -> Any:
    """Names and types of the columns; any value may be unknown."""
    pa = arrow().pa
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
    pa = arrow().pa
    schema = pa.schema([f for f in arrow_schema() if names is None or f.name in names])
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


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
        **{name: [sizes[name]] * size for name in KEYED},
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
        "energy_j": _known(energy.joules),
        "low_j": _known(energy.low),
        "high_j": _known(energy.high),
        "source": [SOURCES[place] for place in energy.source.tolist()],
    }


def _feature_rows(tree: ModelTree) -> Rows:
    rows: Rows = {
        f"feature_{name}": _known(tree.features[name])
        for name in FEATURE_NAMES
        if name in tree.features
    }
    others = [name for name in tree.features if name not in FEATURE_NAMES]
    if others:
        values = [_known(tree.features[name]) for name in others]
        rows["more"] = [
            _json({n: v for n, v in zip(others, row, strict=True) if v is not None})
            for row in zip(*values, strict=True)
        ]
    return rows


def _json(values: Mapping[str, float]) -> str | None:
    return json.dumps(values) if values else None


def _known(values: Any) -> list[float | None]:
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
