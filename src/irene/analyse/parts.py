"""A tree as parts that do not overlap: primitives, and what modules use themselves.

Every joule of a tree is in exactly one part. Whatever groups parts therefore adds up to
the whole: by module, by class, by role, by layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from irene.analyse.roles import places_of
from irene.errors import UsageError
from irene.tree import KINDS, ModelTree

__all__ = ["NO_ENERGY", "Part", "Sum", "group_by", "parts_of"]

Floats = npt.NDArray[np.float64]

ML, MODULE = KINDS.index("ml"), KINDS.index("module")
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
ROUNDING = 1e-12
"""Share of a tree's energy below which a part is the rounding of a sum."""
NO_ENERGY = (
    "this tree carries no energy: predict it (`irene predict`) or measure it first"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A primitive, or what a module uses besides its children.

    Attributes:
        path: Of the node.
        call: Which call of that path.
        kind: `model`, `module` or `ml`.
        op: Class or function.
        holder: Where it is counted in the paper's tables: the module that holds
            primitives only, or the node itself; numbers of layers as `*`.
        holder_op: Class of the holder.
        role: Of `ROLES`.
        layer: Which layer, from 1; None outside.
        energy_j: J.
        half_j: Half the width of its interval, J.
        flops: Floating-point operations.
        bytes: Bytes read and written.
        work: Equal for parts that do the same work: op, shapes, type.
    """

    path: str
    call: int
    kind: str
    op: str
    holder: str
    holder_op: str
    role: str
    layer: int | None
    energy_j: float
    half_j: float
    flops: float
    bytes: float
    work: tuple[object, ...]

    def scaled(self, factor: float) -> Part:
        """The part of a run `factor` times as long."""
        return replace(
            self,
            energy_j=self.energy_j * factor,
            half_j=self.half_j * factor,
            flops=self.flops * factor,
            bytes=self.bytes * factor,
        )


@dataclass(frozen=True, slots=True)
class Sum:
    """Several parts together.

    Attributes:
        count: How many.
        energy_j: J.
        flops: Floating-point operations.
        bytes: Bytes read and written.
    """

    count: int = 0
    energy_j: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0

    def plus(self, part: Part) -> Sum:
        """With one part more."""
        return Sum(
            self.count + 1,
            self.energy_j + part.energy_j,
            self.flops + part.flops,
            self.bytes + part.bytes,
        )


def group_by(parts: Iterable[Part], key: Callable[[Part], str]) -> dict[str, Sum]:
    """Parts added up by a key, in the order the keys first occur."""
    sums: dict[str, Sum] = {}
    for part in parts:
        name = key(part)
        sums[name] = sums.get(name, Sum()).plus(part)
    return sums


def parts_of(tree: ModelTree) -> list[Part]:
    """The parts of a tree, in running order; those that cost nothing are left out.

    Raises:
        UsageError: The tree carries no energy.
    """
    if tree.energy_of(0) is None:
        raise UsageError(NO_ENERGY)
    flat = tree.at_level("ml").unfold()
    assert flat.energy is not None
    columns = flat.columns
    joules = _known(flat)
    moved = columns.bytes_read + columns.bytes_written
    own_j = joules - columns.children_sum(joules)
    own_j[np.abs(own_j) <= ROUNDING * abs(joules[0])] = 0.0
    own_flops = columns.flops - columns.children_sum(columns.flops)
    own_bytes = moved - columns.children_sum(moved)
    width = np.nan_to_num((flat.energy.high - flat.energy.low) / 2 / _positive(joules))
    places = places_of(flat)
    holders = _holders(flat)
    found = []
    used = (own_j != 0) | (own_flops != 0) | (own_bytes != 0)
    for row in np.flatnonzero(used).tolist():
        place, holder = places[row], holders[row]
        found.append(
            Part(
                flat.paths[row],
                flat.calls[row],
                KINDS[columns.kind[row]],
                _op(flat, row),
                NUMBER.sub("*", flat.paths[holder]),
                _op(flat, holder),
                place.role,
                place.layer,
                float(own_j[row]),
                float(abs(own_j[row]) * width[row]),
                float(own_flops[row]),
                float(own_bytes[row]),
                (_op(flat, row), flat.signatures[int(columns.signature[row])]),
            )
        )
    return found


def _op(tree: ModelTree, row: int) -> str:
    return tree.strings[int(tree.columns.op[row])]


def _positive(joules: Floats) -> Floats:
    return np.where(joules > 0, joules, np.nan)


def _known(tree: ModelTree) -> Floats:
    """Energy of every row; where nothing is known, that of its children.

    What an unknown leaf used stays with the nearest known node above it.
    """
    assert tree.energy is not None
    joules = tree.energy.joules.copy()
    parents, count = tree.parents, tree.columns.count
    below = np.zeros(len(joules))
    for row in range(len(joules) - 1, -1, -1):
        if np.isnan(joules[row]):
            joules[row] = below[row]
        if row:
            below[parents[row]] += joules[row] * count[row]
    return joules


def _holders(tree: ModelTree) -> list[int]:
    """For every row the row it is counted under."""
    kinds, parents = tree.columns.kind, tree.parents
    above_modules = np.zeros(len(tree), dtype=bool)
    modules = np.flatnonzero(kinds == MODULE)
    above_modules[parents[modules[parents[modules] >= 0]]] = True
    holders = list(range(len(tree)))
    for row in np.flatnonzero(kinds == ML).tolist():
        parent = int(parents[row])
        if parent > 0 and not above_modules[parent]:
            holders[row] = parent
    return holders
