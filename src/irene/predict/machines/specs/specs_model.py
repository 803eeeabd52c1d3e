"""SpecsModel: energy of every node of a tree from its shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from irene.arrays import Bools, Floats
from irene.errors import UsageError
from irene.predict.machines.specs.composition import (
    Composition,
    NodeWork,
    fit_composition,
)
from irene.predict.machines.specs.kernels import (
    TILES,
    KernelData,
    KernelModel,
    Tiling,
    fit_kernels,
    roofline_work,
    with_residual,
)
from irene.predict.machines.specs.regression import with_floor
from irene.predict.machines.specs.work import MIB, OTHER, Kernel, TreeWork
from irene.saved import Saved
from irene.tree import ML, ModelTree

MODEL_WEIGHT = 20.0
"""Weight of a whole model's measurement against that of one module.

Models have tens of modules, and both levels matter. Between 5 and 60 no error on PC1
changes by more than a tenth of a point where a model is left out.
"""
FLOOR_LIMIT = 2.0
"""Largest floor that is believed, as a multiple of the least energy of any kernel.

A call takes the host about as long whatever it starts: on PC1 15 to 28 µs for all
primitives but linear layers. A much larger floor is a roofline that fits badly.
"""
SAME_LOSS = 1.3


class KernelEnergy(NamedTuple):
    """What a kernel takes.

    Attributes:
        alone_j: Run by itself, J.
        gpu_j: Its part on the GPU inside a larger run, J.
        host_j: The host's share, J.
        unmeasured_gflop: Of a batched product of a shape that was never run alone.
        was_measured: Whether kernels of this group and form were run by themselves.
    """

    alone_j: float
    gpu_j: float
    host_j: float
    unmeasured_gflop: float
    was_measured: bool


class NodeEnergies(NamedTuple):
    """Energy of every node of a tree, J.

    Attributes:
        alone: Run by itself, as a measurement would.
        gpu: Its part on the GPU inside a larger run.
        host: The host's share.
    """

    alone: Floats
    gpu: Floats
    host: Floats


@dataclass(frozen=True, slots=True)
class Measurements:
    """What a machine was measured to take.

    Attributes:
        kernels: Kernels that were run alone.
        kernel_j: Their energies, J.
        kernel_noise: How much noisier than others each of these is.
        parents: Work of nodes with parts: one row of a tree's work each.
        parent_j: Their energies, J.
        parent_weight: How many nodes share each measurement; less where something
            disturbed it.
    """

    kernels: Sequence[Kernel]
    kernel_j: Floats
    kernel_noise: Floats
    parents: Sequence[tuple[TreeWork, int]]
    parent_j: Floats
    parent_weight: Floats


@dataclass(frozen=True, slots=True)
class SpecsModel(Saved):
    """A machine: rates of its kernels and of what lies between them.

    Attributes:
        groups: Model of each group of kernels that was measured.
        composition: Rates of everything else.
        measured: Shapes of batched products that were run alone.
    """

    groups: Mapping[str, KernelModel]
    composition: Composition
    measured: frozenset[tuple[int, ...]]

    def energies(self, work: TreeWork) -> NodeEnergies:
        """Energy of every node whose work is given."""
        known = self.kernel_energies(work.kernels)
        nodes = self.node_work(work, known)
        gpu, host = self.composition.gpu_j(nodes), self.composition.host_j(nodes)
        alone = with_floor(gpu, host)
        single = (work.counts.sum(axis=1) == 1) & ~work.calls[:, [0, 2]].any(axis=1)
        if single.any() and work.kernels:
            each = np.array([known[kernel].alone_j for kernel in work.kernels])
            alone = np.where(single, work.counts @ each, alone)
        return NodeEnergies(alone, gpu, host)

    def tree_energies(
        self,
        tree: ModelTree,
        work: TreeWork,
        known: Mapping[Kernel, KernelEnergy] | None = None,
    ) -> tuple[Floats, Bools]:
        """Energy of every node as part of the run, J, and which are of unknown work.

        While the host is slower than the GPU, the difference belongs to the nodes by
        the host's work.
        """
        known = self.kernel_energies(work.kernels) if known is None else known
        nodes = self.node_work(work, known)
        gpu, host = self.composition.gpu_j(nodes), self.composition.host_j(nodes)
        total = float(with_floor(gpu[:1], host[:1])[0])
        waiting = (total - gpu[0]) / host[0] if host[0] > 0 else 0.0
        measured = np.array([known[k].was_measured for k in work.kernels], bool)
        is_indirect = (tree.columns.kind >= ML) & ~work.counts[:, measured].any(axis=1)
        return gpu + waiting * host, is_indirect

    def node_work(
        self, work: TreeWork, known: Mapping[Kernel, KernelEnergy]
    ) -> NodeWork:
        """What every node is made of, by what is known of its kernels."""
        each = np.array([known[kernel][1:4] for kernel in work.kernels]).reshape(-1, 3)
        gpu, host, unmeasured_gflop = np.ascontiguousarray(each.T)
        counts = work.counts if work.kernels else np.zeros((len(work.counts), 0))
        return NodeWork(
            counts @ gpu,
            work.stream_mib,
            counts @ unmeasured_gflop,
            counts @ host,
            work.calls,
        )

    def kernel_energies(self, kernels: Iterable[Kernel]) -> dict[Kernel, KernelEnergy]:
        """What each of some kernels takes, whichever others are asked for."""
        groups: dict[str, dict[Kernel, None]] = {}
        for kernel in kernels:
            groups.setdefault(kernel.group, {})[kernel] = None
        found: dict[Kernel, KernelEnergy] = {}
        for group, distinct in groups.items():
            some = list(distinct)
            extra = self._unmeasured_gflop(group, some)
            if group in self.groups:
                alone, gpu = self.groups[group].predict(some)
                host = np.full(len(some), self.groups[group].floor_j)
            else:
                host = np.full(len(some), self.composition.launch_j)
                gpu = self._estimate(group, some)
                alone = with_floor(gpu, host)
            is_known = (extra == 0.0) & (group in self.groups)
            columns = (alone, gpu, host, extra, is_known)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            found |= zip(some, map(KernelEnergy._make, rows), strict=True)
        return found

    def _estimate(self, group: str, kernels: Sequence[Kernel]) -> Floats:
        """Energy of kernels of a group that was never measured, J.

        FLOPs at the rate of measured products, bytes at the rate of plain streams.
        """
        stream_j = float(self.composition.stream_j[0])
        if group != OTHER:
            sizes = [k.sizes for k in kernels]
            moved = [
                2 * np.prod(s) * k.itemsize for s, k in zip(sizes, kernels, strict=True)
            ]
            return np.array(moved, dtype=float) / MIB * stream_j
        flop_j = self.joules_per_gflop()
        return np.array(
            [k.sizes[0] / 1e9 * flop_j + k.sizes[1] / MIB * stream_j for k in kernels]
        )

    def joules_per_gflop(self) -> float:
        """Whole tiles and waves: what a product that fills the machine costs, J."""
        model = self.groups.get("gemm") or self.groups.get("bmm")
        if model is None:
            return 0.0
        return float(np.mean([rates[0] + rates[1] for rates in model.rates]))

    def _unmeasured_gflop(self, group: str, kernels: Sequence[Kernel]) -> Floats:
        """GFLOP of batched products of shapes that were never run alone."""
        if group != "bmm" or group not in self.groups:
            return np.zeros(len(kernels))
        known = [k.sizes in self.measured or self._is_like_measured(k) for k in kernels]
        gflop = roofline_work(kernels, self.groups["bmm"].tilings[0])[:, 0]
        return np.where(known, 0.0, gflop)

    def _is_like_measured(self, kernel: Kernel) -> bool:
        """Whether products of this form were run alone: of a square result, or any."""
        if any(sizes[1] != sizes[2] for sizes in self.measured):
            return True
        return kernel.sizes[1] == kernel.sizes[2]


def fit_specs(measured: Measurements) -> SpecsModel:
    """Learn a machine from what was measured on it.

    Raises:
        UsageError: There is nothing to learn from.
    """
    if not len(measured.kernel_j) or not len(measured.parent_j):
        raise UsageError("specs needs measured primitives and measured modules")
    limit_j = FLOOR_LIMIT * float(measured.kernel_j.min())
    data = kernel_data(measured)
    groups = {name: fit_kernels(d, limit_j)[0] for name, d in data.items()}
    model, _ = _compose(groups, measured)
    if "gemm" in data:
        # The bias of a linear layer is added elementwise, at that rate.
        bias_j = float(model.composition.stream_j[1])
        groups["gemm"] = fit_kernels(data["gemm"], limit_j, bias_j)[0]
        model, _ = _compose(groups, measured)
    if "bmm" in data:
        model = _choose_orientation(model, data["bmm"], groups, measured, limit_j)
    return model


def kernel_data(measured: Measurements) -> dict[str, KernelData]:
    """What was measured of kernels, by group."""
    rows: dict[str, list[int]] = {}
    for row, kernel in enumerate(measured.kernels):
        rows.setdefault(kernel.group, []).append(row)
    return {
        group: KernelData.of(
            [measured.kernels[r] for r in some],
            measured.kernel_j[some],
            measured.kernel_noise[some],
        )
        for group, some in rows.items()
    }


def _compose(
    groups: Mapping[str, KernelModel], measured: Measurements
) -> tuple[SpecsModel, float]:
    """Give every group a floor, and fit the rates between kernels."""
    floors = [model.floor_j for model in groups.values() if model.floor_j > 0]
    launch_j = min(floors) if floors else 1e-4
    whole = {
        name: model if model.floor_j > 0 else replace(model, floor_j=launch_j)
        for name, model in groups.items()
    }
    shapes = frozenset(k.sizes for k in measured.kernels if k.group == "bmm")
    empty = Composition(np.zeros(4), 0.0, launch_j, 0.0, 0.0)
    model = SpecsModel(whole, empty, shapes)
    nodes = _stack(model, measured)
    composition, loss = fit_composition(
        nodes, measured.parent_j, measured.parent_weight, launch_j
    )
    return replace(model, composition=composition), loss


def _stack(model: SpecsModel, measured: Measurements) -> NodeWork:
    """The measured nodes with parts, one row each."""
    by_tree: dict[int, NodeWork] = {}
    rows: list[list[Floats]] = []
    for work, row in measured.parents:
        if id(work) not in by_tree:
            known = model.kernel_energies(work.kernels)
            by_tree[id(work)] = model.node_work(work, known)
        rows.append([column[row] for column in by_tree[id(work)]])
    return NodeWork(*map(np.array, zip(*rows, strict=True)))


def _choose_orientation(
    model: SpecsModel,
    data: KernelData,
    groups: dict[str, KernelModel],
    measured: Measurements,
    limit_j: float,
) -> SpecsModel:
    """Choose between tiles that the measured products cannot tell apart.

    Q·Kᵀ is square, so it does not say which side of a tile is the longer one; A·V
    inside the modules does.
    """
    first = groups["bmm"]
    waves = first.tilings[0].waves
    _, loss = _compose(groups, measured)
    _, least = fit_kernels(data, limit_j, tilings=[first.tilings[0]])
    best = model
    for tile in TILES:
        tiling = Tiling(*tile, waves)
        candidate, own_loss = fit_kernels(data, limit_j, tilings=[tiling])
        if own_loss > SAME_LOSS * least + 1e-5 or tiling == first.tilings[0]:
            continue
        candidate = with_residual(candidate, data)
        other, other_loss = _compose({**groups, "bmm": candidate}, measured)
        if other_loss < loss:
            best, loss = other, other_loss
    return best
