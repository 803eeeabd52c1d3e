"""Piece: one structure of a model, whose numbers are functions of the sizes of a run.

Shapes and costs are polynomials of batch size and lengths with whole coefficients.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, pairwise, product
from math import log2, prod
from typing import Any

import numpy as np

from irene.arrays import Ints
from irene.tree import Columns, ModelTree, Signature
from irene.tree.folding import Members, fold

DEGREE = 2
LARGEST = 2.0**62
COSTS = ("flops", "bytes_read", "bytes_written")
LONGEST = 64
"""Dims of a signature that are given weights of their own."""
DIFFER = "all differ that are not equal at every size"

Sizes = Mapping[str, int]


def is_within(sizes: Sizes, where: Mapping[str, tuple[int, int]]) -> bool:
    """Whether every size is from its least to its most."""
    return all(low <= sizes[axis] <= high for axis, (low, high) in where.items())


def groups_hit(rows: int, groups: int) -> int:
    """Groups, of so many, that get at least one of the rows spread evenly over them.

    Which those are depends on the data; expected are groups·(1 - (1 - 1/groups)^rows).
    """
    return min(groups, round(groups * (1 - (1 - 1 / groups) ** rows)) or 1)


def transform_flops(elements: int, length: int) -> int:
    """5·n·log2(n), the usual count for the radix-2 Fourier transform."""
    return int(5 * elements * log2(max(length, 2)))


Polynomial = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Basis:
    """Functions of the sizes of which shapes and costs are sums.

    Attributes:
        axes: Letters of the sizes that count, of `AXES`.
        hits: For experts: the polynomial of rows, and among how many experts the rows
            are spread. For Fourier transforms: that of elements, and those of the dims,
            of which the largest is the length. With 0: the square of a polynomial.
    """

    axes: str
    hits: tuple[tuple[Polynomial, int | tuple[Polynomial, ...]], ...] = ()

    @property
    def monomials(self) -> list[tuple[int, ...]]:
        """Exponents: batch at most once, lengths at most twice in all."""
        return _monomials(self.axes)

    def at(self, sizes: Sizes) -> list[int]:
        """The values of all functions at a size."""
        numbers = [sizes[axis] for axis in self.axes]
        values = [prod(map(pow, numbers, powers)) for powers in self.monomials]

        def value(of: Polynomial) -> int:
            return sum(c * v for c, v in zip(of, values, strict=True))

        def added(of: Polynomial, among: int | tuple[Polynomial, ...]) -> int:
            if among == 0:
                return value(of) ** 2
            if isinstance(among, int):
                return groups_hit(value(of), among)
            return transform_flops(value(of), max(map(value, among)))

        return values + [added(*each) for each in self.hits]


@cache
def _monomials(axes: str) -> list[tuple[int, ...]]:
    ranges = [range(2 if axis == "b" else DEGREE + 1) for axis in axes]
    lengths = [i for i, axis in enumerate(axes) if axis != "b"]
    return [
        powers
        for powers in product(*ranges)
        if sum(powers[i] for i in lengths) <= DEGREE
    ]


class _Shapes:
    """Signatures with numbers in the places of their dims, one list of all.

    Args:
        signatures: In their shapes are places in a list of numbers.
    """

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.signatures = signatures
        sides = [side for each in signatures for side in each[:2]]
        shapes = list(dict.fromkeys(shape for side in sides for shape in side))
        self._dims = [dim for shape in shapes for dim in shape]
        self._shapes = _slices(shapes)
        self._used = [shapes.index(shape) for side in sides for shape in side]
        self._sides = _slices(sides)
        self._dtypes = [each.dtype for each in signatures]

    def at(self, numbers: Sequence[int]) -> list[Signature]:
        """The signatures with these numbers."""
        dims = tuple([numbers[dim] for dim in self._dims])
        shapes = [dims[part] for part in self._shapes]
        used = tuple([shapes[place] for place in self._used])
        sides = [used[part] for part in self._sides]
        return list(map(Signature, sides[::2], sides[1::2], self._dtypes))


def _once(signatures: Sequence[Signature]) -> tuple[list[Signature], Ints]:
    """Equal signatures once, and where each went."""
    places: dict[Signature, int] = {}
    went = [places.setdefault(each, len(places)) for each in signatures]
    return list(places), np.array(went, dtype=np.int64)


def _slices(parts: Sequence[Sequence[Any]]) -> list[slice]:
    """Where each of some parts is when all are one."""
    ends = accumulate(map(len, parts), initial=0)
    return [slice(start, end) for start, end in pairwise(ends)]


class Piece:
    """One structure, and the sizes at which it was found to hold.

    Args:
        where: Least and most of every size, by letter.
        basis: What its polynomials are sums of.
        polynomials: Distinct ones, one row of coefficients each.
        skeleton: The folded tree. In its signatures and its columns of FLOPs and bytes
            (of the node alone, without its children) are rows of `polynomials`.
    """

    def __init__(
        self,
        where: Mapping[str, tuple[int, int]],
        basis: Basis,
        polynomials: Ints,
        skeleton: ModelTree,
    ) -> None:
        self.where = dict(where)
        self.basis = basis
        self.polynomials = polynomials
        self.skeleton = skeleton

    def holds(self, sizes: Sizes) -> bool:
        """Whether a size is one of its own."""
        return is_within(sizes, self.where)

    def at(self, sizes: Sizes, **attributes: Any) -> ModelTree | None:
        """The tree at a size, folded as that of a trace would be.

        Args:
            sizes: By letter.
            **attributes: Of the tree: `spec`, `provenance`.

        Returns:
            None where a cost does not fit into 62 bits.
        """
        basis = np.array(self.basis.at(sizes), dtype=np.int64)
        matrix, costs, shapes, which = self._numbers
        if not (matrix.astype(float) @ basis.astype(float) < LARGEST).all():
            return None
        values = matrix @ basis
        signatures = shapes.at(values.tolist())
        differ = self._differ(values)
        if not differ:
            signatures, places = _once(signatures)
            which = places[which]
        flops, bytes_read, bytes_written = values[costs]
        columns = replace(
            self.skeleton.columns,
            signature=which,
            flops=flops,
            bytes_read=bytes_read,
            bytes_written=bytes_written,
        )
        tree = self.skeleton._derive(columns, signatures=signatures, **attributes)
        return fold(tree, known=DIFFER if differ else None)

    @cached_property
    def _numbers(self) -> tuple[Ints, Ints, _Shapes, Ints]:
        """Distinct polynomials; which of them are costs × rows, children included.

        Then the distinct signatures, and which of them every row has.
        """
        columns = self.skeleton.columns
        own = self.polynomials[np.stack([getattr(columns, n) for n in COSTS], 1)]
        flat = own.reshape(len(columns), -1)
        levels = self.skeleton.structure.levels
        costs = columns.inclusive(flat, levels).reshape(-1, own.shape[2])
        both = np.concatenate([costs, self.polynomials])
        matrix, which = np.unique(both, axis=0, return_inverse=True)
        numbers = which.reshape(-1)[len(costs) :].tolist()
        signatures, places = _once(_Shapes(self.skeleton.signatures).at(numbers))
        of_rows = which.reshape(-1)[: len(costs)].reshape(len(columns), -1).T
        return matrix, of_rows, _Shapes(signatures), places[columns.signature]

    def _differ(self, values: Ints) -> bool:
        """Whether all differ that are not equal at every size: signatures, and rows.

        Each is given a number that follows from it: those of equal ones are equal.
        """
        weights, dims, starts, rows, costs, others = self._prints
        weighted = weights[len(COSTS) :] * np.append(values, 1)[dims]
        signatures = np.add.reduceat(weighted, starts)
        own = signatures[rows] + weights[: len(COSTS)] @ values[costs] + others
        prints = {*signatures.tolist()}, {*own.tolist()}
        return [*map(len, prints)] == [len(signatures), len(own)]

    @cached_property
    def _prints(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """Of all signatures together: random weights, dims, where each begins.

        Then, of distinct rows: signature, costs, a number for what has no size.
        """
        chosen = np.random.default_rng(0)
        matrix, costs, shapes, of_rows = self._numbers
        at = chosen.integers(1 << 62, size=len(COSTS) + LONGEST)
        weights, forms = [at[: len(COSTS)]], dict[tuple[Any, ...], Ints]()
        dims: list[int] = []
        starts: list[int] = []
        for inputs, outputs, dtype in shapes.signatures:
            form = (*map(len, inputs), dtype, *map(len, outputs))
            first = forms.setdefault(form, chosen.integers(1 << 62, size=1))
            sides = [dim for shape in (*inputs, *outputs) for dim in shape]
            starts.append(len(dims))
            dims += [len(matrix), *sides]
            weights += [first, np.resize(at[len(COSTS) :], len(sides))]
        columns = self.skeleton.columns
        known = (columns.kind, columns.op, columns.params, of_rows, *costs)
        rows: Ints = np.unique(np.stack(known), axis=1)
        kinds, which = np.unique(rows[:3], axis=1, return_inverse=True)
        others = np.array(chosen.integers(1 << 62, size=kinds.shape[1]))
        signatures = np.concatenate(weights), np.array(dims), np.array(starts)
        return *signatures, rows[3], rows[4:], others[which.reshape(-1)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values; tables in the order in which they are used."""
        tree, strings, rows = self.skeleton, _Order(), _Order()
        lists = {n: getattr(tree.columns, n).tolist() for n in Columns.__slots__}
        signatures = [
            [[[*map(rows, s)] for s in i], [[*map(rows, s)] for s in o], dtype]
            for i, o, dtype in tree.signatures
        ]
        lists |= {name: [*map(strings, lists[name])] for name in ("name", "op")}
        lists |= {name: [*map(rows, lists[name])] for name in COSTS}
        matrix = self.polynomials[[*rows]]
        return {
            "strings": [tree.strings[i] for i in strings],
            "columns": [lists[name] for name in Columns.__slots__ if name != "params"],
            "signatures": signatures,
            "members": [[row, _packed(m)] for row, m in tree.members.items()],
            "notes": list(tree.notes),
            "unsupported": tree.unsupported,
            "powers": [np.flatnonzero(row).tolist() for row in matrix],
            "where": {axis: list(ends) for axis, ends in self.where.items()},
            "hits": [[list(of), among] for of, among in self.basis.hits],
            "coefficients": [row[np.flatnonzero(row)].tolist() for row in matrix],
            "params": lists["params"],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], axes: str) -> Piece:
        """Read what `to_dict` wrote."""
        hits = (
            (tuple(of), n if isinstance(n, int) else tuple(map(tuple, n)))
            for of, n in fields["hits"]
        )
        basis = Basis(axes, tuple(hits))
        width = len(basis.monomials) + len(basis.hits)
        names = [name for name in Columns.__slots__ if name != "params"]
        lists = dict(zip(names, fields["columns"], strict=True))
        lists["params"] = fields["params"]
        skeleton = ModelTree(
            Columns.from_lists(lists),
            fields["strings"],
            [
                Signature(tuple(map(tuple, i)), tuple(map(tuple, o)), dtype)
                for i, o, dtype in fields["signatures"]
            ],
            members={row: _unpacked(m) for row, m in fields["members"]},
            notes=fields["notes"],
            unsupported=fields["unsupported"],
        )
        where = {axis: (low, high) for axis, (low, high) in fields["where"].items()}
        return cls(where, basis, _dense(fields, width), skeleton)


class _Order(dict[int, int]):
    """Numbers things anew, in the order in which they are asked for."""

    def __call__(self, number: int) -> int:
        return self.setdefault(number, len(self))


def _dense(fields: Mapping[str, Any], width: int) -> Ints:
    """Coefficients at their places."""
    matrix = np.zeros((len(fields["powers"]), width), dtype=np.int64)
    pairs = zip(fields["powers"], fields["coefficients"], strict=True)
    for number, (places, values) in enumerate(pairs):
        matrix[number, places] = values
    return matrix


def _packed(members: Members) -> list[Any]:
    """Names with a running number, in places side by side, as one line."""
    text, place = members[0]
    for found in re.finditer(r"\d+", text):
        head, tail = text[: found.start()], text[found.end() :]
        line = [head, tail, int(found.group()), place, len(members)]
        if _unpacked(line) == members:
            return line
    return [list(pair) for pair in members]


def _unpacked(packed: Sequence[Any]) -> Members:
    if isinstance(packed[0], str):
        head, tail, first, place, count = packed
        return tuple((f"{head}{first + i}{tail}", place + i) for i in range(count))
    return tuple((name, place) for name, place in packed)
