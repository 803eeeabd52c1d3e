"""SerialModel: energy of every node on a machine that runs one op after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from irene.errors import UsageError
from irene.predict.serial.leaves import CALLS, Leaf, SerialWork, serial_work
from irene.predict.serial.ops import OpModel, fit_ops
from irene.predict.specs.rates import relative_nnls
from irene.predict.specs.work import TreeWork
from irene.tree import KINDS, ModelTree

__all__ = ["MeasuredNode", "SerialModel", "fit_serial"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MODEL, ML = KINDS.index("model"), KINDS.index("ml")
MODEL_WEIGHT = 20.0
"""Weight of a whole model's measurement against that of one module."""
FEWEST = 2
"""Shapes of an op that are needed for a model of its own."""
ANY = "any"
"""Kind of ops that were not measured often enough; products are not among them."""
PRODUCTS = ("gemm", "bmm")
SOFT = 0.02
ROUNDS = 20


class MeasuredNode(NamedTuple):
    """A node that was run alone.

    Attributes:
        work: Work of its tree.
        node: Its row there.
        kind: Index into `KINDS`.
        energy_j: What it took, J.
    """

    work: SerialWork
    node: int
    kind: int
    energy_j: float


@dataclass(frozen=True, slots=True)
class SerialModel:
    """A machine: what its ops take, and what lies between them.

    Attributes:
        ops: Model of each kind of op; `any` for those that were never measured.
        inside: Energy of an op inside a model, as a multiple of that in a loop of its
            own, where all it needs is in the caches.
        calls_j: J per call of each of `CALLS`.
    """

    ops: Mapping[str, OpModel]
    inside: float
    calls_j: Floats

    def op_energies(self, leaves: Sequence[Leaf]) -> Floats:
        """Energy of ops run alone, J."""
        energy_j = np.zeros(len(leaves))
        places: dict[str, list[int]] = {}
        for place, leaf in enumerate(leaves):
            places.setdefault(self._kind(leaf), []).append(place)
        for kind, where in places.items():
            some = [leaves[place] for place in where]
            if kind == ANY:
                some = [_as_any(leaf) for leaf in some]
            energy_j[where] = self.ops[kind].predict(some)
        return energy_j

    def _kind(self, leaf: Leaf) -> str:
        if leaf.kind in self.ops:
            return leaf.kind
        others = [kind for kind in PRODUCTS if kind in self.ops]
        return others[0] if leaf.kind in PRODUCTS and others else ANY

    def was_measured(self, leaf: Leaf) -> bool:
        """Whether ops of this kind were run by themselves."""
        return leaf.kind in self.ops

    def inside_j(self, work: SerialWork) -> Floats:
        """Energy of every node as part of a run, J; parts add up."""
        each = self.op_energies(work.leaves)
        energy_j: Floats = self.inside * (work.counts @ each)
        return energy_j + work.calls @ self.calls_j

    def alone_j(self, work: SerialWork) -> Floats:
        """Energy of every node run in a loop of its own, as a measurement would, J."""
        whole = self.inside_j(work)
        single = (work.counts.sum(axis=1) == 1) & (work.calls[:, 1] == 0)
        if not single.any():
            return whole
        return np.where(single, work.counts @ self.op_energies(work.leaves), whole)

    def tree_energies(
        self, tree: ModelTree, _: TreeWork | None = None
    ) -> tuple[Floats, Flags]:
        """Energy of every node, J, and which primitives were never measured."""
        work = serial_work(tree)
        measured = np.array([self.was_measured(leaf) for leaf in work.leaves], bool)
        is_indirect = (tree.columns.kind >= ML) & ~work.counts[:, measured].any(axis=1)
        return self.inside_j(work), is_indirect

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "form": "serial",
            "ops": {kind: model.to_dict() for kind, model in self.ops.items()},
            "inside": self.inside,
            "calls_j": dict(zip(CALLS, self.calls_j.tolist(), strict=True)),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SerialModel:
        """Read what `to_dict` wrote."""
        return cls(
            {kind: OpModel.from_dict(each) for kind, each in fields["ops"].items()},
            float(fields["inside"]),
            np.array([float(fields["calls_j"][name]) for name in CALLS]),
        )


def _as_any(leaf: Leaf) -> Leaf:
    return leaf._replace(kind=ANY, sizes=leaf.sizes[-2:], transposed=False)


def fit_serial(nodes: Iterable[MeasuredNode]) -> SerialModel:
    """Learn a machine from what was measured on it.

    Args:
        nodes: Distinct measurements; equal ops may occur several times.

    Raises:
        UsageError: There is nothing to learn from.
    """
    alone: dict[Leaf, list[float]] = {}
    parents: list[MeasuredNode] = []
    for node in nodes:
        leaf = node.work.only_leaf(node.node) if node.kind == ML else None
        if leaf is not None:
            alone.setdefault(leaf, []).append(node.energy_j)
        elif node.work.counts[node.node].any():
            parents.append(node)
    if not alone or not parents:
        raise UsageError("specs needs measured primitives and measured modules")
    ops = _fit_kinds(alone)
    return _compose(SerialModel(ops, 1.0, np.zeros(len(CALLS))), parents)


def _fit_kinds(alone: Mapping[Leaf, Sequence[float]]) -> dict[str, OpModel]:
    kinds: dict[str, list[Leaf]] = {}
    for leaf in alone:
        kinds.setdefault(leaf.kind, []).append(leaf)
    energy_j = {leaf: float(np.median(values)) for leaf, values in alone.items()}
    ops = {
        kind: _fit(leaves, leaves, energy_j, alone)
        for kind, leaves in kinds.items()
        if len(leaves) >= FEWEST or not any(leaf.mib for leaf in leaves)
    }
    moving = [leaf for leaf in alone if leaf.mib]
    others = [leaf for leaf in moving if leaf.kind not in PRODUCTS] or list(alone)
    return {**ops, ANY: _fit(others, [_as_any(o) for o in others], energy_j, alone)}


def _fit(
    leaves: Sequence[Leaf],
    shown_as: Sequence[Leaf],
    energy_j: Mapping[Leaf, float],
    alone: Mapping[Leaf, Sequence[float]],
) -> OpModel:
    return fit_ops(
        shown_as,
        np.array([energy_j[leaf] for leaf in leaves]),
        np.array([float(len(alone[leaf])) for leaf in leaves]),
    )


def _compose(model: SerialModel, parents: Sequence[MeasuredNode]) -> SerialModel:
    """Fit what lies between ops, relative to the energies, robust to outliers."""
    each: dict[int, Floats] = {}
    rows = []
    for work, node, _, _ in parents:
        if id(work) not in each:
            each[id(work)] = model.op_energies(work.leaves)
        rows.append([work.counts[node] @ each[id(work)], *work.calls[node]])
    features = np.array(rows)
    energy_j = np.array([parent.energy_j for parent in parents])
    level = np.array(
        [MODEL_WEIGHT if parent.kind == MODEL else 1.0 for parent in parents]
    )
    weight = np.sqrt(level)
    rates = np.zeros(features.shape[1])
    for _ in range(ROUNDS):
        rates = relative_nnls(features * (weight / energy_j)[:, None], weight)
        error = np.sqrt((features @ rates / energy_j - 1.0) ** 2 + SOFT**2)
        weight = np.sqrt(level / error)
    return SerialModel(model.ops, float(rates[0]), rates[1:])
