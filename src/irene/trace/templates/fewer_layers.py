"""A model with fewer of its equal layers, and the tree that it has with all of them.

What is traced for one layer holds for all layers that are built alike. A list of layers
keeps its first ones, up to the first of every kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from irene.errors import TraceError
from irene.trace.naming import ModuleNames
from irene.trace.templates.piece import COSTS
from irene.tree import ModelTree

FEWEST = 3
"""Layers from which on a list is cut."""
NUMBERED = re.compile("layer|idx|index")
PLAIN = (bool, int, float, str, tuple, type(None))


@dataclass(frozen=True, slots=True)
class _List:
    """A list of layers that was cut.

    Attributes:
        path: Its dotted path.
        kept: How many of its first layers are left.
        stands_in: For each of its layers, the one that is traced in its place.
    """

    path: str
    kept: int
    stands_in: tuple[int, ...]


class FewerLayers:
    """Takes equal layers out of a model, which is changed.

    Args:
        model: The model.
        keep_last: Whether the last layer is a kind of its own, as going backward.
    """

    def __init__(self, model: nn.Module, keep_last: bool) -> None:
        names = ModuleNames(model)
        self._params: dict[str, int] = {}
        self._lists: dict[str, _List] = {}
        config: Any = model.config
        per_layer = list(_lists_in(config.to_dict()))
        cut: list[tuple[Any, _List]] = []
        for path, module in model.named_modules():
            if isinstance(module, nn.ModuleList) and len(module) >= FEWEST:
                found = _cut(path, module, per_layer, keep_last)
                if found is not None:
                    self._lists[path] = found
                    cut.append((module, found))
        for path, module in model.named_modules():
            prefix = f"{path}." if path else ""
            if any(each.startswith(prefix) for each in self._lists):
                self._params[path] = names.params(module)
        for layers, each in cut:
            layers._modules = dict(list(layers._modules.items())[: each.kept])

    def __bool__(self) -> bool:
        """Whether anything was taken out."""
        return bool(self._lists)

    def whole_traced(self, tree: ModelTree) -> ModelTree:
        """The tree of the model with all its layers, from one that was traced."""
        own = {n: tree.columns.own(getattr(tree.columns, n)) for n in COSTS}
        whole = self.whole(tree._derive(replace(tree.columns, **own)))
        columns = whole.columns
        costs = columns.inclusive(np.stack([getattr(columns, n) for n in COSTS], 1))
        named = dict(zip(COSTS, costs.T, strict=True))
        return whole._derive(replace(columns, **named))

    def whole(self, tree: ModelTree) -> ModelTree:
        """The tree of the model with all its layers, from that with fewer.

        Args:
            tree: Unfolded; columns of costs are of each node alone.

        Raises:
            TraceError: The layers do not run one after the other.
        """
        strings = {text: number for number, text in enumerate(tree.strings)}
        rows: list[int] = []
        names: list[int] = []
        stack = [(0, int(tree.columns.name[0]))]
        while stack:
            row, name = stack.pop()
            rows.append(row)
            names.append(name)
            stack += reversed(self._below(tree, row, strings))
        columns = tree.columns.select(
            np.array(rows, dtype=np.int64), name=np.array(names, dtype=np.int64)
        )
        params = [
            self._params.get(tree.paths[row], int(tree.columns.params[row]))
            for row in rows
        ]
        columns = replace(columns, params=np.array(params, dtype=np.int64))
        return tree._derive(
            columns,
            strings=tuple(strings),
            unsupported=_counted_again(tree, rows),
        )

    def _below(
        self, tree: ModelTree, row: int, strings: dict[str, int]
    ) -> list[tuple[int, int]]:
        """Row and name of every child, layers that were taken out among them."""
        children = tree.children_of(row)
        below: list[tuple[int, int]] = []
        place = 0
        while place < len(children):
            child = children[place]
            path, _, number = tree.paths[child].rpartition(".")
            layers = self._lists.get(path)
            name = int(tree.columns.name[child])
            if layers is None:
                below.append((child, name))
                place += 1
                continue
            here = children[place : place + layers.kept]
            wanted = [f"{path}.{i}" for i in range(layers.kept)]
            if [tree.paths[r] for r in here] != wanted:
                raise TraceError(f"layers of {path} do not run in a row", path)
            head = tree.strings[name].removesuffix(number)
            for i, origin in enumerate(layers.stands_in):
                text = f"{head}{i}"
                below.append((here[origin], strings.setdefault(text, len(strings))))
            place += layers.kept
        return below


def _counted_again(tree: ModelTree, rows: list[int]) -> dict[str, int]:
    """How often ops without a formula run in the whole tree."""
    ops = tree.columns.op
    counts = {}
    for op, count in tree.unsupported.items():
        number = tree.strings.index(op)
        if int((ops == number).sum()) != count:
            raise TraceError(f"{op} runs where no node shows it", "")
        counts[op] = int((ops[rows] == number).sum())
    return counts


def _cut(
    path: str, layers: nn.ModuleList, per_layer: list[Any], keep_last: bool
) -> _List | None:
    kinds = [_kind(layer, i, len(layers), per_layer) for i, layer in enumerate(layers)]
    first: dict[str, int] = {}
    for i, kind in enumerate(kinds):
        first.setdefault(kind, i)
    kept = max(first.values()) + 1
    if keep_last:
        alike = (i for i in range(kept, len(kinds)) if kinds[i] == kinds[-1])
        kept = next(alike, len(kinds)) + 1
    if kept >= len(kinds):
        return None
    stands_in = [first[kind] for kind in kinds]
    if keep_last:
        stands_in[-1] = kept - 1
    return _List(path, kept, tuple(stands_in))


def _kind(layer: nn.Module, index: int, count: int, per_layer: list[Any]) -> str:
    """Everything that decides what a layer runs, but for its number."""
    parts: list[Any] = [values[index] for values in per_layer if len(values) == count]
    for name, module in layer.named_modules():
        plain = {
            key: "#" if type(value) is int and NUMBERED.search(key) else value
            for key, value in vars(module).items()
            if isinstance(value, PLAIN) and not key.startswith("_")
        }
        shapes = [
            (key, tuple(each.shape), str(each.dtype))
            for owned in (module._parameters, module._buffers)
            for key, each in owned.items()
            if each is not None
        ]
        parts.append((name, type(module).__name__, sorted(plain.items()), shapes))
    return repr(parts)


def _lists_in(values: Any) -> Iterator[Any]:
    if isinstance(values, Mapping):
        for value in values.values():
            yield from _lists_in(value)
    elif isinstance(values, list | tuple):
        yield values
        for value in values:
            yield from _lists_in(value)
