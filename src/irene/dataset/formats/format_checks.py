"""What all formats check: lines of text, values of nodes, whole tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from irene.dataset.table import FEATURES, NodeTable
from irene.errors import FormatError, UsageError
from irene.tree import KINDS
from irene.whole_file import trying_to

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

LARGEST_SIZE = 2**31
"""Batch sizes and sequence lengths are below this."""


def read_lines(path: Path, longest_bytes: int) -> Iterator[str]:
    """Every line of a UTF-8 file, none longer than so many bytes."""
    with trying_to("read", path), path.open("rb") as file:
        number = 0
        while line := file.readline(longest_bytes + 1):
            number += 1
            if len(line) > longest_bytes:
                raise FormatError(
                    f"{path}:{number}: the line is longer than "
                    f"{longest_bytes:,} bytes: not data of ours"
                )
            yield _decode(line, number, path)


def _decode(line: bytes, number: int, path: Path) -> str:
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}:{number}: not UTF-8 text: {error}") from error


def amount(value: float, name: str, where: str) -> float:
    """A feature: finite and not negative."""
    if not math.isfinite(value):
        raise FormatError(f"{where}: {name} is not finite: {value}")
    if value < 0:
        raise FormatError(f"{where}: {name} is negative: {value}")
    return value


def energy(value: float, name: str, where: str) -> float:
    """A measured energy, J: finite and positive."""
    if not (math.isfinite(value) and value > 0):
        raise FormatError(f"{where}: {name} must be positive, got {value}")
    return value


def run_size(value: float, name: str, where: str) -> int:
    """A batch size or sequence length: whole and positive."""
    if not (1 <= value < LARGEST_SIZE and value == int(value)):
        raise FormatError(f"{where}: {name} must be whole and positive, got {value}")
    return int(value)


def check_table(table: NodeTable) -> None:
    """Refuse to write a table that is not sound."""
    problem = first_problem(table)
    if problem:
        raise UsageError(f"{table.name}: {problem}")


def first_problem(table: NodeTable) -> str | None:
    """What is wrong with a table, in words, or None if nothing is."""
    parts = (_problems_of_keys, _problems_of_trees, _problems_of_values)
    return next(chain.from_iterable(part(table) for part in parts), None)


def _problems_of_keys(table: NodeTable) -> Iterator[str]:
    seen = set()
    for key in table.keys:
        if not key.model:
            yield "a tree has no model name"
        if not all(1 <= n < LARGEST_SIZE for n in (key.batch_size, key.seq_len)):
            yield f"{key} has an impossible size"
        if key in seen:
            yield f"two trees have the key {tuple(key)}"
        seen.add(key)


def _problems_of_trees(table: NodeTable) -> Iterator[str]:
    """Every tree is in pre-order: a parent is above the row before, or that row."""
    starts, parents = table.starts.tolist(), table.parent.tolist()
    kinds = [KINDS[kind] for kind in table.kind.tolist()]
    for first, stop in pairwise(starts):
        if first == stop:
            yield f"row {first}: a tree without nodes"
            continue
        if parents[first] != -1 or kinds[first] != "model" or table.path[first]:
            yield f"row {first}: a tree does not begin with its model"
        for row in range(first + 1, stop):
            above = row - 1
            while above != parents[row] and above > first:
                above = parents[above]
            if above != parents[row]:
                yield f"row {row}: the parent, row {parents[row]}, is not above it"
                return
            if kinds[row] == "model" or not table.path[row]:
                yield f"row {row}: only the first row of a tree is the model"


def _problems_of_values(table: NodeTable) -> Iterator[str]:
    bad = np.isinf(table.energy_j) | (table.energy_j <= 0)
    if bad.any():
        row = int(np.argmax(bad))
        yield f"row {row}: energy_j must be positive, got {table.energy_j[row]}"
    for name in FEATURES:
        values = table.features[name]
        bad = np.isinf(values) | (values < 0)
        if bad.any():
            row = int(np.argmax(bad))
            yield f"row {row}: {name} must be finite and not negative: {values[row]}"
    for name in ("batch_size", "seq_len"):
        sizes = np.array([getattr(key, name) for key in table.keys])
        if not np.array_equal(table.features[name], sizes[table.tree]):
            yield f"{name} of a node is not that of its tree"
