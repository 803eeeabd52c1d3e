"""From kernels to modules: elementwise work, the host, and what was not measured.

A node's energy on the GPU is that of its kernels, plus the MiB it moves elementwise at
one rate per kind. The host's share is what its calls take. All rates are non-negative
and found in one convex problem, relative to the measured energies, robust to outliers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from irene.arrays import Floats
from irene.predict.machines.specs.regression import (
    BUSY_SHARE,
    relative_nnls,
    with_floor,
)
from irene.predict.machines.specs.work import STREAMS
from irene.saved import Saved

ROUNDS = 25
SOFT = 0.01
"""Relative error below which errors count as squares, above as they are."""
HOST_PRIOR = 0.02
"""How strongly host rates are held near zero where nothing tells them apart."""


class NodeWork(NamedTuple):
    """What nodes with parts are made of, a row each.

    Attributes:
        kernels_j: Energy of the node's kernels on the GPU, J.
        stream_mib: Rows × `STREAMS`.
        unmeasured_gflop: GFLOP in batched products of shapes never run alone.
        kernel_host_j: Host's share of the kernels, J.
        calls: Rows × (launches, views, module calls).
    """

    kernels_j: Floats
    stream_mib: Floats
    unmeasured_gflop: Floats
    kernel_host_j: Floats
    calls: Floats


@dataclass(frozen=True, slots=True)
class Composition(Saved):
    """Rates that make modules of kernels.

    Attributes:
        stream_j: J per MiB of each kind of elementwise work.
        unmeasured_j: Extra J per GFLOP of batched products of unmeasured shapes.
        launch_j: Host's J per launch that moves data.
        view_j: Host's J per view.
        module_j: Host's J per module call.
    """

    stream_j: Floats = field(metadata={"names": STREAMS})
    unmeasured_j: float
    launch_j: float
    view_j: float
    module_j: float

    def gpu_j(self, work: NodeWork) -> Floats:
        """Energy on the GPU, J."""
        streams: Floats = work.stream_mib @ self.stream_j
        return work.kernels_j + streams + self.unmeasured_j * work.unmeasured_gflop

    def host_j(self, work: NodeWork) -> Floats:
        """The host's share, J."""
        rates = np.array([self.launch_j, self.view_j, self.module_j])
        calls: Floats = work.calls @ rates
        return work.kernel_host_j + calls

    def total_j(self, work: NodeWork) -> Floats:
        """Energy of nodes run alone, J."""
        return with_floor(self.gpu_j(work), self.host_j(work))


def fit_composition(
    nodes: NodeWork, energy_j: Floats, counts: Floats, launch_j: float
) -> tuple[Composition, float]:
    """Learn the rates from measured nodes, each as often as it counts.

    Args:
        nodes: What was measured.
        energy_j: Energy of each, J.
        counts: How many nodes share each measurement, or a level's weight.
        launch_j: Host's J per launch, known from small kernels.

    Returns:
        The rates, and their mean relative error, weighted.
    """
    work = np.column_stack([nodes.stream_mib, nodes.unmeasured_gflop])
    host = nodes.kernel_host_j + launch_j * nodes.calls[:, 0]
    calls = nodes.calls[:, 1:]
    prior = np.sqrt(counts.sum()) * HOST_PRIOR / max(launch_j, 1e-9)
    ridge = np.hstack([np.zeros((2, work.shape[1])), prior * np.eye(2)])
    free = np.ones(len(energy_j), dtype=np.bool_)
    weight = np.sqrt(counts)
    best: tuple[float, Composition] | None = None
    for turn in range(ROUNDS):
        share = np.where(free, 1.0, BUSY_SHARE)
        columns = np.hstack([work * share[:, None], calls * (~free)[:, None]])
        target = 1.0 - (share * nodes.kernels_j + np.where(free, 0.0, host)) / energy_j
        scale = weight / energy_j
        solution = relative_nnls(
            np.vstack([columns * scale[:, None], ridge]),
            np.append(target * weight, np.zeros(2)),
        )
        fitted = _composition(solution, nodes, launch_j)
        error = np.sqrt((fitted.total_j(nodes) / energy_j - 1.0) ** 2 + SOFT**2)
        loss = float((error * counts).sum() / counts.sum())
        if best is None or loss < best[0]:
            best = (loss, fitted)
        gpu_j, host_j = fitted.gpu_j(nodes), fitted.host_j(nodes)
        free = gpu_j >= host_j + BUSY_SHARE * gpu_j
        weight = np.sqrt(counts / error) if turn else np.sqrt(counts)
    assert best is not None
    return best[1], best[0]


def _composition(solution: Floats, nodes: NodeWork, launch_j: float) -> Composition:
    """Name the rates; a kind of work that was never seen gets a known kind's rate."""
    stream_j = solution[: len(STREAMS)].copy()
    slowest = max(stream_j[0], stream_j[1])
    stream_j[~nodes.stream_mib.any(axis=0)] = slowest
    unmeasured, view_j, module_j = solution[len(STREAMS) :].tolist()
    return Composition(stream_j, unmeasured, launch_j, view_j, module_j)
