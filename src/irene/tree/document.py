"""The documents of a tree.

`irene.tree/1` is JSON: lossless, versioned, out and in. The table, as CSV or for
pandas, has one row per node in pre-order, with the costs of one instance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats
from irene.energy import SharedError
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.saved import read_values
from irene.spec import RunSpec
from irene.tables import csv_of_columns, data_frame
from irene.tree.builder import TreeBuilder
from irene.tree.columns import (
    KINDS,
    SOURCES,
    EnergyColumns,
    Shape,
    Signature,
    features_of_row,
    features_of_rows,
)
from irene.tree.generation import generation_of
from irene.tree.model_tree import ModelTree
from irene.whole_file import trying_to

SCHEMA = "irene.tree/1"
COSTS = ("params", "flops", "bytes_read", "bytes_written")


def to_dict(tree: ModelTree) -> dict[str, Any]:
    """The whole document as JSON-ready values."""
    energy = tree.energy_of(0)
    generation = generation_of(tree)
    return {
        "schema": SCHEMA,
        "spec": tree.spec and tree.spec.to_dict(),
        "hardware": tree.hardware and tree.hardware.to_dict(),
        "energy_j": energy and energy.joules,
        "low_j": energy and energy.low,
        "high_j": energy and energy.high,
        "source": energy and energy.source,
        "produced_by": tree.energy and tree.energy.produced_by,
        "errors": [asdict(each) for each in tree.energy.errors] if tree.energy else [],
        "provenance": dict(tree.provenance),
        "notes": list(tree.notes),
        "unsupported": dict(tree.unsupported),
        **({"generation": generation.to_dict()} if generation else {}),
        "tree": _nodes(tree),
    }


def _nodes(tree: ModelTree) -> dict[str, Any]:
    """Nested nodes; costs and energies are of one instance, children included."""
    columns, parents = tree.columns, tree.parents.tolist()
    lists = {name: getattr(columns, name).tolist() for name in columns.__slots__}
    shapes = {
        number: [[*map(list, each)] for each in tree.signatures[number][:2]]
        for number in set(lists["signature"])
    }
    nodes: list[dict[str, Any]] = []
    for row, path in enumerate(tree.paths):
        signature = lists["signature"][row]
        node: dict[str, Any] = {
            "path": path,
            "kind": KINDS[lists["kind"][row]],
            "op": tree.strings[lists["op"][row]],
            "call": tree.calls[row],
            "count": lists["count"][row],
            "inputs": shapes[signature][0],
            "outputs": shapes[signature][1],
            "dtype": tree.signatures[signature].dtype,
            **{name: lists[name][row] for name in COSTS},
            "bytes": lists["bytes_read"][row] + lists["bytes_written"][row],
        }
        if row in tree.members:
            node["members"] = [
                {"name": name, "place": place} for name, place in tree.members[row]
            ]
        known = features_of_row(tree.features, row)
        if known:
            node["features"] = known
        node["children"] = []
        nodes.append(node)
        if row:
            nodes[parents[row]]["children"].append(node)
    if tree.energy is not None:
        _add_energy(tree, tree.energy, nodes)
    return nodes[0]


def _add_energy(
    tree: ModelTree, energy: EnergyColumns, nodes: list[dict[str, Any]]
) -> None:
    assert tree.own_j is not None
    columns = (energy.joules, energy.low, energy.high, energy.source, tree.own_j)
    lists = (column.tolist() for column in (*columns, tree.multiplicity))
    total_j = float(energy.joules[0])
    for node, row in zip(nodes, zip(*lists, strict=True), strict=True):
        joules, low, high, source, own_j, times = row
        if joules != joules:  # unknown
            continue
        node["energy_j"] = joules
        node["low_j"] = low
        node["high_j"] = high
        node["source"] = SOURCES[source]
        node["own_j"] = own_j if own_j == own_j else None
        node["share"] = joules * times / total_j if total_j else None


def load(path: str | Path) -> ModelTree:
    """Read a saved tree.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a tree, is corrupt, or of a newer version.
    """
    with trying_to("read", path):
        text = Path(path).read_bytes()
    try:
        return from_json(text)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def from_json(text: str | bytes) -> ModelTree:
    """Read what `to_json` wrote.

    Raises:
        FormatError: The text is not such a document, or of a newer version.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise FormatError("not a tree: the JSON is not an object")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise FormatError(
            f"schema is {schema!r}, this version reads {SCHEMA!r}; "
            "a newer file needs a newer irene"
        )
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise FormatError(f"corrupt tree: {type(error).__name__}: {error}") from error


