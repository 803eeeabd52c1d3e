"""A data-centre GPU that predicts trees: serving steps, generations, traced models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.learned_file import Floats, digest_of
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.gpu_device import GpuDevice, OpCosts
from irene.predict.machines.gpu.kernel_work import Work
from irene.predict.machines.gpu.node_ops import GAP, NodeOps, serving_ops, traced_ops
from irene.predict.machines.gpu.serving_calibration import (
    Calibration,
    OpKinds,
    regime_of,
)
from irene.spec import Attention, DType
from irene.trace.serving.tree import is_serving_tree
from irene.tree import ModelTree, Node

__all__ = ["GpuMachine", "memory_note", "roughness_notes"]

FP32_FACTOR = 2.0
"""fp32 moves twice the bytes of bf16, and multiplies at most half as fast (TF32)."""
UNMEASURED_WIDTH = 0.5
"""Half the interval, in log units, of what is no serving: nobody measured such a run as
a whole."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """Of every row by itself: J, ends of the interval in log units, s."""

    joules: Floats
    width: Floats
    time_s: Floats
    static_j: Floats


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """Energy of every node of a tree on one kind of GPU, with intervals.

    Attributes:
        device: Time, power and energy of single kernels.
        calibration: How servings differ from the sum of their kernels.
        digest: SHA-256 of everything that decides its predictions.
    """

    device: GpuDevice
    calibration: Calibration = field(default_factory=Calibration)
    digest: str = field(init=False, default="")

    usual_dtype: ClassVar[DType] = "bf16"
    usual_attention: ClassVar[Attention] = "sdpa"
    serves: ClassVar = True

    def __post_init__(self) -> None:
        """Name the content."""
        content = {
            "device": self.device.digest,
            "sheet": self.device.sheet.to_dict(),
            "calibration": self.calibration.to_dict(),
        }
        object.__setattr__(self, "digest", digest_of(content))

    @property
    def hardware(self) -> Hardware:
        """The machine, as trees carry it."""
        sheet = self.device.sheet
        name = f"{self.device.name} {self.digest[:8]}"
        return Hardware(self.device.name, "gpu-board", sheet.description, name)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Data, versions and held-out errors of kernels, and of whole servings."""
        told = dict(self.device.provenance)
        return {**told, "serving": self.calibration.to_dict()}

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, as JSON-ready values."""
        return {
            "hardware": self.hardware.to_dict(),
            "datasheet": self.device.sheet.to_dict(),
            "provenance": dict(self.provenance),
            "digest": self.digest,
        }

    def predict(self, tree: ModelTree, step_s: float | None = None) -> ModelTree:
        """The same tree carrying predicted energies, and times as features.

        A node's energy is its kernels'; idle power between kernels is in nodes of its
        own (`gap`) in a serving, nowhere in a traced model.

        Args:
            tree: A serving tree, or a traced one with math ops; folded or not.
            step_s: Measured time between two tokens of a stream, s, if it is known.

        Raises:
            UsageError: The tree has no ops to predict, or a step time makes no sense.
        """
        is_serving = is_serving_tree(tree)
        if step_s is not None and not (is_serving and step_s > 0):
            raise UsageError("a step time is a positive number, of a serving")
        nodes = serving_ops(tree) if is_serving else traced_ops(tree)
        costs = self.device.costs(nodes.ops, eager=not is_serving)
        own = self._own(tree, nodes, costs)
        notes = roughness_notes(tree, nodes, costs)
        if is_serving:
            notes += self._fill_gaps(tree, own, step_s)
            notes += memory_note(tree, self.device.sheet)
        else:
            notes.append("kernels alone: what the host makes a GPU wait is not counted")
        if tree.spec is not None and tree.spec.dtype == "fp32":
            notes.append(
                f"extrapolation: fp32 was never measured on {self.device.name}: twice "
                "what bf16 takes"
            )
        notes.append(f"servings calibrated on {self.calibration.source}")
        regime = ""
        if is_serving and tree.spec is not None:
            run = tree.spec
            regime = regime_of(nodes.ops, run.gpus, run.output_len or 1)
        return self._composed(tree, own, notes, regime)

    def _own(self, tree: ModelTree, nodes: NodeOps, costs: OpCosts) -> _Costs:
        """What every row takes by itself, without gaps."""
        is_fp32 = tree.spec is not None and tree.spec.dtype == "fp32"
        factor = FP32_FACTOR if is_fp32 else 1.0
        size, runs = len(tree), nodes.runs * factor
        has_base = nodes.base >= 0

        def beyond(values: Floats) -> Floats:
            found = values[nodes.place] - np.where(has_base, values[nodes.base], 0.0)
            return np.maximum(found, 0.0)

        def spread(values: Floats) -> Floats:
            return np.bincount(nodes.rows, values, size).astype(np.float64)

        sheet = self.device.sheet
        told, kinds = self.calibration, OpKinds.of(nodes.ops, sheet)
        worked, waited = np.ones((2, len(nodes.ops)))
        if is_serving_tree(tree):
            worked, waited = told.factors(kinds)
        taken_s, work = costs.time_s * waited, Work(costs.flops, costs.bytes)
        energy_j = told.work_j(kinds, costs.time_s * worked, work, sheet)
        energy_j += sheet.idle_w * taken_s
        log_width = np.log(costs.energy_high / costs.energy_low) / 2
        joules = beyond(energy_j) * runs * nodes.ranks
        time_s = beyond(taken_s) * runs
        total = spread(joules)
        mean = spread(joules * log_width[nodes.place]) / np.where(total > 0, total, 1.0)
        static_j = spread(time_s * nodes.ranks) * sheet.idle_w
        return _Costs(total, mean, spread(time_s), static_j)

    def _fill_gaps(
        self, tree: ModelTree, own: _Costs, step_s: float | None
    ) -> list[str]:
        """Give the nodes of gaps their time and energy; what to say about it."""
        columns, spec = tree.columns, tree.spec
        if GAP not in tree.strings or spec is None:
            return []
        rows = np.flatnonzero(columns.op == tree.strings.index(GAP))
        runs = np.nan_to_num(_feature(tree, "runs", rows), nan=1.0)
        places = columns.signature[rows].tolist()
        sequences = np.array([tree.signatures[i].inputs[0][0] for i in places], float)
        told, sheet = self.calibration, self.device.sheet
        time_s, joules = (each * runs for each in told.gap(sequences, sheet))
        notes = []
        if step_s is not None:
            steps = spec.output_len or 1
            busy_s = float((own.time_s * tree.multiplicity).sum())
            notes.append(f"steps of {step_s * 1e3:g} ms, as measured")
            if busy_s > step_s * steps:
                notes.append(
                    f"warning: kernels alone would take {busy_s / steps * 1e3:.3g} ms"
                )
            each_s = np.full(len(rows), max(step_s * steps - busy_s, 0.0) / runs.sum())
            time_s, joules = each_s * runs, told.gap_j(sequences, each_s, sheet) * runs
        own.time_s[rows] = time_s
        own.joules[rows] = joules * spec.gpus
        own.static_j[rows] = sheet.idle_w * time_s * spec.gpus
        return notes

    def _composed(
        self, tree: ModelTree, own: _Costs, notes: list[str], regime: str
    ) -> ModelTree:
        """Sums up the tree, with intervals; of a serving, those of its regime."""
        columns = tree.columns
        parents = tree.parents
        sums = columns.inclusive(
            np.column_stack([own.joules, own.time_s, own.static_j]), parents
        )
        joules = sums[:, 0]
        # Errors of kernels are their own; what a serving adds is shared by all.
        spread = np.sqrt(columns.inclusive((own.joules * own.width) ** 2, parents))
        width = spread / np.where(joules > 0, joules, 1.0)
        shared = self.calibration.width(regime) if regime else UNMEASURED_WIDTH
        width = np.hypot(width, shared)
        told = np.full(len(tree), np.nan)
        told[0] = np.exp(self.calibration.width(regime, of_time=True))
        features = {
            **tree.features,
            "time_s": sums[:, 1],
            "static_j": sums[:, 2],
            "time_spread": told,
        }
        carrying = tree.with_features(features).with_notes(*notes)
        return carrying.with_predicted(joules, width, self.hardware, "kernels")


def _feature(tree: ModelTree, name: str, rows: npt.NDArray[np.intp]) -> Floats:
    if name not in tree.features:
        return np.full(len(rows), np.nan)
    return tree.features[name][rows]


WORTH_SAYING = 0.01
WORTH_A_WARNING = 0.15
USABLE = 0.92
"""Share of a GPU's memory that engines give to weights and cache."""


