"""Writes the JSONL files of the 2021 IrEne data, with predictions if there are any."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.dataset.formats.jsonl import LONGEST_LINE_BYTES, read_documents, walk
from irene.dataset.formats.values import first_problem
from irene.dataset.table import FEATURES, NodeTable, TreeKey
from irene.errors import UsageError
from irene.tree import KINDS
from irene.whole_file import whole_file

__all__ = ["copy_with_predictions", "write_jsonl"]

Floats = npt.NDArray[np.float64]

# Identifiers must be unique in a file, and the same each time it is written.
_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "irene.dataset.formats.jsonl")


def write_jsonl(
    table: NodeTable, path: Path, predicted_j: Floats | None = None
) -> None:
    """Write a table.

    Args:
        table: What is written.
        path: The file; one that is there is replaced.
        predicted_j: Predicted energy of every row, J; NaN where there is none.

    Raises:
        UsageError: The table is not sound, does not fit, or cannot be written.
    """
    problem = first_problem(table) or _unfit(table)
    if problem:
        raise UsageError(f"{table.name}: {problem}")
    predicted = _as_rows(predicted_j, len(table))
    _write_lines(path, (_tree(table, k, rows, predicted) for k, rows in table.trees()))


def copy_with_predictions(source: Path, path: Path, predicted_j: Floats) -> None:
    """Copy a JSONL file with the predicted energy of every node filled in.

    All else stays as it is, identifiers too, by which the tools of 2021 find the
    prediction of a node.

    Args:
        source: The file that `read_jsonl` made the table of.
        path: The copy; a file that is there is replaced.
        predicted_j: Predicted energy of every row of that table, J.

    Raises:
        UsageError: There is another number of predictions than of nodes.
        FormatError: The source is damaged.
    """
    documents = list(read_documents(source))
    nodes = [
        node for where, document in documents for *_, node in walk(document, where)
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
    table: NodeTable, key: TreeKey, rows: slice, predicted: list[float] | None
) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for row in range(rows.start, rows.stop):
        node = _node(table, key, row, row - rows.start)
        above = nodes[table.parent[row] - rows.start] if nodes else None
        node["parent_name"] = above["scope"] if above else ""
        node["level"] = above["level"] + 1 if above else 0
        if predicted is not None:
            node["predicted_energy"] = _value(predicted[row])
        node["child_nodes_obj"], node["child_nodes"] = [], []
        if above:
            above["child_nodes_obj"].append(node)
            above["child_nodes"].append(node["scope"])
        nodes.append(node)
    return {
        "model_name": key.model,
        "batch_size": key.batch_size,
        "seq_len": key.seq_len,
        "frontend_tree": nodes[0],
    }


def _node(table: NodeTable, key: TreeKey, row: int, position: int) -> dict[str, Any]:
    path = table.path[row]
    name = json.dumps([*key, position])
    return {
        "id": uuid.uuid5(_IDS, name).hex,
        "scope": f"root.{path}" if path else "root",
        "parent_name": "",
        "level": 0,
        "instance_type": table.op[row],
        "type": KINDS[table.kind[row]],
        **{
            feature: _value(float(table.features[feature][row]))
            for feature in FEATURES
            if feature not in TreeKey._fields
        },
        "ground_truth_energy": _value(float(table.energy_j[row])),
    }


def _value(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _write_lines(path: Path, documents: Iterable[dict[str, Any]]) -> None:
    with whole_file(path) as file:
        for line in _lines(documents):
            if len(line) > LONGEST_LINE_BYTES:
                raise UsageError(f"cannot write {path}: a tree is too large for a line")
            file.write(line)


def _lines(documents: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for document in documents:
        try:
            yield f"{json.dumps(document)}\n".encode()
        except RecursionError:
            raise UsageError(
                f"{document.get('model_name')}: the tree is too deep for JSON; "
                "write parquet"
            ) from None
