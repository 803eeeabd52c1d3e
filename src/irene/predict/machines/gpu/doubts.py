"""Why energies on a GPU are uncertain.

Kernels of one kind come from one table: their errors are one error. What has no table,
or lies beyond the servings that were measured, adds its own, by how much of the energy
it concerns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from irene.arrays import Floats
from irene.predict.intervals import Beyond, Doubt
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.engines import TODAY
from irene.predict.machines.gpu.gpu_device import OpCosts
from irene.predict.machines.gpu.kernel_models import ROUGH
from irene.predict.machines.gpu.kernel_ops import (
    Collective,
    Gemm,
    Memory,
    Moe,
    Op,
)
from irene.predict.machines.gpu.node_ops import GAP, NodeOps
from irene.predict.machines.gpu.passes import OwnCosts
from irene.predict.machines.gpu.serving_calibration import (
    LONG_ANSWER,
    STORED,
    Calibration,
    is_block,
    is_packed,
)
from irene.spec import RunSpec
from irene.trace.serving.tree import is_serving_tree
from irene.tree import ModelTree

WORTH_SAYING = 0.01
SERVED: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "vllm": {
        "batch_size": (8, 512), "prompt_len": (250, 2000), "output_len": (230, 9500),
        "gpus": (1, 8),
    },
    "llama.cpp": {
        "batch_size": (1, 1), "prompt_len": (79, 434), "output_len": (360, 14451),
        "gpus": (1, 1),
    },
}  # fmt: skip
"""Least and most of the servings that calibrations are from, by their engine."""
SERVED_OCTAVE = 0.07
"""Half the interval, in log units, for each octave beyond: what the errors of two
batches that are so far apart differ by (`benchmarks/coverage.py`)."""
CONTRADICTED = 1.0
"""Half the interval of kernels that servings contradict each other about: as far as
those of Hopper are from their tables, 1.9 times the time at 1.5 times the power."""
SINGLE = 0.3
"""The same of 4-bit experts, which one family of servings has: without it they are
predicted up to 0.3 too high on Blackwell, half of whose energy they are."""
GGUF = ROUGH[1]
"""The same of weights of GGUF where servings are of an engine that has none."""
EXCHANGED = 0.4
"""The same of exchanges between GPUs, whose power is assumed: 0.1 to 0.5 of the span
between idle and limit where 0.3 is taken."""
WAITED = 0.4
"""The same of what steps of long answers on one GPU wait for their host where servings
show that they do; an assumption."""
WAITING = 0.3
"""The same of such a run where no serving shows whether they do: B200 waited, H100 did
not; an assumption."""
DOUBTED = {
    "contradicted": "in experts of block-scaled fp8, which take the time of their "
    "table in one family of measured servings and twice that in another",
    "single": "in experts of 4 bit, which one family of measured servings has",
    "packed": "in products of 4 bit, which no measured serving has",
    "gguf": "in weights of GGUF, which were measured in llama.cpp alone",
    "exchanged": "in exchanges between GPUs, at a power that nobody measured",
    "tables": "in kernels whose tables miss shapes left out by more than servings do",
}
"""What is doubted though it has a table, in words."""
FP32 = 0.6
"""Half the interval of fp32 as twice bf16: true fp32 of large products takes up to
twice that, and nothing takes less than its bytes."""


def doubted(
    ops: Sequence[Op], sheet: Datasheet, engine: str
) -> dict[int, tuple[str, float]]:
    """Ops of servings that are doubted though they have a table, by place.

    The engine is that of the servings that the GPU's calibration is from.
    """
    found = {}
    for place, op in enumerate(ops):
        stored = STORED.get(op.dtype) if isinstance(op, Gemm | Moe) else None
        if isinstance(op, Collective):
            found[place] = "exchanged", EXCHANGED
        elif sheet.architecture == "blackwell" and is_block(op):
            found[place] = "contradicted", CONTRADICTED
        elif sheet.architecture == "blackwell" and is_packed(op):
            found[place] = "single", SINGLE
        elif engine == TODAY and stored == "gguf":
            found[place] = "gguf", GGUF
        elif engine == TODAY and stored == "fp4" and isinstance(op, Gemm):
            found[place] = "packed", SINGLE
    return found


@dataclass(frozen=True, slots=True)
class OpDoubts:
    """How uncertain distinct ops are, an array each in their order.

    Attributes:
        kinds: Kind of each, as a place in the list of kinds.
        table: Half the interval of its table, in log units.
        reasons: Why it is rough, "" where it is not.
        doubt: What that adds, in log units.
    """

    kinds: Floats
    table: Floats
    reasons: tuple[str, ...]
    doubt: Floats

    @classmethod
    def of(cls, nodes: NodeOps, costs: OpCosts) -> OpDoubts:
        """Those of the ops of a tree; whole runs have shown what moving bytes takes."""
        names = [type(op).__name__ for op in nodes.ops]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        is_moving = [isinstance(op, Memory) for op in nodes.ops]
        doubt = np.where(is_moving, 0.0, costs.doubt)
        reasons = list(costs.reasons)
        for place, (why, off) in nodes.reasons.items():
            doubt[place] = max(doubt[place], off)
            reasons[place] = reasons[place] if doubt[place] > off else why
        half = np.log(costs.time_high / costs.time_low) / 2
        return cls(
            np.array([places[name] for name in names], dtype=np.float64),
            np.sqrt(np.maximum(half**2 - costs.doubt**2, 0.0)),
            tuple(reasons),
            doubt,
        )

    def widths(
        self, tree: ModelTree, nodes: NodeOps, own: OwnCosts, width: float
    ) -> tuple[Floats, list[Beyond]]:
        """Half the interval of every row, in log units, and what makes it wider.

        What whole servings show, half their interval being `width`, holds the errors of
        tables; parts show them more, and where tables are worse than that, the rest of
        it is a cause.
        """
        table = self._table_widths(tree, nodes, own)
        causes = self._beyond(tree, nodes, own)
        held = min(width / table[0], 1.0) if table[0] else 1.0
        if held < 1.0:
            touched = own.each_j @ tree.multiplicity[nodes.rows]
            share = float(touched / (own.joules @ tree.multiplicity))
            rest = math.sqrt(1.0 - held**2) * table
            words = DOUBTED["tables"]
            causes.append(Beyond("tables", words, rest, share, is_beyond=False))
        shared = math.sqrt(max(width**2 - table[0] ** 2, 0.0))
        return np.hypot(held * table, shared), causes

    def _table_widths(self, tree: ModelTree, nodes: NodeOps, costs: OwnCosts) -> Floats:
        """Half the interval of every row by its kernels' tables alone, in log units."""
        kinds = self.kinds[nodes.place].astype(np.int64)
        own = np.zeros((len(tree), int(kinds.max(initial=0)) + 2))
        np.add.at(own, (nodes.rows, kinds), costs.each_j * self.table[nodes.place])
        own[:, -1] = costs.joules
        sums = tree.columns.inclusive(own, tree.structure.levels)
        whole = np.where(sums[:, -1] > 0, sums[:, -1], 1.0)
        widths: Floats = np.sqrt((sums[:, :-1] ** 2).sum(axis=1)) / whole
        return widths

    def _beyond(self, tree: ModelTree, nodes: NodeOps, own: OwnCosts) -> list[Beyond]:
        """Ops that no table has, by why."""
        found = []
        whole = np.where(own.joules > 0, own.joules, 1.0)
        for why in dict.fromkeys(filter(None, self.reasons)):
            mine = np.array([each == why for each in self.reasons]) & (self.doubt > 0)
            if mine.any():
                doubtful = own.each_j * (self.doubt * mine)[nodes.place]
                doubt = np.bincount(nodes.rows, doubtful, len(tree)) / whole
                words = f"in kernels without a measurement ({why})"
                words = DOUBTED.get(why, words)
                assumed = bool(np.isin(self.doubt[mine], (ROUGH[1], EXCHANGED)).all())
                is_beyond = why not in ("exchanged", "single")
                found.append(Doubt(why, words, doubt, assumed, is_beyond))
        return Beyond.of(tree, own.joules, found)

    def notes(self, tree: ModelTree, nodes: NodeOps, each_j: Floats) -> list[str]:
        """What is rough of kernels, and yet no reason to doubt the whole."""
        shares: dict[str, float] = {}
        times = each_j * tree.multiplicity[nodes.rows]
        total = float(times.sum()) or 1.0
        for place, joules in zip(nodes.place.tolist(), times.tolist(), strict=True):
            why = self.reasons[place]
            if why and not self.doubt[place]:
                shares[why] = shares.get(why, 0.0) + joules / total
        return [
            f"{share:.0%} of the energy is rough: {why}"
            for why, share in sorted(shares.items(), key=lambda item: -item[1])
            if share > WORTH_SAYING
        ]


