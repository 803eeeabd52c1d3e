"""Machines that run one op after the other: CPUs, as PyTorch uses them.

Nothing overlaps there, so a node takes what its ops take and what calling them costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from irene.arrays import Bools, Floats, Ints
from irene.errors import UsageError
from irene.predict.machines.specs.regression import (
    Residual,
    coordinates,
    fit_residual,
    least_weight,
    relative_nnls,
)
from irene.predict.machines.specs.specs_model import MODEL_WEIGHT, KernelEnergy
from irene.predict.machines.specs.work import (
    MIB,
    PRODUCT_OF,
    ROWS,
    Kernel,
    TreeWork,
    distinct_ops,
    product_sizes,
)
from irene.saved import Saved
from irene.tree import ML, MODEL, MODULE, ModelTree, Signature

CALLS = ("primitives", "modules")
"""Kinds of calls that cost time beside the ops."""
VIEW = (1, 1)
"""Sizes of ops that move nothing: they cost the same whatever they look at."""
GIGA = 1e9


class SerialOp(NamedTuple):
    """An op by its sizes.

    Attributes:
        kind: `gemm`, `bmm`, `norm`, `softmax`, `embedding`, or the name of the op, with
            a `*` where its operands differ in shape.
        sizes: batch, m, n, k of a product; rows and columns of the result otherwise.
        gflop: Its FLOPs, 10⁹.
        mib: What it reads and writes, MiB; a view does neither.
        bias_mib: Result of a product that a bias is added to, MiB.
        transposed: Whether the weight is stored inputs first (`Conv1D`).
    """

    kind: str
    sizes: tuple[int, ...]
    gflop: float
    mib: float
    bias_mib: float = 0.0
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class SerialWork:
    """The work of every node of a tree, children included.

    Attributes:
        ops: Distinct ops of the tree.
        counts: Nodes × ops: how often each runs in one instance of a node.
        calls: Nodes × `CALLS`.
    """

    ops: tuple[SerialOp, ...]
    counts: Floats
    calls: Floats

    def only_op(self, node: int) -> SerialOp | None:
        """The op of a node that is nothing else."""
        places = np.flatnonzero(self.counts[node])
        if len(places) != 1 or self.counts[node, places[0]] != 1:
            return None
        return self.ops[int(places[0])]


def serial_work(tree: ModelTree) -> SerialWork:
    """Count the work of a tree."""
    columns = tree.columns
    math = distinct_ops(tree)
    ops: dict[SerialOp, int] = {}
    place = np.zeros(len(math.keys), dtype=np.int64)
    for i, (op, signature, primitive, size, flops) in enumerate(math.keys):
        name, above = tree.strings[op], tree.strings[primitive]
        sized = SerialOp(name, VIEW, 0.0, 0.0)
        if size:
            sized = _serial_op(name, above, tree.signatures[signature], size, flops)
        place[i] = ops.setdefault(sized, len(ops))
    own = np.zeros((len(tree), len(ops) + len(CALLS)))
    counted = ~_is_part_of_another(math.rows, math.moved, tree.parents)
    own[math.rows[counted], place[math.which][counted]] = 1
    own[:, -2] = columns.kind == ML
    own[:, -1] = columns.kind == MODULE
    total = columns.inclusive(own, tree.structure.levels)
    return SerialWork(tuple(ops), total[:, : len(ops)], total[:, len(ops) :])


def _is_part_of_another(rows: Ints, moved: Ints, parents: Ints) -> Bools:
    """Views in a primitive that also computes: measured with what it computes."""
    above = parents[rows]
    parts: Bools = (moved == 0) & np.isin(above, above[moved > 0])
    return parts


def _serial_op(
    op: str, primitive: str, shapes: Signature, moved: int, flops: int
) -> SerialOp:
    gflop, mib = flops / GIGA, moved / MIB
    if op in PRODUCT_OF:
        sizes = product_sizes(op, shapes)
        if PRODUCT_OF[op] == "bmm":
            return SerialOp("bmm", sizes, gflop, mib)
        bias_mib = sizes[1] * sizes[2] / MIB if len(shapes.inputs) > 2 else 0.0
        return SerialOp("gemm", sizes, gflop, mib, bias_mib, primitive == "Conv1D")
    out = shapes.outputs[0] if shapes.outputs else ()
    table = (max(prod(out[:-1]), 1), max(out[-1] if out else 1, 1))
    kind = ROWS.get(op, op)
    if kind == op and any(shape not in (out, ()) for shape in shapes.inputs):
        kind = f"{op}*"
    return SerialOp(kind, table, gflop, mib)


NOISES = (0.01, 0.03, 0.08)
"""Relative noise of one measurement on a machine that other programs share."""
AMPLITUDES = (0.02, 0.04, 0.08, 0.16, 0.32)
OP_SOFT = 0.05
OP_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class OpModel(Saved):
    """Energy of the ops of one kind.

    Attributes:
        rates: J per call, per GFLOP, per MiB moved, per MiB that a bias is added to.
        residual: Correction by shape.
    """

    rates: Floats
    residual: Residual | None

    def predict(self, ops: Sequence[SerialOp]) -> Floats:
        """Energy of ops run alone, J."""
        base: Floats = _op_work(ops) @ self.rates
        if self.residual is None:
            return base
        return base * np.exp(self.residual.predict(coordinates(ops)))


def _op_work(ops: Sequence[SerialOp]) -> Floats:
    return np.array([[1.0, op.gflop, op.mib, op.bias_mib] for op in ops], dtype=float)


def fit_ops(ops: Sequence[SerialOp], energy_j: Floats, repeats: Floats) -> OpModel:
    """Learn the ops of one kind."""
    work = _op_work(ops)
    weight = least = least_weight(repeats)
    rates = np.zeros(work.shape[1])
    for _ in range(OP_ROUNDS):
        rates = relative_nnls(work * (weight / energy_j)[:, None], weight)
        error = np.abs(work @ rates / energy_j - 1.0)
        weight = least / np.sqrt(np.maximum(error, OP_SOFT))
    logs = np.log(energy_j / np.maximum(work @ rates, 1e-12))
    residual = fit_residual(coordinates(ops), logs, repeats, NOISES, AMPLITUDES)
    return OpModel(rates, residual)


Alone = dict[SerialOp, list[tuple[float, float]]]  # noise and energy, J
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
        noise: 1, or more where something disturbed it.
    """

    work: SerialWork
    node: int
    kind: int
    energy_j: float
    noise: float = 1.0


