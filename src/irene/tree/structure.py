"""Structure: what follows from the rows of a tree and their names alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from irene.arrays import Ints
from irene.tree.columns import Columns


class Structure:
    """Found once for all trees of the same rows and names, whatever their sizes.

    Args:
        columns: Of one of them.
        strings: Names that the columns index.

    Attributes:
        folds: How trees of this structure were folded; see `folding`.
    """

    def __init__(self, columns: Columns, strings: Sequence[str]) -> None:
        self._columns, self._strings = columns, strings
        self.folds: dict[tuple[Any, ...], Any] = {}

    @cached_property
    def parents(self) -> Ints:
        """Row of every row's parent; -1 for the root."""
        return self._columns.parents()

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