def beyond_servings(
    tree: ModelTree, own_j: Floats, gpu: str, told: Calibration
) -> list[Beyond]:
    """What of a run no measured serving had, of which `told` is for the GPU."""
    spec = tree.spec
    if spec is None:
        return []
    found = list(_of_serving(tree, spec, gpu, told)) if is_serving_tree(tree) else []
    if spec.dtype == "fp32":
        words = (
            "in fp32, which was never measured: taken as twice bf16, as with TF32; "
            "true fp32, PyTorch's default, takes more in large products"
        )
        found.append(Doubt("fp32", words, np.full(len(tree), FP32), True))
    return Beyond.of(tree, own_j, found)


def _of_serving(
    tree: ModelTree, spec: RunSpec, gpu: str, told: Calibration
) -> Iterator[Doubt]:
    everywhere = np.ones(len(tree))
    if told.unserved:
        words = f"on {gpu}, where no serving was measured: taken from {told.source}"
        yield Doubt("unserved", words, told.unserved * everywhere)
    if spec.data_parallel > 1 and "fused_moe" in tree.strings:
        words = f"of {spec.data_parallel} groups of GPUs that share experts, as in no "
        words += "serving that was measured"
        yield Doubt("data parallel", words, ROUGH[1] * everywhere, True)
    if (spec.output_len or 1) >= LONG_ANSWER and spec.gpus == spec.data_parallel:
        if told.unserved:
            words = "in long answers on one GPU, whose host may make it wait"
            yield Doubt("waiting", words, WAITING * everywhere, True)
        elif told.long_gap_s:
            gaps = np.array([tree.strings[op] == GAP for op in tree.columns.op])
            words = "in waiting for the host, as long answers on one GPU were seen to"
            yield Doubt("waited", words, WAITED * gaps, True, is_beyond=False)
    yield from _sizes(tree, spec, told.engine)


def _sizes(tree: ModelTree, spec: RunSpec, engine: str) -> Iterator[Doubt]:
    """Sizes beyond those of the servings that were measured."""
    everywhere = np.ones(len(tree))
    prompt = spec.prompt_len if spec.phase == "generate" else spec.seq_len
    in_prefill = everywhere
    if spec.phase == "generate":
        in_prefill = np.array([float(p.startswith("prefill")) for p in tree.paths])
    for name, what, value, rows in (
        ("batch_size", "where streams at a time are {}", spec.batch_size, everywhere),
        ("prompt_len", "in prompts of {} tokens", prompt, in_prefill),
        ("output_len", "in answers of {} tokens", spec.output_len, everywhere),
        ("gpus", "on {} GPUs", spec.gpus, everywhere),
    ):
        if value is None or (name == "prompt_len" and spec.phase == "decode"):
            continue
        low, high = SERVED[engine][name]
        octaves = math.log2(max(low / max(value, 1), value / high, 1.0))
        if octaves > 0:
            words = f"{what.format(f'{value:,}')}, measured {low:,.0f} to {high:,.0f}"
            side = "below" if value < low else "above"
            yield Doubt(f"{name} {side}", words, SERVED_OCTAVE * octaves * rows)