@dataclass(frozen=True, slots=True)
class SerialModel(Saved):
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
    calls_j: Floats = field(metadata={"names": CALLS})

    def op_energies(self, ops: Sequence[SerialOp]) -> Floats:
        """Energy of ops run alone, J."""
        energy_j = np.zeros(len(ops))
        places: dict[str, list[int]] = {}
        for place, op in enumerate(ops):
            places.setdefault(self._kind(op), []).append(place)
        for kind, where in places.items():
            some = [ops[place] for place in where]
            if kind == ANY:
                some = [_as_any(op) for op in some]
            energy_j[where] = self.ops[kind].predict(some)
        return energy_j

    def _kind(self, op: SerialOp) -> str:
        if op.kind in self.ops:
            return op.kind
        others = [kind for kind in PRODUCTS if kind in self.ops]
        return others[0] if op.kind in PRODUCTS and others else ANY

    def inside_j(self, work: SerialWork) -> Floats:
        """Energy of every node as part of a run, J; parts add up."""
        factor = self.warm + self.cold * _coldness(work, self.cache_mib)[0]
        return self._with_calls(work, factor)

    def _with_calls(self, work: SerialWork, factor: Floats | float) -> Floats:
        ops_j = work.counts @ self.op_energies(work.ops)
        return factor * ops_j + work.calls @ self.calls_j

    def alone_j(self, work: SerialWork) -> Floats:
        """Energy of every node run in a loop of its own, as a measurement would, J."""
        factor = self.warm + self.cold * _coldness(work, self.cache_mib)
        whole = self._with_calls(work, factor)
        single = (work.counts.sum(axis=1) == 1) & (work.calls[:, 1] == 0)
        if not single.any():
            return whole
        return np.where(single, work.counts @ self.op_energies(work.ops), whole)

    def kernel_energies(self, _: Iterable[Kernel]) -> dict[Kernel, KernelEnergy]:
        """None: its ops are its own, and not kernels."""
        return {}

    def tree_energies(
        self, tree: ModelTree, _: TreeWork | None = None, __: Any = None
    ) -> tuple[Floats, Bools]:
        """Energy of every node, J, and which primitives were never measured."""
        work = serial_work(tree)
        measured = np.array([op.kind in self.ops for op in work.ops], bool)
        is_indirect = (tree.columns.kind >= ML) & ~work.counts[:, measured].any(axis=1)
        return self.inside_j(work), is_indirect

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values, which say of what form they are."""
        return {"form": "serial", **Saved.to_dict(self)}


def _as_any(op: SerialOp) -> SerialOp:
    return op._replace(kind=ANY, sizes=op.sizes[-2:], transposed=False)


def fit_serial(nodes: Iterable[MeasuredNode]) -> SerialModel:
    """Learn a machine from what was measured on it.

    Raises:
        UsageError: There is nothing to learn from.
    """
    alone: Alone = {}
    parents: list[MeasuredNode] = []
    for node in nodes:
        op = node.work.only_op(node.node) if node.kind == ML else None
        if op is not None:
            alone.setdefault(op, []).append((node.noise, node.energy_j))
        elif node.work.counts[node.node].any():
            parents.append(node)
    if not alone or not parents:
        raise UsageError("specs needs measured primitives and measured modules")
    ops = _fit_kinds(alone)
    return _compose(SerialModel(ops, 1.0, 0.0, 1.0, np.zeros(len(CALLS))), parents)


def _fit_kinds(alone: Alone) -> dict[str, OpModel]:
    kinds: dict[str, list[SerialOp]] = {}
    for op in alone:
        kinds.setdefault(op.kind, []).append(op)

    def fit(some: Sequence[SerialOp], shown_as: Sequence[SerialOp]) -> OpModel:
        energy_j = np.array([_least_noisy(alone[op]) for op in some])
        repeats = [sum(noise**-2 for noise, _ in alone[op]) for op in some]
        return fit_ops(shown_as, energy_j, np.array(repeats))

    ops = {
        kind: fit(ops, ops)
        for kind, ops in kinds.items()
        if len(ops) >= FEWEST or not any(op.mib for op in ops)
    }
    moving = [op for op in alone if op.mib]
    others = [op for op in moving if op.kind not in PRODUCTS] or list(alone)
    return {**ops, ANY: fit(others, [_as_any(op) for op in others])}


def _least_noisy(values: Sequence[tuple[float, float]]) -> float:
    """Median of the measurements that were disturbed least."""
    least = min(noise for noise, _ in values)
    return float(np.median([joules for noise, joules in values if noise == least]))


def _coldness(work: SerialWork, cache_mib: float) -> Floats:
    """From 0, all of a node fits the caches, to 1, nothing of it does."""
    mib = work.counts @ np.array([op.mib for op in work.ops])
    cold: Floats = mib / (mib + cache_mib)
    return cold


def _compose(model: SerialModel, parents: Sequence[MeasuredNode]) -> SerialModel:
    """Fit what lies between ops; of several sizes of the caches the best."""
    each: dict[int, Floats] = {}
    for work, *_ in parents:
        if id(work) not in each:
            each[id(work)] = model.op_energies(work.ops)
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
        [(MODEL_WEIGHT if p.kind == MODEL else 1.0) / p.noise**2 for p in parents]
    )
    weight, error = np.sqrt(level), level
    rates = np.zeros(features.shape[1])
    for _ in range(ROUNDS):
        rates = relative_nnls(features * (weight / energy_j)[:, None], weight)
        error = np.sqrt((features @ rates / energy_j - 1.0) ** 2 + SOFT**2)
        weight = np.sqrt(level / error)
    return float((level * error).sum() / level.sum()), rates