def roughness_notes(tree: ModelTree, nodes: NodeOps, costs: OpCosts) -> list[str]:
    """How much of the energy is of ops that nobody measured, and why.

    Args:
        tree: Whose ops.
        nodes: The ops of the tree.
        costs: What they take.
    """
    shares: dict[str, float] = {}
    beside = np.where(nodes.base >= 0, costs.energy_j[nodes.base], 0.0)
    weight = np.maximum(costs.energy_j[nodes.place] - beside, 0.0)
    weight = weight * nodes.runs * nodes.ranks * tree.multiplicity[nodes.rows]
    total = float(weight.sum()) or 1.0
    reasons = [nodes.reasons.get(i) or costs.reasons[i] for i in range(len(nodes.ops))]
    for place, each in zip(nodes.place.tolist(), weight.tolist(), strict=True):
        if reasons[place]:
            shares[reasons[place]] = shares.get(reasons[place], 0.0) + each / total
    return [
        f"{'extrapolation: ' if share > WORTH_A_WARNING else ''}"
        f"{share:.0%} of the energy is rough: {reason}"
        for reason, share in sorted(shares.items(), key=lambda item: -item[1])
        if share > WORTH_SAYING
    ]


def memory_note(tree: ModelTree, sheet: Datasheet) -> list[str]:
    """A warning where weights and cache cannot lie in the memory of the GPUs."""
    spec = tree.spec
    if spec is None:
        return []
    weights, cache = _weight_bytes(tree), _cache_bytes(tree)
    ranks = spec.gpus
    room = sheet.memory_bytes * USABLE * ranks
    if weights + cache <= room:
        return []
    what = f"{weights / 1e9:.0f} GB of weights and {cache / 1e9:.0f} GB of cache"
    where = f"{ranks} × {sheet.memory_bytes / 1e9:.0f} GB"
    return [f"warning: {what} do not fit into {where}: fewer streams or more GPUs"]


