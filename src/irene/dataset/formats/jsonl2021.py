"""The JSONL files of the 2021 IrEne data: one tree of nested nodes per line.

The originals are irregular: a feature, a type or a class may be missing, functional
primitives are typed `ml-np`, and a node may name children that are not in the file.
All of that is read; what is damaged is refused with file and line. Predictions are
written where there are any.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats
from irene.dataset.formats.format_checks import (
    amount,
    check_table,
    energy,
    read_lines,
    run_size,
)
from irene.dataset.table import NODE_FEATURES, MeasuredNode, NodeTable, TreeKey
from irene.errors import FormatError, UsageError
from irene.tree import KINDS
from irene.whole_file import whole_file

LONGEST_LINE_BYTES = 1 << 28
"""A tree of 200 nodes takes about 120 kB."""

KIND_OF_TYPE = {"model": "model", "module": "module", "ml": "ml", "ml-np": "ml"}
RUN_FEATURES = TreeKey._fields[1:]

# Identifiers must be unique in a file, and the same each time it is written.
_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "irene.dataset.jsonl")

Json = Mapping[str, Any]


def read_jsonl(path: Path) -> tuple[NodeTable, list[str]]:
    """Read a JSONL file.

    Returns:
        The table, named as the file, and in words what was left out of it.

    Raises:
        UsageError: The file cannot be read.
        FormatError: The file is damaged; with its name and line.
    """
    trees: dict[TreeKey, list[MeasuredNode]] = {}
    left_out: list[str] = []
    for where, document in _read_documents(path):
        key = _key(document, where)
        if key in trees:
            raise FormatError(f"{where}: {key.words} is there twice")
        trees[key], absent = _read_tree(document, key, where)
        if absent:
            left_out.append(
                f"{key.words}: {absent} children are named but not in the file"
            )
    if not trees:
        raise FormatError(f"{path}: no tree in the file")
    return NodeTable.from_trees(path.resolve().stem, trees.items()), left_out


def _read_documents(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every line of a file as JSON, with its place for messages."""
    for number, line in enumerate(read_lines(path, LONGEST_LINE_BYTES), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(
                f"{where}: not JSON, or cut off: {str(error)[:200]}"
            ) from error
        if not isinstance(document, dict):
            raise FormatError(f"{where}: not a JSON object")
        yield where, document


def _walk(document: Json, where: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Every node of a tree in pre-order: its position, that of its parent, the node."""
    stack = [(-1, document.get("frontend_tree"))]
    position = 0
    while stack:
        parent, node = stack.pop()
        if not isinstance(node, dict):
            raise FormatError(f"{where}: frontend_tree holds what is not a node")
        yield position, parent, node
        children = _list(node, "child_nodes_obj", where)
        stack.extend((position, child) for child in reversed(children))
        position += 1


def _key(document: Json, where: str) -> TreeKey:
    missing = [
        name
        for name in ("model_name", *RUN_FEATURES, "frontend_tree")
        if name not in document
    ]
    if missing:
        raise FormatError(f"{where}: no {', '.join(missing)}")
    sizes = [
        run_size(_number(document, name, where), name, where) for name in RUN_FEATURES
    ]
    model = _text(document, "model_name", where)
    if not model:
        raise FormatError(f"{where}: model_name is empty")
    return TreeKey(model, *sizes)


def _read_tree(
    document: Json, key: TreeKey, where: str
) -> tuple[list[MeasuredNode], int]:
    """Nodes of one line, and how many children are named but absent."""
    nodes: list[MeasuredNode] = []
    named_parents: list[str] = []
    absent = 0
    for position, parent, found in _walk(document, where):
        inside = f"{where}: node {position + 1}"
        nodes.append(_read_node(found, parent, key, inside))
        named_parents.append(_text(found, "parent_name", inside))
        named = _list(found, "child_nodes", inside)
        absent += max(0, len(named) - len(_list(found, "child_nodes_obj", inside)))
    _check_parents(nodes, named_parents, where)
    return nodes, absent


def _check_parents(
    nodes: list[MeasuredNode], named_parents: list[str], where: str
) -> None:
    """A parent that is named must be a node of the tree."""
    paths = {node.path for node in nodes}
    for node, name in zip(nodes, named_parents, strict=True):
        if node.parent < 0 or not name:
            continue
        if _path(name, nodes[node.parent].op) not in paths:
            raise FormatError(
                f"{where}: the parent of {node.path}, {name!r}, is missing"
            )


def _read_node(node: Json, parent: int, key: TreeKey, where: str) -> MeasuredNode:
    scope = _text(node, "scope", where)
    op = _text(node, "instance_type", where)
    path = "" if parent < 0 else _path(scope, op)
    if parent >= 0 and not path:
        raise FormatError(f"{where}: no scope below the root: {scope!r}")
    if not op:
        op = scope.partition(":")[2] or path.rpartition(".")[2] or key.model
    energy_j = _number(node, "ground_truth_energy", where)
    if not math.isnan(energy_j):
        energy(energy_j, "ground_truth_energy", where)
    features = {name: float(getattr(key, name)) for name in RUN_FEATURES}
    for name in NODE_FEATURES:
        value = _number(node, name, where)
        features[name] = value if math.isnan(value) else amount(value, name, where)
    kind = _kind(node, parent, where)
    return MeasuredNode(path, kind, op, energy_j, features, parent)


def _kind(node: Json, parent: int, where: str) -> str:
    usual = "module" if node.get("child_nodes_obj") else "ml"
    named = _text(node, "type", where) or ("model" if parent < 0 else usual)
    kind = KIND_OF_TYPE.get(named)
    if kind is None or (kind == "model") != (parent < 0):
        raise FormatError(f"{where}: the type cannot be {named!r} here")
    return kind


def _path(scope: str, op: str) -> str:
    """Path of a scope such as `root.encoder.layer.0` or `root.pooler:BertPooler`."""
    path, _, named = scope.partition(":")
    if named and op not in ("", named):
        path = scope
    return "" if path == "root" else path.removeprefix("root.")


def _text(node: Json, name: str, where: str) -> str:
    value = node.get(name)
    if value is None:
        return ""
    try:
        if isinstance(value, str) and value.encode("utf-8") is not None:
            return value
    except UnicodeEncodeError:
        pass
    raise FormatError(f"{where}: {name} is not text: {str(value)[:80]!r}")


def _number(node: Json, name: str, where: str) -> float:
    """A number, NaN where there is none."""
    value = node.get(name)
    if value is None:
        return math.nan
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    except OverflowError:
        pass
    raise FormatError(f"{where}: {name} is not a number: {str(value)[:80]!r}")


def _list(node: Json, name: str, where: str) -> list[Any]:
    value = node.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{where}: {name} is not a list")
    return value


def write_jsonl(
    table: NodeTable, path: Path, predicted_j: Floats | None = None
) -> None:
    """Write a table, with predicted energies, J, where there are any.

    Raises:
        UsageError: The table is not sound, does not fit, or cannot be written.
    """
    check_table(table)
    problem = _unfit(table)
    if problem:
        raise UsageError(f"{table.name}: {problem}")
    predicted = _as_rows(predicted_j, len(table))
    _write_lines(
        path,
        (
            _tree(key, table.nodes(rows), predicted and predicted[rows])
            for key, rows in table.trees()
        ),
    )


def copy_with_predictions(source: Path, path: Path, predicted_j: Floats) -> None:
    """Copy a JSONL file with the predicted energy of every node filled in.

    All else stays as it is, identifiers too, by which the tools of 2021 find the
    prediction of a node.

    Raises:
        UsageError: There is another number of predictions than of nodes.
        FormatError: The source is damaged.
    """
    documents = list(_read_documents(source))
    nodes = [
        node for where, document in documents for *_, node in _walk(document, where)
    ]
    predicted = _as_rows(predicted_j, len(nodes))
    assert predicted is not None
    for node, energy_j in zip(nodes, predicted, strict=True):
        node["predicted_energy"] = _value(energy_j)
    _write_lines(path, (document for _, document in documents))


def _unfit(table: NodeTable) -> str | None:
    """A path that would be read back as another one."""
    for path, op in zip(table.path, table.op, strict=True):
        if path.partition(":")[2] == op and ":" in path:
            return f"the path {path!r} cannot be told from one with a class"
        if path and not op:
            return f"{path} has no class"
    if any(KINDS[kind] == "math" for kind in table.kind):
        return "math operations have no type in the files of 2021; write parquet"
    return None


def _as_rows(predicted_j: Floats | None, count: int) -> list[float] | None:
    if predicted_j is None:
        return None
    if np.shape(predicted_j) != (count,):
        raise UsageError(
            f"predictions have the shape {np.shape(predicted_j)}, "
            f"there are {count} nodes"
        )
    return [float(value) for value in predicted_j]


def _tree(
    key: TreeKey, nodes: list[MeasuredNode], predicted: list[float] | None
) -> dict[str, Any]:
    written: list[dict[str, Any]] = []
    for place, node in enumerate(nodes):
        above = written[node.parent] if place else None
        one = {
            "id": uuid.uuid5(_IDS, json.dumps([*key, place])).hex,
            "scope": f"root.{node.path}" if node.path else "root",
            "parent_name": above["scope"] if above else "",
            "level": above["level"] + 1 if above else 0,
            "instance_type": node.op,
            "type": node.kind,
            **{name: _value(node.features[name]) for name in NODE_FEATURES},
            "ground_truth_energy": _value(node.energy_j),
        }
        if predicted is not None:
            one["predicted_energy"] = _value(predicted[place])
        one["child_nodes_obj"], one["child_nodes"] = [], []
        if above:
            above["child_nodes_obj"].append(one)
            above["child_nodes"].append(one["scope"])
        written.append(one)
    sizes = {name: getattr(key, name) for name in RUN_FEATURES}
    return {"model_name": key.model, **sizes, "frontend_tree": written[0]}


def _value(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _write_lines(path: Path, documents: Iterable[dict[str, Any]]) -> None:
    with whole_file(path) as file:
        for document in documents:
            try:
                line = f"{json.dumps(document)}\n".encode()
            except RecursionError:
                raise UsageError(
                    f"{document.get('model_name')}: the tree is too deep for JSON; "
                    "write parquet"
                ) from None
            if len(line) > LONGEST_LINE_BYTES:
                raise UsageError(f"cannot write {path}: a tree is too large for a line")
            file.write(line)
