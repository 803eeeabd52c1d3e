"""Writes the CSV folders of the 2021 IrEne data.

The files carry no parents and no order of siblings: reading them finds both from the
scopes. A table whose parents cannot be found that way is refused.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np

from irene.dataset.formats.irene2021 import FILES, LevelRow, assemble
from irene.dataset.formats.values import first_problem
from irene.dataset.table import FEATURES, NodeTable, TreeKey
from irene.errors import UsageError
from irene.tree import KINDS
from irene.whole_file import whole_file

__all__ = ["FUNCTIONAL", "write_folder"]

FUNCTIONAL = frozenset({"MatMul", "Softmax"})
"""Primitives without a module of their own in the 2021 data."""

TAIL = ("energy_mean", "level_name", "model_name")


def write_folder(table: NodeTable, folder: Path) -> None:
    """Write the four CSV files.

    Args:
        table: What is written.
        folder: Made if need be; files of these names in it are replaced.

    Raises:
        UsageError: The table does not fit into this format, or cannot be written.
    """
    problem = first_problem(table)
    if problem:
        raise UsageError(f"{table.name}: {problem}")
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
    known = [name for name in FEATURES if not np.isnan(table.features[name]).all()]
    optional = ("num_parameters",)  # not in the files of 2021
    names = [name for name in FEATURES if name not in optional or name in known]
    texts = {level: io.StringIO() for level in FILES}
    writers = {
        level: csv.writer(text, lineterminator="\n") for level, text in texts.items()
    }
    for writer in writers.values():
        writer.writerow([*names, *TAIL])
    for key, rows in table.trees():
        levels = _levels(table, key, rows)
        for row in levels:
            cells = [_cell(row.features.get(name, math.nan)) for name in names]
            writers[row.level].writerow(
                [*cells, repr(row.energy_j), _level_name(row), key.model]
            )
    return texts


def _cell(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _level_name(row: LevelRow) -> str:
    return row.op if row.level == "model" else f"{row.scope}:{row.op}"


def _levels(table: NodeTable, key: TreeKey, rows: slice) -> list[LevelRow]:
    """The rows of one tree, each with the file it belongs to."""
    functional = set(_functional(table, rows))
    found = []
    for row in range(rows.start, rows.stop):
        path, op, level = table.path[row], table.op[row], KINDS[table.kind[row]]
        if level not in ("model", "module"):
            level = "ml2" if row in functional else "ml1"
        scope = path.rpartition(".")[0] if level == "ml2" else path
        features = {name: float(table.features[name][row]) for name in FEATURES}
        energy_j = float(table.energy_j[row])
        found.append(LevelRow(level, scope, op, energy_j, features))
    _check(table, key, rows, found)
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


def _check(table: NodeTable, key: TreeKey, rows: slice, levels: list[LevelRow]) -> None:
    """Refuse a tree that would be read back with other nodes or parents."""
    nodes = assemble(levels) or []
    read = sorted(
        (node.path, node.kind, node.op, nodes[node.parent].path if node.path else "")
        for node in nodes
    )
    ours = sorted(
        (
            table.path[row],
            KINDS[table.kind[row]],
            table.op[row],
            table.path[table.parent[row]] if table.path[row] else "",
        )
        for row in range(rows.start, rows.stop)
    )
    scopes = [(r.level, r.scope) for r in levels if r.level != "ml2"]
    colons = any(":" in row.scope or not row.op for row in levels)
    if read != ours or colons or len(set(scopes)) < len(scopes):
        raise UsageError(
            f"{key.model} batch {key.batch_size} length {key.seq_len}: paths and "
            "parents that the CSV files of 2021 cannot say; write jsonl or parquet"
        )
