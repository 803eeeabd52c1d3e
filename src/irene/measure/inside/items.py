"""Runs one item of a design under the meters, and keeps what was seen.

What is kept is short: every distinct op once, with its shapes, how often it ran, and
its time; the whole run with its energy; which ops are in which module.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear
from transformers import AutoConfig

from irene.measure.alone.bench import Bench, undisturbed
from irene.measure.alone.rounds import Round, flags_of
from irene.measure.alone.target import available_bytes
from irene.measure.inside.designs import Block, Item, Product
from irene.measure.inside.op_timing import (
    Prepared,
    clock_of,
    prepare,
    timed_ops,
    watching_cost_s,
)
from irene.measure.inside.seen import Measured, OpTime, Part, Whole
from irene.measure.protocol import MeasureProtocol
from irene.spec import RunSpec
from irene.trace.costs.call import dtype_name
from irene.trace.models import TORCH_DTYPES
from irene.tree import KINDS, ModelTree

PROTOCOL = MeasureProtocol(
    rounds=3, round_s=0.06, extra_rounds=2, warm_up_s=0.02, idle_s=1.0, cool_s=0.0
)
"""Rounds of a whole block."""
POOL_MIB = 288
FLUSH_MIB = 96.0
"""What is read between two runs so that nothing of a model is left in the caches."""
PASSES, FEW_PASSES = 4, 2
LONG_S = 0.06
"""Runs longer than this are repeated less often."""
BATCH_S, BATCHES = 0.008, 3
MIB = 2**20
MATH, ML, MODULE = (KINDS.index(kind) for kind in ("math", "ml", "module"))
FRESH_MIB = 64


class Runner:
    """Runs items on one device."""

    def __init__(self, bench: Bench, device: str) -> None:
        self.bench, self.device = bench, device
        self._wait = bench.synchronise
        self._clock = clock_of(device, self._wait)
        room = available_bytes(device)
        mib = POOL_MIB if room is None else max(16, min(POOL_MIB, room // MIB // 8))
        self._pool = torch.randn(mib * MIB // 4, device=device) * 0.02
        self._at = 0
        self._cost_s = watching_cost_s(device, self._clock)
        self._call_s = self._loop_cost_s()
        side = torch.randn(512, 512, device=device)
        self._reference = lambda: torch.mm(side[:64], side)
        self.fault_s_mib = self._faults()

    def speed(self) -> float:
        """Speed of a middling product, GFLOP/s."""
        left = self._pool[: 128 * 1024].view(128, 1024)
        right = self._pool[: 1024 * 1024].view(1024, 1024)
        taken = [self._timed(lambda: torch.mm(left, right), 3) for _ in range(3)]
        return 2e-9 * 128 * 1024 * 1024 / min(taken)

    def measure(self, item: Item) -> Measured:
        """Run an item; what cannot be run says why."""
        begun = time.perf_counter()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        family = item.block.family if item.block else ""
        try:
            with undisturbed(), torch.no_grad():
                found = self._block(item) if item.block else self._products(item)
        except Exception as error:  # noqa: BLE001  one block must not end the learning
            problem = str(error).strip().splitlines() or [type(error).__name__]
            return Measured(item.key, item.kind, family, problem=problem[0], date=now)
        reference_s = min(self._timed(self._reference, 1) for _ in range(6))
        values = {**found, "reference_s": reference_s, "date": now}
        seconds = time.perf_counter() - begun
        return Measured(item.key, item.kind, family, seconds=seconds, **values)

    def _products(self, item: Item) -> dict[str, Any]:
        rows: list[OpTime] = []

        def run() -> None:
            rows.extend(self._product(each) for each in item.products)

        one = self.bench.round(run, 1)
        return {"ops": tuple(rows), **_disturbed([one])}

    def _product(self, product: Product) -> OpTime:
        dtype = TORCH_DTYPES[product.dtype]
        pool = self._pool.view(dtype) if dtype != torch.float32 else self._pool
        m, n, k = product.m, product.n, product.k
        left = pool[: m * k].view(m, k).clone()
        bias = pool[:n].clone() if product.bias else None
        size = n * k
        room = int(product.pool_mib * MIB) // dtype.itemsize
        places = max(1, min(room, len(pool)) // size) if room else 1

        def run() -> None:
            at = (self._at % places) * size
            self._at += 1
            weight = pool[at : at + size]
            if not product.inputs_first:
                linear(left, weight.view(n, k), bias)
            elif bias is None:
                torch.mm(left, weight.view(k, n))
            else:
                torch.addmm(bias, left, weight.view(k, n))

        each_s = self._timed(run, 1)
        count = max(1, math.ceil(BATCH_S / max(each_s, 1e-6)))
        taken = [self._timed(run, count) for _ in range(BATCHES)]
        seconds = max(median(taken) - self._call_s, 1e-7)
        shapes = ((n,),) * bool(product.bias) + ((m, k), (k, n))
        moved = (m * k + k * n + m * n) * dtype.itemsize
        pool_mib = places * size * dtype.itemsize / MIB if places > 1 else 0.0
        return OpTime(
            "aten.addmm" if product.bias else "aten.mm",
            "Conv1D" if product.inputs_first else "Linear",
            *(shapes, ((m, n),), dtype_name(dtype), 2 * m * n * k, moved, 1),
            *(seconds, 0.0, pool_mib),
        )

    def _block(self, item: Item) -> dict[str, Any]:
        assert item.block is not None
        target = self.prepared(item.block)
        repeats = self.bench.calibrate(target.run)
        rounds = [self.bench.round(target.run, repeats) for _ in range(PROTOCOL.rounds)]
        while any(flags_of(rounds)) and len(rounds) < 5:
            rounds.append(self.bench.round(target.run, repeats))
        run_s = min(each.latency_s for each in rounds)
        passes = PASSES if run_s < LONG_S else FEW_PASSES
        tree, hot_s = timed_ops(target, passes, self._clock, lambda: None)
        _, cold_s = timed_ops(target, passes, self._clock, self._flush)
        if len(cold_s) != len(hot_s):
            cold_s = np.zeros(len(hot_s))
        ops, parts = part_rows(tree, self._own(hot_s), self._own(cold_s))
        calls = (int((tree.columns.kind == MATH).sum()), _modules(tree, 0))
        clean = [r for r, f in zip(rounds, flags_of(rounds), strict=True) if not f]
        used = clean or rounds
        times = [each.latency_s for each in used]
        energy_j = median(each.energy_j for each in used)
        spread = (max(times) - min(times)) / median(times)
        energy_j = energy_j if math.isfinite(energy_j) else 0.0
        whole = Whole(calls, median(times), spread, energy_j)
        return {"ops": ops, "parts": parts, "whole": whole, **_disturbed(rounds)}

    def prepared(self, block: Block) -> Prepared:
        """A block, ready to run."""
        spec = RunSpec.asked(block.family, dict(block.run))
        name = block.fields.get("name")
        if name is not None:
            return prepare(name, spec.of(name), self.device)
        return prepare(
            AutoConfig.for_model(block.family, **block.fields), spec, self.device
        )

    def _own(self, seconds: Any) -> Any:
        """Times without what watching adds."""
        return np.where(seconds > 0, np.maximum(seconds - self._cost_s, 1e-7), 0.0)

    def _flush(self) -> None:
        self._pool[: int(FLUSH_MIB * MIB / 4)].sum()
        self._wait()

    def _timed(self, run: Callable[[], Any], count: int) -> float:
        self._wait()
        begun = time.perf_counter()
        for _ in range(count):
            run()
        self._wait()
        return (time.perf_counter() - begun) / count

    def _loop_cost_s(self) -> float:
        """What a call that does nothing takes in a loop, s."""
        tensor = torch.zeros(8, device=self.device)
        return min(self._timed(lambda: tensor.view(2, 4), 200) for _ in range(5))

    def _faults(self) -> float:
        """What a MiB that is fetched anew costs on top, s."""
        if self.device != "cpu":
            return 0.0
        size = FRESH_MIB * MIB // 4
        kept = torch.empty(size)
        kept.fill_(1.0)
        warm_s = min(self._timed(lambda: kept.fill_(1.0), 1) for _ in range(3))
        fresh_s = min(
            self._timed(lambda: torch.empty(size).fill_(1.0), 1) for _ in range(3)
        )
        return max(0.0, fresh_s - warm_s) / FRESH_MIB


def part_rows(
    tree: ModelTree, hot_s: Any, cold_s: Any
) -> tuple[tuple[OpTime, ...], tuple[Part, ...]]:
    """Distinct ops of a timed tree, and which of them are in which module."""
    columns, groups = tree.columns, dict[Any, list[int]]()
    rows = np.flatnonzero(columns.kind == MATH)
    moved = columns.bytes_read + columns.bytes_written
    for row in rows.tolist():
        key = (
            *(int(columns.op[row]), int(columns.op[tree.parents[row]])),
            *(int(columns.signature[row]), int(columns.flops[row]), int(moved[row])),
        )
        groups.setdefault(key, []).append(row)
    which, ops = np.zeros(len(tree), dtype=np.int64), []
    for place, ((op, primitive, signature, flops, size), some) in enumerate(
        groups.items()
    ):
        which[some] = place
        shapes = tree.signatures[signature]
        ops.append(
            OpTime(
                *(tree.strings[op], tree.strings[primitive]),
                *(shapes.inputs, shapes.outputs, shapes.dtype),
                *(flops, size, len(some)),
                *(float(np.median(hot_s[some])), float(np.median(cold_s[some]))),
                0.0,
            )
        )
    return tuple(ops), tuple(_parts(tree, which, hot_s))


def _parts(tree: ModelTree, which: Any, hot_s: Any) -> list[Part]:
    columns, found = tree.columns, dict[Any, Part]()
    for row in np.flatnonzero(columns.kind == MODULE).tolist():
        below = np.arange(row, tree.ends[row])
        math_rows = below[columns.kind[below] == MATH]
        places, counts = np.unique(which[math_rows], return_counts=True)
        ops = tuple(zip(places.tolist(), counts.tolist(), strict=True))
        name = tree.strings[columns.op[row]]
        calls = (len(math_rows), _modules(tree, row))
        part = Part(name, ops, calls, float(hot_s[math_rows].sum()))
        found.setdefault((name, ops), part)
    return list(found.values())


def _modules(tree: ModelTree, row: int) -> int:
    """Modules and primitives that are modules, of a subtree."""
    kinds = tree.columns.kind[row : tree.ends[row]]
    return int(((kinds == MODULE) | (kinds == ML)).sum())


def _disturbed(rounds: list[Round]) -> dict[str, Any]:
    """Flags that most rounds have, and the load of others."""
    flags = flags_of(rounds)
    clean = sum(not each for each in flags)
    told = sorted({flag for each in flags for flag in each})
    others = [each.others for each in rounds if each.others == each.others]
    return {
        "flags": () if 2 * clean >= len(rounds) else tuple(told),
        "others": round(max(0.0, median(others)), 1) if others else 0.0,
    }
