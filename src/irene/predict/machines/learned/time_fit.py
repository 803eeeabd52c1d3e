"""Learns a machine from ops that were timed inside models, and examines it.

The exam leaves a quarter of the blocks out after the other: a machine that was learned
without them predicts their ops, modules and whole runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from irene.arrays import Floats
from irene.errors import UsageError
from irene.predict.intervals import LEVELS
from irene.predict.machines.learned.op_models import OpTimes, fit_op_times
from irene.predict.machines.learned.timed_op import (
    TimedOp,
    coldness,
    footprint_mib,
    product_of_group,
    timed_op,
)
from irene.predict.machines.specs.regression import FLAGGED, relative_nnls
from irene.saved import Saved
from irene.tree import Signature

CALLS = ("math ops", "modules")
CLASSES = ("products", "other ops", "calls")
"""Kinds of work that differ in power."""
ANY = "any"
PRODUCTS = ("gemm", "bmm", "conv", "grouped", "attention")
FLUSH_MIB = 96.0
LEAST_S = 2e-5
"""Ops shorter than this say more about the clock than about the op."""
FOLDS = 4
SOFT = 0.03
ROUNDS = 12
OTHERS = {"fp16": ("bf16", ""), "bf16": ("", "")}
"""Types that stand in for one that was never measured."""


@dataclass(frozen=True, slots=True)
class TimeModel(Saved):
    """Time and energy of ops inside models, and of what lies between them.

    Attributes:
        ops: Time of each kind of op; `any` for those that were never measured.
        factors: Time in an unwatched run over that of an op that was watched, of
            products and of other ops.
        calls_s: s per call of each of `CALLS`.
        run_s: s per run.
        fault_s_mib: s per MiB of results that are fetched from the system anew.
        host_s: On a device that works by itself, no op is quicker than this, s.
        watts: Power of each of `CLASSES`, W.
    """

    ops: Mapping[str, OpTimes]
    factors: tuple[float, float]
    calls_s: Floats = field(metadata={"names": CALLS})
    run_s: float
    fault_s_mib: float
    host_s: float
    watts: Floats = field(metadata={"names": CLASSES})

    def watched_s(self, ops: Sequence[TimedOp], cold: Floats) -> Floats:
        """Time of ops as a watcher sees it, s."""
        seconds = np.zeros(len(ops))
        places: dict[str, list[int]] = {}
        for place, op in enumerate(ops):
            places.setdefault(self.kind_of(op), []).append(place)
        for kind, where in places.items():
            some = [ops[place] for place in where]
            if kind == ANY:
                some = [_as_any(op) for op in some]
            elif kind.startswith("grouped"):
                some = self._in_products(some, cold[where])
            fresh = np.array([op.fresh_mib for op in some]) * self.fault_s_mib
            seconds[where] = self.ops[kind].seconds(some, cold[where]) + fresh
        return np.maximum(seconds, self.host_s)

    def _in_products(self, ops: Sequence[TimedOp], cold: Floats) -> list[TimedOp]:
        """Grouped products, their work in ms of the products that they are made of."""
        counts, each = zip(*map(product_of_group, ops), strict=True)
        taken_ms = 1e3 * np.array(counts) * self.watched_s(each, cold)
        return [
            op._replace(gflop=float(ms), mib=0.0, weight_mib=0.0)
            for op, ms in zip(ops, taken_ms, strict=True)
        ]

    def unwatched_s(self, ops: Sequence[TimedOp], cold: Floats) -> Floats:
        """Time of ops in a usual run, s."""
        product = np.array([is_product(op) for op in ops], bool)
        factor = np.where(product, *self.factors)
        return factor * self.watched_s(ops, cold)

    def kind_of(self, op: TimedOp) -> str:
        """The kind whose model stands for an op."""
        name, _, dtype = op.kind.partition(" ")
        other = name.removesuffix("*") if name.endswith("*") else f"{name}*"
        for each in (dtype, *OTHERS.get(dtype, ())):
            for kind in (name, other) if name not in PRODUCTS else (name,):
                full = f"{kind} {each}".strip()
                if full in self.ops:
                    return full
        return ANY

    def is_measured(self, op: TimedOp) -> bool:
        """Whether ops of its kind and type were measured."""
        return op.kind in self.ops


class Sample(NamedTuple):
    """One measured item, read.

    Attributes:
        family: Of a block; "" for products.
        rows: Ops, how cold, seconds.
        noise: 1, or more where something disturbed it.
        ops: Distinct ops of a block.
        counts: How often each runs.
        cold: How cold the weights of the block are.
        hot_s: Time of each op while the block ran again and again, s.
        calls: Of the whole block.
        seconds: Of the whole block, s; 0 for products.
        energy_j: Of the whole block, J.
        parts: Of each module: counts of ops, its ops together, s.
    """

    family: str
    rows: list[tuple[TimedOp, float, float]]
    noise: float
    ops: list[TimedOp]
    counts: Floats
    cold: float
    hot_s: Floats
    calls: Floats
    seconds: float
    energy_j: float
    parts: list[tuple[Floats, float]]


def samples_of(items: Iterable[Any], slow: float) -> list[Sample]:
    """Read measured items.

    The machine was throttled where the reference product took longer than `slow`, s.
    """
    return [_sample(item, slow) for item in items if item.ops]


def _op_of(row: Any) -> TimedOp:
    shapes = Signature(row.inputs, row.outputs, row.dtype)
    return timed_op(row.op, row.primitive, shapes, row.moved, row.flops)


def _sample(item: Any, slow: float) -> Sample:
    moving = [i for i, each in enumerate(item.ops) if each.moved]
    place = {old: new for new, old in enumerate(moving)}
    some = [item.ops[i] for i in moving]
    ops = [_op_of(o) for o in some]
    counts = np.array([float(o.times) for o in some])
    touched = footprint_mib(ops, counts, counts) if item.whole else 0.0
    rows = []
    for op, o in zip(ops, some, strict=True):
        if o.hot_s > 0:
            rows.append((op, float(coldness(touched + o.pool_mib)), o.hot_s))
        if o.cold_s > 0:
            rows.append((op, float(coldness(touched + FLUSH_MIB)), o.cold_s))
    parts = []
    for part in item.parts:
        inside = np.zeros(len(ops))
        for i, n in part.ops:
            if i in place:
                inside[place[i]] += n
        parts.append((inside, part.hot_s))
    whole = item.whole
    return Sample(
        item.family,
        rows,
        FLAGGED if item.flags or item.reference_s > slow else 1.0,
        ops,
        counts,
        float(coldness(touched)),
        np.array([o.hot_s for o in some]),
        np.array(whole.calls if whole else (0, 0), dtype=float),
        whole.seconds if whole else 0.0,
        whole.energy_j if whole else 0.0,
        parts,
    )


def is_product(op: TimedOp) -> bool:
    """Whether an op multiplies and adds for most of its time."""
    return op.kind.partition(" ")[0] in PRODUCTS


def _as_any(op: TimedOp) -> TimedOp:
    sizes = (op.sizes[0], op.sizes[-1]) if len(op.sizes) > 1 else (1, op.sizes[0])
    return op._replace(kind=ANY, sizes=sizes, layout=0.0)


def fit_times(
    samples: Sequence[Sample], fault_s_mib: float, on_cpu: bool = True
) -> TimeModel:
    """Learn a machine.

    On a CPU an op is done when its call returns.

    Raises:
        UsageError: There is nothing to learn from.
    """
    kinds: dict[str, list[tuple[TimedOp, float, float, float]]] = {}
    for sample in samples:
        for op, cold, seconds in sample.rows:
            own_s = max(seconds - op.fresh_mib * fault_s_mib, 0.2 * seconds)
            row = (op, cold, own_s, sample.noise)
            kinds.setdefault(op.kind, []).append(row)
            if not is_product(op) and op.gflop < 1.0:
                kinds.setdefault(ANY, []).append((_as_any(op), *row[1:]))
    blocks = [sample for sample in samples if sample.seconds]
    if ANY not in kinds or not blocks:
        raise UsageError("too little was measured to learn from: let it run longer")
    others = _fit_kind(kinds[ANY])
    grouped = {kind: kinds.pop(kind) for kind in [*kinds] if "grouped" in kind}
    ops = {ANY: others} | {
        kind: _fit_kind(rows, None if is_product(rows[0][0]) else others)
        for kind, rows in kinds.items()
        if kind != ANY
    }
    factors, calls_s, run_s = _between(blocks)
    host_s = 0.0 if on_cpu else float(calls_s[0])
    model = TimeModel(
        ops,
        factors,
        calls_s if on_cpu else np.zeros(2),
        run_s,
        fault_s_mib,
        host_s,
        np.zeros(len(CLASSES)),
    )
    for kind, rows in grouped.items():
        colds = np.array([each for _, each, *_ in rows])
        in_products = model._in_products([op for op, *_ in rows], colds)
        made = zip(in_products, rows, strict=True)
        ops[kind] = _fit_kind([(op, *row[1:]) for op, row in made])
    return _with_watts(model, blocks)


def _fit_kind(
    rows: Sequence[tuple[TimedOp, float, float, float]], others: OpTimes | None = None
) -> OpTimes:
    ops, cold, seconds, noise = zip(*rows, strict=True)
    short = 1.0 + np.minimum(LEAST_S / np.array(seconds), 3.0)
    each = np.array(noise) * short
    return fit_op_times(ops, np.array(cold), np.array(seconds), each, others)


def _between(blocks: Sequence[Sample]) -> tuple[tuple[float, float], Floats, float]:
    """What an unwatched run takes of what a watcher sees, and what calls cost."""
    rows = []
    for block in blocks:
        product = np.array([is_product(op) for op in block.ops], bool)
        each = block.counts * block.hot_s
        rows.append([each[product].sum(), each[~product].sum(), *block.calls, 1.0])
    work, seconds = np.array(rows), np.array([block.seconds for block in blocks])
    noise = np.array([block.noise for block in blocks])
    weight = 1.0 / noise
    rates = np.zeros(work.shape[1])
    for _ in range(ROUNDS):
        rates = relative_nnls(work * (weight / seconds)[:, None], weight)
        error = np.sqrt((work @ rates / seconds - 1.0) ** 2 + SOFT**2)
        weight = 1.0 / noise / np.sqrt(error)
    factors = tuple(float(f) if 0.5 < f < 1.5 else 1.0 for f in rates[:2])
    return (factors[0], factors[1]), rates[2:4], float(rates[4])


def _classes_s(model: TimeModel, block: Sample) -> Floats:
    """Time of a block in each of `CLASSES`, s."""
    cold = np.full(len(block.ops), block.cold)
    each = block.counts * model.unwatched_s(block.ops, cold)
    product = np.array([is_product(op) for op in block.ops], bool)
    calls_s = float(block.calls @ model.calls_s) + model.run_s
    return np.array([each[product].sum(), each[~product].sum(), calls_s])


def _with_watts(model: TimeModel, blocks: Sequence[Sample]) -> TimeModel:
    known = [block for block in blocks if block.energy_j > 0]
    if not known:
        raise UsageError("no meter gave an energy: `irene doctor` says what would help")
    times = np.array([_classes_s(model, block) for block in known])
    # Time that the model gets wrong is not power: shares of the time that it took.
    shares = times / times.sum(axis=1, keepdims=True)
    power_w = np.array([block.energy_j / block.seconds for block in known])
    mean_w = float(np.median(power_w))
    held = 0.3 * np.sqrt(len(known)) * np.eye(len(CLASSES))  # near the mean, if unsure
    watts = relative_nnls(
        np.vstack([shares * mean_w / power_w[:, None], held]),
        np.append(np.ones(len(known)), np.full(len(CLASSES), held[0, 0])),
    )
    return replace(model, watts=watts * mean_w)


def errors_left_out(
    samples: Sequence[Sample], fault_s_mib: float, on_cpu: bool = True
) -> dict[str, dict[str, Floats]]:
    """Errors of blocks that a machine was learned without.

    Blocks are dealt out in turn, family by family, so that each is predicted from
    others, of its family too.

    Returns:
        By family and level, measured time, s, and log(predicted / measured).
    """
    blocks = sorted((s for s in samples if s.seconds), key=lambda each: each.family)
    others = [each for each in samples if not each.seconds]
    found: dict[str, dict[str, list[Floats]]] = {}
    for fold in range(FOLDS):
        kept = [each for i, each in enumerate(blocks) if i % FOLDS != fold]
        if not kept:
            continue
        model = fit_times([*others, *kept], fault_s_mib, on_cpu)
        for block in blocks[fold::FOLDS]:
            for level, logs in errors_of(model, [block]).items():
                found.setdefault(block.family, {}).setdefault(level, []).append(logs)
    return {
        family: {level: np.concatenate(logs) for level, logs in levels.items()}
        for family, levels in found.items()
    }


def errors_of(model: TimeModel, blocks: Sequence[Sample]) -> dict[str, Floats]:
    """Measured time, s, and log(predicted / measured) by level."""
    logs: dict[str, list[tuple[float, float]]] = {level: [] for level in LEVELS}
    for block in blocks:
        cold = np.full(len(block.ops), block.cold)
        each = model.watched_s(block.ops, cold)
        long = block.hot_s > LEAST_S
        off = np.log(each[long] / block.hot_s[long])
        logs["ml"] += zip(block.hot_s[long].tolist(), off.tolist(), strict=True)
        for inside, hot_s in block.parts:
            if hot_s > 2 * LEAST_S and inside.any():
                off_s = float(np.log(inside @ each / hot_s))
                logs["module"].append((hot_s, off_s))
        total = float(_classes_s(model, block).sum())
        logs["model"].append((block.seconds, float(np.log(total / block.seconds))))
    return {level: np.array(v).reshape(-1, 2) for level, v in logs.items()}
