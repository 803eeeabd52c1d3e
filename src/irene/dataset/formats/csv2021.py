"""The CSV folders of the 2021 IrEne data: one file per level, one row per node.

A node's parent is the module of the same tree whose scope is the longest proper dotted
prefix of its own; the rows of `ml2` (functional primitives) hang below the module that
their scope names; the model row is the root. The files carry no parents and no order of
siblings: a table whose parents cannot be found that way is refused when it is written.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from irene.dataset.formats.format_checks import (
    amount,
    check_table,
    energy,
    read_lines,
    run_size,
)
from irene.dataset.table import FEATURES, MeasuredNode, NodeTable, TreeKey
from irene.errors import FormatError, UsageError
from irene.tree import KINDS
from irene.whole_file import whole_file

FILES = {
    "model": "model_level_features.csv",
    "module": "module_level_features.csv",
    "ml1": "ml1_level_features.csv",
    "ml2": "ml2_level_features.csv",
}
"""File of every level: parametric primitives are `ml1`, functional ones `ml2`."""

FUNCTIONAL = frozenset({"MatMul", "Softmax"})
"""Primitives without a module of their own in the 2021 data."""

TAIL = ("energy_mean", "level_name", "model_name")
NEEDED = ("batch_size", "seq_len", "level_name", "model_name", "energy_mean")
LONGEST_LINE_BYTES = 1 << 20


class _LevelRow(NamedTuple):
    """One row of the file of a level; its scope is a dotted path, "" for the model."""

    level: str
    scope: str
    op: str
    energy_j: float
    features: Mapping[str, float]

    @property
    def order(self) -> tuple[int, int, str]:
        """What the rows of a tree are sorted by."""
        return list(FILES).index(self.level), self.scope.count("."), self.scope


def read_folder(folder: Path) -> tuple[NodeTable, list[str]]:
    """Read a folder of the four CSV files.

    Returns:
        The table, and in words what was left out of it.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged; with its name and line.
    """
    trees = _read_files(folder)
    filled = {row.level for rows in trees.values() for row in rows}
    left_out = [f"{FILES[each]} has no rows" for each in FILES if each not in filled]
    built = []
    for key, rows in trees.items():
        nodes = _assemble(rows)
        if nodes is None:
            left_out.append(f"{key.words}: no model row, {len(rows)} nodes left out")
            continue
        built.append((key, nodes))
    if not built:
        raise FormatError(f"{folder}: no tree with a model row")
    return NodeTable.from_trees(folder.resolve().name, built), left_out


def _read_files(folder: Path) -> dict[TreeKey, list[_LevelRow]]:
    trees: dict[TreeKey, list[_LevelRow]] = {}
    for level, name in FILES.items():
        file = folder / name
        if not file.is_file():
            hint = ""
            if (folder / "manifest.jsonl").is_file():
                hint = f"; `irene data check {folder}` if it is a store"
            raise UsageError(f"{folder} is not a folder of 2021 data: no {name}{hint}")
        seen: set[tuple[TreeKey, str]] = set()
        for line, key, row in _read_file(file, level):
            # A module may call the same functional primitive twice.
            if (key, row.scope) in seen and level != "ml2":
                raise FormatError(
                    f"{file}:{line}: {row.scope or 'the model'} of {key.words} "
                    "is there twice"
                )
            seen.add((key, row.scope))
            trees.setdefault(key, []).append(row)
    return trees


def _read_file(file: Path, level: str) -> Iterator[tuple[int, TreeKey, _LevelRow]]:
    reader = csv.reader(read_lines(file, LONGEST_LINE_BYTES), strict=True)
    try:
        columns = next(reader, [])
        _check_columns(columns, file)
        for cells in reader:
            if not cells:
                continue
            where = f"{file}:{reader.line_num}"
            if len(cells) != len(columns):
                raise FormatError(
                    f"{where}: {len(cells)} columns, line 1 has {len(columns)}"
                )
            values = dict(zip(columns, cells, strict=True))
            yield reader.line_num, *_read_row(values, level, where)
    except csv.Error as error:
        raise FormatError(f"{file}:{reader.line_num}: not CSV: {error}") from error


def _check_columns(columns: list[str], file: Path) -> None:
    if not columns:
        raise FormatError(f"{file}:1: the file is empty")
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise FormatError(f"{file}:1: no column {', '.join(missing)}")
    if len(set(columns)) < len(columns):
        raise FormatError(f"{file}:1: two columns have the same name")


def _read_row(
    values: dict[str, str], level: str, where: str
) -> tuple[TreeKey, _LevelRow]:
    features = {
        name: amount(_number(values[name], name, where), name, where)
        for name in FEATURES
        if values.get(name, "") != ""
    }
    energy_j = energy(
        _number(values["energy_mean"], "energy_mean", where), "energy_mean", where
    )
    model = values["model_name"]
    if not model:
        raise FormatError(f"{where}: model_name is empty")
    batch_size, seq_len = (
        run_size(features.get(name, math.nan), name, where)
        for name in ("batch_size", "seq_len")
    )
    scope, op = _scope_and_op(values["level_name"], level, where)
    row = _LevelRow(level, scope, op or model, energy_j, features)
    return TreeKey(model, batch_size, seq_len), row


def _scope_and_op(name: str, level: str, where: str) -> tuple[str, str]:
    if level == "model":
        return "", name
    scope, _, op = name.partition(":")
    if not op or not (scope or level == "ml2"):
        raise FormatError(f"{where}: level_name {name!r} is not scope:Class")
    return scope, op


def _number(text: str, name: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FormatError(f"{where}: {name} is not a number: {text!r}") from None


def _assemble(rows: list[_LevelRow]) -> list[MeasuredNode] | None:
    """Nodes of one tree with their parents, the root first; None without a model."""
    rows = sorted(rows, key=lambda row: row.order)
    if rows[0].level != "model":
        return None
    modules: dict[str, int] = {"": 0}
    nodes: list[MeasuredNode] = []
    for level, scope, op, energy_j, features in rows:
        parent = -1 if level == "model" else modules[_above(level, scope, modules)]
        if level == "module":
            modules[scope] = len(nodes)
        kind = level if level in ("model", "module") else "ml"
        path = scope
        if level == "ml2":
            path = f"{scope}.{op}" if scope else op
        nodes.append(MeasuredNode(path, kind, op, energy_j, features, parent))
    return nodes


def _above(level: str, scope: str, modules: dict[str, int]) -> str:
    """The module of a row: longest dotted prefix of its scope that is a module.

    It is a proper prefix, but for `ml2`, which names the module that calls it.
    """
    if level == "ml2" and scope in modules:
        return scope
    while scope:
        scope = scope.rpartition(".")[0]
        if scope in modules:
            return scope
    return ""


def write_folder(table: NodeTable, folder: Path) -> None:
    """Write the four CSV files; those that are there are replaced.

    Raises:
        UsageError: The table does not fit into this format, or cannot be written.
    """
    check_table(table)
    if np.isnan(table.energy_j).any():
        raise UsageError(
            f"{table.name}: {int(np.isnan(table.energy_j).sum())} nodes have no "
            "energy, which the CSV files of 2021 cannot say; write jsonl or parquet"
        )
    texts = _texts(table)
    with ExitStack() as files:
        for level, name in FILES.items():
            file = files.enter_context(whole_file(folder / name))
            file.write(texts[level].getvalue().encode("utf-8"))


def _texts(table: NodeTable) -> Mapping[str, io.StringIO]:
    names = list(FEATURES)
    if np.isnan(table.features["num_parameters"]).all():
        names.remove("num_parameters")  # not in the files of 2021
    texts = {level: io.StringIO() for level in FILES}
    writers = {
        level: csv.writer(text, lineterminator="\n") for level, text in texts.items()
    }
    for writer in writers.values():
        writer.writerow([*names, *TAIL])
    for key, rows in table.trees():
        for row in _levels(table, key, rows):
            values = [row.features.get(name, math.nan) for name in names]
            cells = ["" if math.isnan(value) else repr(value) for value in values]
            name = row.op if row.level == "model" else f"{row.scope}:{row.op}"
            writers[row.level].writerow([*cells, repr(row.energy_j), name, key.model])
    return texts


def _levels(table: NodeTable, key: TreeKey, rows: slice) -> list[_LevelRow]:
    """The rows of one tree, each with the file it belongs to."""
    functional = set(_functional(table, rows))
    nodes = table.nodes(rows)
    found = []
    for row, node in enumerate(nodes, start=rows.start):
        level, scope = node.kind, node.path
        if level not in ("model", "module"):
            level = "ml2" if row in functional else "ml1"
        if level == "ml2":
            scope = scope.rpartition(".")[0]
        found.append(_LevelRow(level, scope, node.op, node.energy_j, node.features))
    _check(key, nodes, found)
    return found


def _functional(table: NodeTable, rows: slice) -> Iterator[int]:
    """Rows for the file of functional primitives.

    A table does not say which file a primitive came from. It is functional if it is
    called as its path ends and stands where only such a one is sorted to, or if it is
    one of `FUNCTIONAL`.
    """
    siblings: dict[int, list[int]] = {}
    for row in range(rows.start, rows.stop):
        if KINDS[table.kind[row]] not in ("model", "module"):
            siblings.setdefault(int(table.parent[row]), []).append(row)
    for group in siblings.values():
        yield from group[_first_functional(table, group) :]


def _first_functional(table: NodeTable, group: Sequence[int]) -> int:
    paths = [table.path[row] for row in group]
    ops = [table.op[row] for row in group]
    places = [(path.count("."), path) for path in paths]
    needed = _end_of_order(places)
    ends = [p.rpartition(".")[2] == op for p, op in zip(paths, ops, strict=True)]
    able = len(group) - next(
        (i for i, end in enumerate(reversed(ends)) if not end), len(group)
    )
    wanted = next(
        (i for i in range(able, len(group)) if ops[i] in FUNCTIONAL), len(group)
    )
    return max(able, min(needed, wanted))


def _end_of_order(places: Sequence[tuple[int, str]]) -> int:
    """Where a sequence stops to be sorted and without repetition."""
    for i, (before, after) in enumerate(pairwise(places)):
        if after <= before:
            return i + (after < before)
    return len(places)


def _check(key: TreeKey, nodes: list[MeasuredNode], levels: list[_LevelRow]) -> None:
    """Refuse a tree that would be read back with other nodes or parents."""
    scopes = [(r.level, r.scope) for r in levels if r.level != "ml2"]
    colons = any(":" in row.scope or not row.op for row in levels)
    read = _places(_assemble(levels) or [])
    if read != _places(nodes) or colons or len(set(scopes)) < len(scopes):
        raise UsageError(
            f"{key.words}: paths and parents that the CSV files of 2021 cannot say; "
            "write jsonl or parquet"
        )


def _places(nodes: list[MeasuredNode]) -> list[tuple[str, str, str, str]]:
    return sorted(
        (node.path, node.kind, node.op, nodes[node.parent].path if node.path else "")
        for node in nodes
    )
