"""Rows of a segment: how trees become rows, and rows trees and nodes.

A segment is a Parquet file of entries, one after the other, each unfolded and in
pre-order. The first row of an entry carries all that is not of a node in `header`, so
that a segment can be read without the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from irene.dataset.from_trees import COSTS
from irene.dataset.store.entries import Entry
from irene.dataset.table import NODE_FEATURES, TreeKey
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
