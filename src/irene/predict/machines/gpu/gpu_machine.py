"""A data-centre GPU that predicts trees: serving steps, generations, traced models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.device import GpuDevice, OpCosts
from irene.predict.machines.gpu.machine_notes import memory_note, roughness_notes
from irene.predict.machines.gpu.serving_calibration import Calibration
from irene.predict.machines.gpu.serving_ops import GAP, NodeOps, serving_ops
from irene.predict.machines.gpu.traced_ops import traced_ops
from irene.predict.machines.json_file import digest_of
from irene.spec import Attention, DType
from irene.trace.serving.tree import is_serving_tree
from irene.tree import EnergyColumns, ModelTree
from irene.tree.model_tree import SOURCES

__all__ = ["GpuMachine", "least_compute_s"]

Floats = npt.NDArray[np.float64]
PREDICTED = SOURCES.index("predicted")
FP32_FACTOR = 2.0
"""fp32 moves twice the bytes of bf16, and multiplies at most half as fast (TF32)."""
UNMEASURED_WIDTH = 0.3
"""Added, in log units, to what is no serving: nobody measured such a run as a whole."""


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

    @property
    def usual_dtype(self) -> DType:
        """Type that is run unless somebody says otherwise."""
        return "bf16"

    @property
    def usual_attention(self) -> Attention:
        """Attention that is run unless somebody says otherwise."""
        return "sdpa"

    @property
    def serves(self) -> bool:
        """Whether servings of language models can be predicted for it."""
        return True

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
        return self._composed(tree, own, notes, is_serving)

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
        energy_j = costs.time_s * self.calibration.power_w(
            costs.time_s, costs.bytes, least_compute_s(nodes, costs, sheet), sheet
        )
        log_width = np.log(costs.energy_high / costs.energy_low) / 2
        joules = beyond(energy_j) * runs * nodes.ranks
        time_s = beyond(costs.time_s) * runs
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
        told, idle_w = self.calibration, self.device.sheet.idle_w
        time_s = told.time_gap(sequences) * runs
        joules = told.gap_j(sequences, idle_w) * runs
        notes = []
        if step_s is not None:
            steps = spec.output_len or 1
            busy_s = float((own.time_s * tree.multiplicity).sum())
            notes.append(f"steps of {step_s * 1e3:g} ms, as measured")
            if busy_s > step_s * steps:
                notes.append(
                    f"warning: kernels alone would take {busy_s / steps * 1e3:.3g} ms"
                )
            time_s = max(step_s * steps - busy_s, 0.0) * runs / runs.sum()
            joules = idle_w * time_s + told.work_j * sequences * runs
        own.time_s[rows] = time_s
        own.joules[rows] = own.static_j[rows] = joules * spec.tensor_parallel
        return notes

    def _composed(
        self, tree: ModelTree, own: _Costs, notes: list[str], is_serving: bool
    ) -> ModelTree:
        """Sums up the tree, with intervals."""
        columns = tree.columns
        parents = tree.parents
        sums = columns.inclusive(
            np.column_stack([own.joules, own.time_s, own.static_j]), parents
        )
        joules = sums[:, 0]
        # Errors of kernels are their own; what a serving adds is shared by all.
        spread = np.sqrt(columns.inclusive((own.joules * own.width) ** 2, parents))
        width = spread / np.where(joules > 0, joules, 1.0)
        shared = self.calibration.energy_width
        shared += 0.0 if is_serving else UNMEASURED_WIDTH
        width = np.hypot(width, shared)
        energy = EnergyColumns(
            joules,
            joules * np.exp(-width),
            joules * np.exp(width),
            np.full(len(tree), PREDICTED, dtype=np.uint8),
            f"kernels, {self.hardware.predictor}",
        )
        told = np.full(len(tree), np.nan)
        told[0] = np.exp(self.calibration.time_width)
        features = {
            **tree.features,
            "time_s": sums[:, 1],
            "static_j": sums[:, 2],
            "time_spread": told,
        }
        carrying = tree.with_features(features).with_energy(energy, self.hardware)
        return carrying._derive(carrying.columns, notes=(*tree.notes, *notes))


def _feature(tree: ModelTree, name: str, rows: npt.NDArray[np.intp]) -> Floats:
    if name not in tree.features:
        return np.full(len(rows), np.nan)
    return tree.features[name][rows]


def least_compute_s(nodes: NodeOps, costs: OpCosts, sheet: Datasheet) -> Floats:
    """Least time of the arithmetic of every op, s."""
    # Attention multiplies in bf16 whatever the cache is stored in.
    types = [getattr(op, "dtype", "bf16") for op in nodes.ops]
    peaks = {kind: sheet.peak(kind) for kind in set(types)}
    compute_s: Floats = costs.flops / np.array([peaks[kind] for kind in types])
    return compute_s