WEIGHTED = ("linear", "lm_head", "fused_moe")


def _weight_bytes(tree: ModelTree) -> float:
    """Bytes of the weights, each matrix in its own type."""
    from irene.trace.serving.writer import WEIGHT_BYTES

    total = 0.0
    for node in _one_step(tree):
        if node.kind == "ml" and node.params:
            kind = node.dtype if node.op in WEIGHTED else "bf16"
            times = int(tree.multiplicity[node.row])
            total += node.params * times * WEIGHT_BYTES.get(kind, 2.0)
    return total


def _one_step(tree: ModelTree) -> list[Node]:
    """Nodes of one step: of a generation, those of its last kind of step."""
    root = tree.root
    is_generation = tree.spec is not None and tree.spec.phase == "generate"
    top = root.children[-1] if is_generation else root
    return list(top.walk())


def _cache_bytes(tree: ModelTree) -> float:
    """Bytes of the KV cache of all streams."""
    from irene.trace.serving.writer import WEIGHT_BYTES

    total = 0.0
    for node in _one_step(tree):
        if node.op.endswith("_attention"):
            batch, kept, heads, dim = node.inputs[1]
            both = 1 if node.op == "latent_attention" else 2
            ranks = node.features.get("ranks", 1.0)
            times = int(tree.multiplicity[node.row])
            each = WEIGHT_BYTES.get(node.dtype, 2.0)
            total += batch * kept * heads * dim * both * each * ranks * times
    return total
