"""Structure: what follows from the rows of a tree and their names alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from irene.arrays import Ints
from irene.tree.columns import Columns, Level

T = TypeVar("T")
MOST_FOUND = 64
"""Of one structure, that is remembered."""
compact = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
"""Values as JSON without spaces."""


class Structure:
    """Found once for all trees of the same rows and names, whatever their sizes."""

    def __init__(self, columns: Columns, strings: Sequence[str]) -> None:
        self._columns, self._strings = columns, strings
        self._found: dict[tuple[Any, ...], Any] = {}

    def once(self, key: tuple[Any, ...], find: Callable[[], T]) -> T:
        """What is found once for all trees that have a key in common."""
        if key not in self._found:
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            self._found[key] = find()
        found: T = self._found[key]
        return found

    @cached_property
    def parents(self) -> Ints:
        """Row of every row's parent; -1 for the root."""
        return self._columns.parents()

    @cached_property
    def levels(self) -> list[Level]:
        """Rows by depth, for `Columns.inclusive`."""
        return self._columns.levels(self.parents)

    @cached_property
    def ends(self) -> Ints:
        """Row after the last descendant of every row."""
        return self._columns.ends()

    @cached_property
    def multiplicity(self) -> Ints:
        """How many times each row occurs in the unfolded tree."""
        return self._columns.multiplicity()

    @cached_property
    def paths(self) -> list[str]:
        """Dotted path of every row."""
        paths: list[str] = []
        parents = self.parents.tolist()
        for row, name in enumerate(self._columns.name.tolist()):
            text = self._strings[name]
            if text.startswith("/"):
                paths.append(text[1:])
                continue
            above = paths[parents[row]] if row else ""
            paths.append(f"{above}.{text}" if above else text)
        return paths

    @cached_property
    def calls(self) -> list[int]:
        """Which call of its path every row is, from 1."""
        seen: dict[str, int] = {}
        calls = []
        for path, times in zip(self.paths, self.multiplicity.tolist(), strict=True):
            calls.append(seen.get(path, 0) + 1)
            seen[path] = seen.get(path, 0) + times
        return calls

    @cached_property
    def rows_by_path(self) -> dict[str, list[int]]:
        """All rows of every path."""
        rows: dict[str, list[int]] = {}
        for row, path in enumerate(self.paths):
            rows.setdefault(path, []).append(row)
        return rows

    # As a document ------------------------------------------------------------

    @cached_property
    def order(self) -> list[int]:
        """Where in a document every row begins and ends: ends follow all beginnings."""
        depths, count = self._columns.depth.tolist(), len(self._columns)
        order: list[int] = []
        opened: list[int] = []
        for row, depth in enumerate(depths):
            while len(opened) > depth:
                order.append(count + opened.pop())
            order.append(row)
            opened.append(row)
        return [*order, *(count + row for row in reversed(opened))]
