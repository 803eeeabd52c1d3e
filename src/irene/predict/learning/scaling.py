"""Another machine's rates as multiples of a known machine's.

Energies are linear in the rates while it is known which of GPU and host is the slower
one, so the energy of a node is a sum of parts, one per kind of work, each times the
factor of its kind. The factors come from relative non-negative least squares, held near
one common factor, and that near 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from irene.arrays import Floats, Ints
from irene.dataset.table import NodeTable
from irene.predict.learning.join import Joiner
from irene.predict.machines.specs.regression import BUSY_SHARE, relative_nnls
from irene.predict.machines.specs.specs_model import SpecsModel
from irene.predict.machines.specs.work import STREAM, STREAMS
from irene.tree import KINDS

HOST = "host"
KERNELS = ("gemm", "bmm", "norm", "softmax", "embedding")
PARTS = (*KERNELS, *STREAMS, HOST)
"""Kinds of work that can have a factor of their own."""

_MEMORY = ("norm", "softmax", "embedding")
GROUPINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "one": dict.fromkeys(PARTS, "machine"),
        "few": {
            "gemm": "products",
            "bmm": "products",
            **dict.fromkeys(_MEMORY, "memory-bound kernels"),
            **dict.fromkeys(STREAMS, "elementwise"),
            HOST: HOST,
        },
        "many": {part: part for part in PARTS},
    }
)
"""Which kinds share a factor: all; those of four sets; none. By name of the factor."""

ROUNDS = 12
HELD = 0.03
"""How strongly factors are held near their common one, for one measured tree."""
HELD_TO_SOURCE = 0.001


def scaled(model: SpecsModel, factors: Mapping[str, float]) -> SpecsModel:
    """The same machine with its rates multiplied, a factor for each of `PARTS`."""
    streams = np.array([factors[name] for name in STREAMS])
    groups = {}
    for name, kernels in model.groups.items():
        factor = factors.get("contiguous" if name == STREAM else name, 1.0)
        groups[name] = replace(
            kernels,
            rates=tuple(rates * factor for rates in kernels.rates),
            bias_j_per_mib=kernels.bias_j_per_mib * factors["broadcast"],
            floor_j=kernels.floor_j * factors[HOST],
        )
    old = model.composition
    composition = replace(
        old,
        stream_j=old.stream_j * streams,
        unmeasured_j=old.unmeasured_j * factors["bmm"],
        launch_j=old.launch_j * factors[HOST],
        view_j=old.view_j * factors[HOST],
        module_j=old.module_j * factors[HOST],
    )
    return replace(model, groups=groups, composition=composition)


@dataclass(frozen=True, slots=True)
class Parts:
    """Measured nodes of some trees, and what a known machine would take for them.

    Attributes:
        tree: Tree of every row.
        kind: Index into `KINDS` of every row.
        part_j: Rows × `PARTS`, J.
        energy_j: Measured energy, J.
    """

    tree: Ints
    kind: Ints
    part_j: Floats
    energy_j: Floats

    def of_trees(self, trees: Sequence[int] | Ints) -> Parts:
        """The rows of some trees."""
        chosen = np.isin(self.tree, trees)
        return Parts(
            self.tree[chosen],
            self.kind[chosen],
            self.part_j[chosen],
            self.energy_j[chosen],
        )


def parts_of(model: SpecsModel, table: NodeTable, joiner: Joiner) -> Parts:
    """Split what a known machine would take for measured nodes by kind of work."""
    alone = dict.fromkeys(PARTS, 0.0)
    singles = [scaled(model, alone | {part: 1.0}) for part in PARTS]
    part_j = np.full((len(table), len(PARTS)), np.nan)
    for _, rows, joined in joiner.trees(table):
        places = joined.measured_as
        for i, single in enumerate(singles):
            each = single.energies(joined.work).alone[np.maximum(places, 0)]
            part_j[rows, i] = np.where(places >= 0, each, np.nan)
    known = np.isfinite(part_j).all(axis=1) & (table.energy_j > 0)
    known &= part_j.sum(axis=1) > 0
    return Parts(
        table.tree[known], table.kind[known], part_j[known], table.energy_j[known]
    )


def fit_factors(parts: Parts, grouping: Mapping[str, str]) -> dict[str, float]:
    """Factors that bring a known machine to what was measured on another.

    Returns:
        A factor for each of `PARTS`.
    """
    names = list(dict.fromkeys(grouping.values()))
    place = np.array([names.index(grouping[part]) for part in PARTS])
    relative, weight = _distinct(parts)
    factors = np.ones(len(names))
    common = 1.0
    held = HELD / np.sqrt(len(np.unique(parts.tree)))
    for _ in range(ROUNDS):
        share, is_held_up = _regime(relative, factors[place])
        columns = np.zeros((len(relative), len(names)))
        for i, part in enumerate(PARTS):
            times = is_held_up if part == HOST else share
            columns[:, place[i]] += relative[:, i] * times
        solution = _solve(columns, weight, held, common)
        change = np.abs(solution[:-1] - factors).max()
        factors, common = solution[:-1], max(float(solution[-1]), 1e-6)
        if change < 1e-6:
            break
    return dict(zip(PARTS, factors[place].tolist(), strict=True))


def _distinct(parts: Parts) -> tuple[Floats, Floats]:
    """Parts relative to the measured energy; every level weighs the same."""
    relative = parts.part_j / parts.energy_j[:, None]
    both = np.round(np.column_stack([parts.kind, relative]), 12)
    rows: Floats = np.unique(both, axis=0).astype(np.float64)
    kind = rows[:, 0]
    weight = np.zeros(len(rows))
    for level in range(len(KINDS)):
        here = kind == level
        weight[here] = 1.0 / max(here.sum(), 1)
    return rows[:, 1:], weight


def _regime(relative: Floats, factors: Floats) -> tuple[Floats, Floats]:
    """Share of the GPU's and of the host's parts in each row: E = max(g, h + g/2)."""
    host = PARTS.index(HOST)
    energy = relative * factors
    gpu = energy.sum(axis=1) - energy[:, host]
    is_held_up = energy[:, host] > (1.0 - BUSY_SHARE) * gpu
    return np.where(is_held_up, BUSY_SHARE, 1.0), is_held_up.astype(np.float64)


def _solve(columns: Floats, weight: Floats, held: float, common: float) -> Floats:
    """The factors, and the common one they are held near."""
    count = columns.shape[1]
    root = np.sqrt(weight)
    data = np.column_stack([columns * root[:, None], np.zeros(len(columns))])
    near = np.column_stack([np.eye(count), -np.ones(count)]) * held / common
    source = np.append(np.zeros(count), HELD_TO_SOURCE)[None, :]
    target = np.concatenate([root, np.zeros(count), [HELD_TO_SOURCE]])
    return relative_nnls(np.vstack([data, near, source]), target)
