"""SerialModel: energy of every node on a machine that runs one op after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from irene.errors import UsageError
from irene.predict.machines.serial.leaves import CALLS, Leaf, SerialWork, serial_work
from irene.predict.machines.serial.ops import OpModel, fit_ops
from irene.predict.machines.specs.rates import relative_nnls
from irene.predict.machines.specs.work import TreeWork
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
CACHES_MIB = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
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
        warm: Energy of an op inside a node that is run in a loop and fits the caches,
            as a multiple of that of the op in a loop of its own.
        cold: What is added to it in a node that moves far more than the caches hold.
        cache_mib: A node that moves this much has half of it.
        calls_j: J per call of each of `CALLS`.
    """

    ops: Mapping[str, OpModel]
    warm: float
    cold: float
    cache_mib: float
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
        factor = self.warm + self.cold * _coldness(work, self.cache_mib)[0]
        return self._with_calls(work, factor)

    def _with_calls(self, work: SerialWork, factor: Floats | float) -> Floats:
        ops_j = work.counts @ self.op_energies(work.leaves)
        energy_j: Floats = factor * ops_j + work.calls @ self.calls_j
        return energy_j

    def alone_j(self, work: SerialWork) -> Floats:
        """Energy of every node run in a loop of its own, as a measurement would, J."""
        factor = self.warm + self.cold * _coldness(work, self.cache_mib)
        whole = self._with_calls(work, factor)
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
            "warm": self.warm,
            "cold": self.cold,
            "cache_mib": self.cache_mib,
            "calls_j": dict(zip(CALLS, self.calls_j.tolist(), strict=True)),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SerialModel:
        """Read what `to_dict` wrote."""
        return cls(
            {kind: OpModel.from_dict(each) for kind, each in fields["ops"].items()},
            float(fields["warm"]),
            float(fields["cold"]),
            float(fields["cache_mib"]),
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
    return _compose(SerialModel(ops, 1.0, 0.0, 1.0, np.zeros(len(CALLS))), parents)


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


def _coldness(work: SerialWork, cache_mib: float) -> Floats:
    """From 0, all of a node fits the caches, to 1, nothing of it does."""
    mib = work.counts @ np.array([leaf.mib for leaf in work.leaves])
    cold: Floats = mib / (mib + cache_mib)
    return cold


def _compose(model: SerialModel, parents: Sequence[MeasuredNode]) -> SerialModel:
    """Fit what lies between ops; of several sizes of the caches the best."""
    each: dict[int, Floats] = {}
    for work, _, _, _ in parents:
        if id(work) not in each:
            each[id(work)] = model.op_energies(work.leaves)
    ops_j = np.array([p.work.counts[p.node] @ each[id(p.work)] for p in parents])
    calls = np.array([parent.work.calls[parent.node] for parent in parents])
    best: tuple[float, SerialModel] | None = None
    for cache_mib in CACHES_MIB:
        at = {id(p.work): _coldness(p.work, cache_mib) for p in parents}
        cold = np.array([at[id(parent.work)][parent.node] for parent in parents])
        features = np.column_stack([ops_j, cold * ops_j, calls])
        loss, rates = _robust_rates(features, parents)
        if best is None or loss < best[0]:
            warm, extra = float(rates[0]), float(rates[1])
            found = SerialModel(model.ops, warm, extra, cache_mib, rates[2:])
            best = (loss, found)
    assert best is not None
    return best[1]


def _robust_rates(
    features: Floats, parents: Sequence[MeasuredNode]
) -> tuple[float, Floats]:
    """Rates relative to the energies, robust to outliers, and their mean error."""
    energy_j = np.array([parent.energy_j for parent in parents])
    level = np.array(
        [MODEL_WEIGHT if parent.kind == MODEL else 1.0 for parent in parents]
    )
    weight, error = np.sqrt(level), level
    rates = np.zeros(features.shape[1])
    for _ in range(ROUNDS):
        rates = relative_nnls(features * (weight / energy_j)[:, None], weight)
        error = np.sqrt((features @ rates / energy_j - 1.0) ** 2 + SOFT**2)
        weight = np.sqrt(level / error)
    return float((level * error).sum() / level.sum()), rates
