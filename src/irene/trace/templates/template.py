"""Template: the tree of a model as a function of its sizes; needs no torch.

For one config, attention, dtype and phase the structure of a tree is fixed, its shapes
and costs are polynomials of batch size and lengths with whole coefficients. Where the
structure changes with the size there are several pieces, each with its range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import log2, prod
from typing import Any

import numpy as np

from irene.arrays import Ints
from irene.errors import (
    ConfigError,
    FormatError,
    NoAttentionError,
    SpecError,
    TraceError,
)
from irene.spec import RunSpec
from irene.trace.positions import Reach
from irene.tree import Columns, ModelTree, Signature
from irene.tree.columns import Shape
from irene.tree.folding import Members

AXES = {"b": "batch_size", "s": "seq_len", "d": "decoder_len", "c": "context_len"}
"""Sizes of a run by their letters."""
MOST_TOKENS = 1 << 19
"""Tokens up to which all inputs are known by content while they are traced."""
DEGREE = 2
LARGEST = 2.0**62
COSTS = ("flops", "bytes_read", "bytes_written")
REFUSALS = {each.__name__: each for each in (SpecError, ConfigError, NoAttentionError)}

Sizes = Mapping[str, int]


def is_within(sizes: Sizes, where: Mapping[str, tuple[int, int]]) -> bool:
    """Whether every size is from its least to its most."""
    return all(low <= sizes[axis] <= high for axis, (low, high) in where.items())


def groups_hit(rows: int, groups: int) -> int:
    """Groups, of so many, that get at least one of the rows spread evenly over them.

    Which those are depends on the data; expected are groups·(1 - (1 - 1/groups)^rows).
    """
    return min(groups, round(groups * (1 - (1 - 1 / groups) ** rows)) or 1)


def in_dtype(tree: ModelTree, old: str, new: str) -> ModelTree:
    """A tree in which one dtype goes by the name of another."""
    names = {old: new}
    signatures = tuple(
        each._replace(dtype=names.get(each.dtype, each.dtype))
        for each in tree.signatures
    )
    return tree._derive(tree.columns, signatures=signatures)


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
        values = [
            prod(n**p for n, p in zip(numbers, powers, strict=True))
            for powers in self.monomials
        ]

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
        folded = self.skeleton.columns
        if not (self._costs[0].astype(float) @ basis.astype(float) < LARGEST).all():
            return None
        costs = self._costs @ basis
        values = self.polynomials @ basis
        signatures, places = self._signatures(values.tolist())
        columns = replace(
            folded,
            signature=places[folded.signature],
            flops=costs[:, 0],
            bytes_read=costs[:, 1],
            bytes_written=costs[:, 2],
        )
        tree = self.skeleton._derive(columns, signatures=signatures, **attributes)
        return tree.fold()

    def _signatures(self, values: Sequence[int]) -> tuple[tuple[Signature, ...], Ints]:
        """Signatures at a size, equal ones once, and where each went."""
        places: dict[Signature, int] = {}
        shapes = {each: tuple([values[d] for d in each]) for each in self._shapes}
        went = [
            places.setdefault(
                Signature(
                    tuple([shapes[each] for each in inputs]),
                    tuple([shapes[each] for each in outputs]),
                    dtype,
                ),
                len(places),
            )
            for inputs, outputs, dtype in self.skeleton.signatures
        ]
        return tuple(places), np.array(went, dtype=np.int64)

    @cached_property
    def _costs(self) -> Ints:
        """Polynomials of the costs of every row, children included: rows × costs."""
        columns = self.skeleton.columns
        own = self.polynomials[np.stack([getattr(columns, n) for n in COSTS], 1)]
        flat = own.reshape(len(columns), -1)
        levels = self.skeleton.structure.levels
        return columns.inclusive(flat, levels).reshape(own.shape)

    @cached_property
    def _shapes(self) -> set[Shape]:
        return {
            shape
            for inputs, outputs, _ in self.skeleton.signatures
            for shape in (*inputs, *outputs)
        }

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


@dataclass(frozen=True, slots=True)
class Template:
    """The trees of one model, attention, dtype and phase, at every size.

    Attributes:
        config_digest: Of the config that was traced, as runs carry it.
        model_class: Class that was built.
        attention: That of the trees: another than asked for where there is none such.
        reach: How long an input may be.
        axes: Letters of the sizes that count.
        pieces: One per structure; no two share a size.
        refusal: Class, message and path of the error that every run ends with.
    """

    config_digest: str
    model_class: str
    attention: str
    reach: Reach
    axes: str
    pieces: tuple[Piece, ...]
    refusal: tuple[str, str, str] | None = None

    @classmethod
    def of_refusal(cls, refusal: Sequence[str]) -> Template:
        """Of a run that no size can do: its error, and with which attention."""
        kind, message, path, attention = refusal
        any_length = Reach(None, True, False)
        return cls("", "", attention, any_length, "b", (), (kind, message, path))

    def check(self) -> None:
        """Refuse what no size of it can do.

        Raises:
            UsageError: As a trace would.
        """
        if self.refusal is None:
            return
        kind, message, path = self.refusal
        if kind == "TraceError":
            raise TraceError(message, path)
        raise REFUSALS[kind](message)

    def piece(self, sizes: Sizes) -> Piece | None:
        """The piece of a size; None where only a trace can tell."""
        lengths = sum(n for axis, n in sizes.items() if axis != "b")
        if sizes["b"] * max(lengths, 1) > MOST_TOKENS:
            return None
        return next((piece for piece in self.pieces if piece.holds(sizes)), None)

    def in_dtype(self, old: str, new: str) -> Template:
        """The same trees, with one dtype by the name of another."""
        pieces = (
            Piece(p.where, p.basis, p.polynomials, in_dtype(p.skeleton, old, new))
            for p in self.pieces
        )
        return replace(self, pieces=tuple(pieces))

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "config_digest": self.config_digest,
            "class": self.model_class,
            "attention": self.attention,
            "reach": list(self.reach),
            "axes": self.axes,
            "pieces": [piece.to_dict() for piece in self.pieces],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Template:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: It is not a template, or damaged.
        """
        try:
            axes = fields["axes"]
            return cls(
                fields["config_digest"],
                fields["class"],
                fields["attention"],
                Reach(*fields["reach"]),
                axes,
                tuple(Piece.from_dict(piece, axes) for piece in fields["pieces"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise FormatError(f"not a template: {error!r}") from error


def sizes_of(spec: RunSpec, axes: str) -> dict[str, int]:
    """The sizes of a run that count, by letter."""
    values = {
        "b": spec.batch_size,
        "s": spec.seq_len,
        "d": spec.decoder_len or spec.seq_len,
        "c": spec.context_len or 0,
    }
    return {axis: values[axis] for axis in axes}
