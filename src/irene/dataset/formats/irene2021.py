"""The CSV folders of the 2021 IrEne data: one file per level, one row per node.

A node's parent is the module of the same tree whose scope is the longest proper dotted
prefix of its own; the rows of `ml2` (functional primitives) hang below the module that
their scope names; the model row is the root.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from irene.dataset.formats.lines import read_lines
from irene.dataset.formats.values import amount, energy, run_size
from irene.dataset.table import FEATURES, MeasuredNode, NodeTable, TreeKey
from irene.errors import FormatError, UsageError

__all__ = ["FILES", "LevelRow", "assemble", "read_folder"]

FILES = {
    "model": "model_level_features.csv",
    "module": "module_level_features.csv",
    "ml1": "ml1_level_features.csv",
    "ml2": "ml2_level_features.csv",
}
"""File of every level: parametric primitives are `ml1`, functional ones `ml2`."""

NEEDED = ("batch_size", "seq_len", "level_name", "model_name", "energy_mean")
LONGEST_LINE_BYTES = 1 << 20


class LevelRow(NamedTuple):
    """One row of one file.

    Attributes:
        level: A key of `FILES`.
        scope: Dotted path of the module, "" for the model.
        op: Class of the module or primitive.
        energy_j: Measured energy, J.
        features: Values by the names of `FEATURES`.
    """

    level: str
    scope: str
    op: str
    energy_j: float
    features: dict[str, float]

    @property
    def order(self) -> tuple[int, int, str]:
        """What the rows of a tree are sorted by."""
        return list(FILES).index(self.level), self.scope.count("."), self.scope


def read_folder(folder: Path) -> tuple[NodeTable, list[str]]:
    """Read a folder of the four CSV files.

    Args:
        folder: Where the files are.

    Returns:
        The table, and in words what was left out of it.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged; with its name and line.
    """
    trees = _read_files(folder)
    left_out: list[str] = []
    built = []
    for key, rows in trees.items():
        nodes = assemble(rows)
        if nodes is None:
            left_out.append(
                f"{key.model} batch {key.batch_size} length {key.seq_len}: "
                f"no model row, {len(rows)} nodes left out"
            )
            continue
        built.append((key, nodes))
    if not built:
        raise FormatError(f"{folder}: no tree with a model row")
    return NodeTable.from_trees(folder.resolve().name, built), left_out


def _read_files(folder: Path) -> dict[TreeKey, list[LevelRow]]:
    trees: dict[TreeKey, list[LevelRow]] = {}
    for level, name in FILES.items():
        file = folder / name
        if not file.is_file():
            raise UsageError(f"{folder} is not a folder of 2021 data: no {name}")
        seen: set[tuple[TreeKey, str]] = set()
        for line, key, row in _read_file(file, level):
            # A module may call the same functional primitive twice.
            if (key, row.scope) in seen and level != "ml2":
                raise FormatError(
                    f"{file}:{line}: {row.scope or 'the model'} of {key.model} batch "
                    f"{key.batch_size} length {key.seq_len} is there twice"
                )
            seen.add((key, row.scope))
            trees.setdefault(key, []).append(row)
    return trees


def _read_file(file: Path, level: str) -> Iterator[tuple[int, TreeKey, LevelRow]]:
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
) -> tuple[TreeKey, LevelRow]:
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
    row = LevelRow(level, scope, op or model, energy_j, features)
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


def assemble(rows: list[LevelRow]) -> list[MeasuredNode] | None:
    """Nodes of one tree with their parents, the root first.

    Args:
        rows: Rows of one tree from all files.

    Returns:
        The nodes, or None if there is no model row.
    """
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