def _read(document: Mapping[str, Any]) -> ModelTree:
    builder = TreeBuilder()
    energies: list[tuple[float, float, float, int]] = []
    features: list[dict[str, float]] = []
    stack: list[tuple[int, str, Mapping[str, Any]]] = [(-1, "", document["tree"])]
    while stack:
        parent, above, node = stack.pop()
        handle = builder.add(
            parent,
            relative_path(node["path"], above),
            node["kind"],
            node["op"],
            signature=_signature(node),
            count=node["count"],
            members=tuple((m["name"], m["place"]) for m in node.get("members", ())),
            **_own_costs(node),
        )
        if node["kind"] not in KINDS:
            raise ValueError(f"unknown kind {node['kind']!r}")
        energies.append(_energy(node))
        features.append({k: float(v) for k, v in node.get("features", {}).items()})
        children = reversed(node["children"])
        stack.extend((handle, node["path"], child) for child in children)
    tree = builder.build(
        spec=document["spec"] and RunSpec.from_dict(document["spec"]),
        hardware=document["hardware"] and Hardware.from_dict(document["hardware"]),
        provenance=document["provenance"],
        notes=document["notes"],
        unsupported=document["unsupported"],
    ).with_features(features_of_rows(features))
    if document["produced_by"] is None:
        return tree
    joules, low, high, source = (
        np.array(column) for column in zip(*energies, strict=True)
    )
    return tree.with_energy(
        EnergyColumns(
            joules,
            low,
            high,
            source.astype(np.uint8),
            document["produced_by"],
            tuple(read_values(SharedError, e) for e in document.get("errors", ())),
        ),
        tree.hardware,
    )


def _own_costs(node: Mapping[str, Any]) -> dict[str, int]:
    """Costs that the children do not carry, as the builder wants them."""
    own = {name: node[name] for name in COSTS}
    for name in COSTS[1:]:
        own[name] -= sum(child[name] * child["count"] for child in node["children"])
    return own


def relative_path(path: str, above: str) -> str:
    """A path as a tree keeps it: from its parent, or with a leading slash."""
    if not above:
        return path
    inside = path.startswith(f"{above}.")
    return path[len(above) + 1 :] if inside else f"/{path}"


def _signature(node: Mapping[str, Any]) -> Signature:
    return Signature(
        tuple(map(tuple, node["inputs"])),
        tuple(map(tuple, node["outputs"])),
        node["dtype"],
    )


def _energy(node: Mapping[str, Any]) -> tuple[float, float, float, int]:
    if "energy_j" not in node:
        return (np.nan, np.nan, np.nan, 0)
    source = SOURCES.index(node["source"])
    return (node["energy_j"], node["low_j"], node["high_j"], source)


ENERGY_COLUMNS = ("energy_j", "low_j", "high_j", "source", "own_j", "share")


def tree_csv(tree: ModelTree) -> str:
    """The table as CSV, empty where nothing is known.

    Args:
        tree: Any tree; columns of energy are empty if it carries none.
    """
    columns = {n: v for n, v in _costs(tree).items() if n != "depth"}
    energies = {name: [None] * len(tree) for name in ENERGY_COLUMNS} | _energies(tree)
    if tree.energy is not None:
        energies["source"] = [
            source if joules == joules else None
            for source, joules in zip(
                energies["source"], tree.energy.joules.tolist(), strict=True
            )
        ]
    return csv_of_columns({
        name: _told(values)
        for name, values in (columns | energies | tree.features).items()
    })  # fmt: skip


def tree_frame(tree: ModelTree) -> Any:
    """The table as a pandas DataFrame, not-a-number where nothing is known.

    Args:
        tree: Any tree; columns of energy are there if it carries energy.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    return data_frame(_costs(tree) | _energies(tree) | tree.features)


def _costs(tree: ModelTree) -> dict[str, Any]:
    columns = tree.columns
    signatures = [tree.signatures[i] for i in columns.signature.tolist()]
    return {
        "path": tree.paths,
        "kind": [KINDS[kind] for kind in columns.kind.tolist()],
        "op": np.array(tree.strings, dtype=object)[columns.op],
        "depth": columns.depth,
        "call": tree.calls,
        "count": columns.count,
        "instances": tree.multiplicity,
        "dtype": [signature.dtype for signature in signatures],
        "inputs": [_shapes(signature.inputs) for signature in signatures],
        "outputs": [_shapes(signature.outputs) for signature in signatures],
        "params": columns.params,
        "flops": columns.flops,
        "bytes_read": columns.bytes_read,
        "bytes_written": columns.bytes_written,
    }


def _energies(tree: ModelTree) -> dict[str, Any]:
    energy = tree.energy
    if energy is None:
        return {}
    total_j = energy.joules[0]
    shares = energy.joules * tree.multiplicity / (total_j if total_j > 0 else np.nan)
    sources = [SOURCES[source] for source in energy.source.tolist()]
    values = (energy.joules, energy.low, energy.high, sources, tree.own_j, shares)
    return dict(zip(ENERGY_COLUMNS, values, strict=True))


def _shapes(shapes: Sequence[Shape]) -> str:
    return " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _told(values: Sequence[Any] | Floats) -> list[Any]:
    """Values of a column of a CSV; unknown ones are nothing."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if value != value else value for value in listed]
