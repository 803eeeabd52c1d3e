"""Polynomials through traced trees: exact, in whole numbers, or none at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from irene.arrays import Ints
from irene.errors import IreneError
from irene.trace.templates.fewer_layers import FewerLayers
from irene.trace.templates.piece import COSTS, DEGREE, Basis, Piece, Polynomial, Sizes
from irene.tree import ModelTree, Signature

GROUPED = ("aten._grouped_mm", "transformers.grouped_mm_fallback")
TRANSFORMS = ("aten._fft_r2c", "aten._fft_c2r", "aten._fft_c2c")
SQUARE = 0
FIRST = (5, 11, 23)
"""Lengths above the shortest of a range at which polynomials are fitted."""

Box = dict[str, tuple[int, int]]


class NoTemplateError(IreneError):
    """The tree of a model is not a function of its sizes that we could find."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A traced tree: what must be equal at all sizes, and the numbers that may vary."""

    structure: tuple[Any, ...]
    numbers: Ints
    tree: ModelTree

    def is_as(self, other: Seen) -> bool:
        """Whether all of it is the same in another."""
        same = self.structure == other.structure
        return same and bool((self.numbers == other.numbers).all())


class Fit:
    """Polynomials through traced points."""

    def __init__(
        self, where: Box, basis: Basis, points: list[dict[str, int]], seen: list[Seen]
    ) -> None:
        self.where, self.basis, self.points, self.seen = where, basis, points, seen
        if any(each.structure != seen[0].structure for each in seen):
            raise NoTemplateError("its structure changes from size to size")
        self._solve = _solver([basis.at(point) for point in points])

    def _columns(self) -> tuple[Ints, Ints]:
        """Distinct numbers over all points, and which of them stands where."""
        numbers = np.stack([each.numbers for each in self.seen])
        distinct, places = np.unique(numbers, axis=1, return_inverse=True)
        return distinct, places.reshape(-1)

    def solve(self) -> None:
        """Find the polynomials.

        Raises:
            NoTemplateError: There are none with whole coefficients.
        """
        distinct, self.places = self._columns()
        found = self._solve(distinct.astype(object))
        if found is None:
            raise NoTemplateError("its costs are no polynomials of its sizes")
        self.polynomials = found.T.astype(np.int64)

    def agrees(self, seen: Seen, sizes: Sizes) -> bool:
        """Whether a traced tree is what the polynomials say."""
        if seen.structure != self.seen[0].structure:
            return False
        at = np.array(self.basis.at(sizes), dtype=object)
        found = self.polynomials.astype(object) @ at
        return bool((found[self.places] == seen.numbers).all())

    def hits(self) -> tuple[tuple[Polynomial, Any], ...]:
        """What grouped products, Fourier transforms and pairs add to the basis."""
        tree = self.seen[0].tree
        names = [tree.strings[op] for op in tree.columns.op.tolist()]
        found: dict[tuple[Polynomial, Any], None] = {}
        batches = [point["b"] for point in self.points]
        if len(set(batches)) > 1 and self._pairs(batches):
            found[self._polynomial(batches), SQUARE] = None
        for row, name in enumerate(names):
            if name in GROUPED or name in TRANSFORMS:
                signatures = [
                    s.tree.signatures[int(s.tree.columns.signature[row])]
                    for s in self.seen
                ]
                of = _transform if name in TRANSFORMS else _grouped
                found |= dict.fromkeys(of(signatures, self._polynomial))
        return tuple(sorted(found, key=repr))

    def _pairs(self, batches: Sequence[int]) -> bool:
        """Whether a result has every input of a batch with every other."""
        for row in range(len(self.seen[0].tree)):
            signatures = (
                each.tree.signatures[int(each.tree.columns.signature[row])]
                for each in self.seen
            )
            if all(
                any(shape.count(batch) > 1 for shape in signature.outputs)
                for signature, batch in zip(signatures, batches, strict=True)
            ):
                return True
        return False

    def _polynomial(self, values: Sequence[int]) -> Polynomial:
        """The one with these values at the points."""
        found = self._solve(np.array(values, dtype=object)[:, None])
        if found is None:
            raise NoTemplateError("rows of experts are no polynomial")
        return tuple(map(int, found[:, 0]))

    def piece(self, fewer: FewerLayers | None) -> Piece:
        """The finished piece, of all layers."""
        seen = self.seen[0].tree
        places = iter(self.places.tolist())
        rows: list[Signature] = []
        costs: list[tuple[int, ...]] = []
        for number in seen.columns.signature.tolist():
            inputs, outputs, dtype = seen.signatures[number]
            rows.append(
                Signature(
                    tuple(tuple(next(places) for _ in shape) for shape in inputs),
                    tuple(tuple(next(places) for _ in shape) for shape in outputs),
                    dtype,
                )
            )
            costs.append(tuple(next(places) for _ in range(3)))
        table: dict[Signature, int] = {}
        numbers = [table.setdefault(row, len(table)) for row in rows]
        flops, read, written = np.array(costs, dtype=np.int64).T
        columns = replace(
            seen.columns,
            signature=np.array(numbers, dtype=np.int64),
            flops=flops,
            bytes_read=read,
            bytes_written=written,
        )
        tree = seen._derive(columns, signatures=tuple(table), spec=None, provenance={})
        whole = fewer.whole(tree) if fewer else tree
        return Piece(self.where, self.basis, self.polynomials, whole.fold())


Solve = Callable[[Sequence[int]], Polynomial]


