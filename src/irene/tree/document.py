"""The JSON document of a tree, `irene.tree/1`: lossless, versioned, out and in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from irene.energy import SharedError
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tree.builder import TreeBuilder
from irene.tree.columns import KINDS, SOURCES, EnergyColumns, Signature
from irene.tree.features import from_rows, of_row
from irene.tree.generation import generation_of
from irene.tree.model_tree import ModelTree

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
    shapes = [
        ([*map(list, s.inputs)], [*map(list, s.outputs)]) for s in tree.signatures
    ]
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
        known = of_row(tree.features, row)
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
    total = energy.joules[0]
    own = tree.own_j
    assert own is not None
    for row, node in enumerate(nodes):
        joules = float(energy.joules[row])
        if np.isnan(joules):
            continue
        node["energy_j"] = joules
        node["low_j"] = float(energy.low[row])
        node["high_j"] = float(energy.high[row])
        node["source"] = SOURCES[energy.source[row]]
        node["own_j"] = None if np.isnan(own[row]) else float(own[row])
        node["share"] = (
            float(joules * tree.multiplicity[row] / total) if total else None
        )


def load(path: str | Path) -> ModelTree:
    """Read a saved tree.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a tree, is corrupt, or of a newer version.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
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
            _relative(node["path"], above, parent),
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
    ).with_features(from_rows(features))
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
            tuple(map(SharedError.from_dict, document.get("errors", ()))),
        ),
        tree.hardware,
    )


def _own_costs(node: Mapping[str, Any]) -> dict[str, int]:
    """Costs that the children do not carry, as the builder wants them."""
    own = {name: node[name] for name in COSTS}
    for name in COSTS[1:]:
        own[name] -= sum(child[name] * child["count"] for child in node["children"])
    return own


def _relative(path: str, above: str, parent: int) -> str:
    if parent < 0:
        return path
    if not above:
        return path
    if path.startswith(f"{above}."):
        return path[len(above) + 1 :]
    return f"/{path}"


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