def _grouped(
    signatures: Sequence[Signature], polynomial: Solve
) -> Iterator[tuple[Polynomial, int]]:
    """Rows of experts and how many experts there are, if rows follow the sizes."""
    rows, experts = signatures[0].inputs[:2]
    if len(experts) == 3 and len(rows) == 2:
        found = polynomial([each.inputs[0][0] for each in signatures])
        if any(found[1:]):
            yield found, int(experts[0])


def _transform(
    signatures: Sequence[Signature], polynomial: Solve
) -> Iterator[tuple[Polynomial, tuple[Polynomial, ...]]]:
    """Elements, and the dims of the input, of which the largest is the length."""
    elements = [
        max(prod(shape) for shape in (*each.inputs, *each.outputs))
        for each in signatures
    ]
    dims = zip(*(each.inputs[0] for each in signatures), strict=True)
    yield polynomial(elements), tuple(polynomial(dim) for dim in dims)


def _solver(matrix: list[list[int]]) -> Callable[[Any], Any]:
    """What finds whole coefficients of functions from their sums at some points.

    Functions that are sums of others at these points get none.

    Args:
        matrix: Values of all functions, a row per point.

    Returns:
        Takes sums, a row per point; answers coefficients, a row per function, or None
        where there are no whole ones.
    """
    rows, places = _independent(matrix)
    inverse, scale = _inverse(
        [[matrix[row][place] for place in places] for row in rows]
    )
    functions = np.array(matrix, dtype=object)

    def solve(sums: Any) -> Any:
        scaled = inverse @ sums[rows]
        found = np.zeros((functions.shape[1], sums.shape[1]), dtype=object)
        found[places] = scaled // scale
        return found if (functions @ found == sums).all() else None

    return solve


def _independent(matrix: list[list[int]]) -> tuple[list[int], list[int]]:
    """Rows and columns of a largest part that can be inverted, the first that can."""
    left = {i: [Fraction(n) for n in row] for i, row in enumerate(matrix)}
    rows, places = [], []
    for place in range(len(matrix[0])):
        pivot = next((i for i, row in left.items() if row[place]), None)
        if pivot is None:
            continue
        by = left.pop(pivot)
        rows.append(pivot)
        places.append(place)
        for i, row in left.items():
            factor = row[place] / by[place]
            left[i] = [a - factor * b for a, b in zip(row, by, strict=True)]
    return rows, places


def _inverse(matrix: list[list[int]]) -> tuple[Any, int]:
    """The inverse as whole numbers over a common denominator."""
    size = len(matrix)
    rows = [
        [Fraction(n) for n in row] + [Fraction(int(i == j)) for j in range(size)]
        for i, row in enumerate(matrix)
    ]
    for i in range(size):
        pivot = next(j for j in range(i, size) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(size):
            if j != i and rows[j][i]:
                factor = rows[j][i]
                rows[j] = [
                    a - factor * b for a, b in zip(rows[j], rows[i], strict=True)
                ]
    values = [row[size:] for row in rows]
    scale = int(
        np.lcm.reduce([v.denominator for row in values for v in row], dtype=object)
    )
    whole = [[int(value * scale) for value in row] for row in values]
    return np.array(whole, dtype=object), scale


def points_in(box: Box, axes: str) -> Iterator[dict[str, int]]:
    """Sizes that tell all monomials apart, inside a box."""
    lengths = {}
    for axis in axes[1:]:
        low, high = box[axis]
        room = high - low
        # The last length of all often has a structure of its own.
        near = FIRST if room > FIRST[-1] else (0, room // 3, 2 * room // 3)
        lengths[axis] = [low + step for step in near] if room else [low]
    least, most = box["b"]
    batches = range(least, min(least + 1, most) + 1)
    ranges = [range(len(values)) for values in lengths.values()]
    for batch in batches:
        for places in product(*ranges):
            if sum(places) <= DEGREE:
                chosen = zip(lengths.items(), places, strict=True)
                yield {"b": batch, **{a: values[i] for (a, values), i in chosen}}


def telling(
    points: Sequence[dict[str, int]], more: Iterable[dict[str, int]], basis: Basis
) -> list[dict[str, int]]:
    """Points, and those of some more that tell functions of a basis apart."""
    chosen = list(points)
    matrix = [basis.at(point) for point in points]
    for point in more:
        tried = [*matrix, basis.at(point)]
        if len(_independent(tried)[0]) == len(tried):
            chosen.append(point)
            matrix = tried
    return chosen


def look(tree: ModelTree) -> Seen:
    """Apart: what must be the same at every size, and numbers that may change."""
    columns = tree.columns
    own = [columns.own(getattr(columns, name)) for name in COSTS]
    numbers: list[int] = []
    ranks = []
    signatures = [
        (
            [n for shapes in (s.inputs, s.outputs) for shape in shapes for n in shape],
            (tuple(map(len, s.inputs)), tuple(map(len, s.outputs)), s.dtype),
        )
        for s in tree.signatures
    ]
    costs = zip(*(column.tolist() for column in own), strict=True)
    for number, cost in zip(columns.signature.tolist(), costs, strict=True):
        dims, rank = signatures[number]
        numbers += dims
        numbers += cost
        ranks.append(rank)
    names = [tree.strings[i] for i in columns.name.tolist()]
    ops = [tree.strings[i] for i in columns.op.tolist()]
    structure = (
        columns.depth.tobytes(), columns.kind.tobytes(), columns.params.tobytes(),
        names, ops, ranks, tree.notes, tree.unsupported,
    )  # fmt: skip
    return Seen(structure, np.array(numbers, dtype=np.int64), tree)
