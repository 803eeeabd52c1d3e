"""A GPU that answers for ops: time, power and energy of each, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.leaves import Leaves, Times
from irene.predict.machines.gpu.op import Op
from irene.predict.machines.gpu.roofline import shares_of, work_of
from irene.predict.machines.gpu.shapes import Floats, OpColumns, columns_of

__all__ = ["GpuDevice", "OpCost", "OpCosts", "find_device"]

NUMBERS = (
    "time_s", "time_low", "time_high", "power_w", "energy_j", "energy_low",
    "energy_high", "static_j", "flops", "bytes",
)  # fmt: skip
"""Fields of `OpCosts` that are numbers."""


@dataclass(frozen=True, slots=True)
class OpCost:
    """Time, power and energy of one op; fields as in `OpCosts`."""

    time_s: float
    time_low: float
    time_high: float
    power_w: float
    energy_j: float
    energy_low: float
    energy_high: float
    static_j: float
    flops: float
    bytes: float
    is_rough: bool
    reason: str


@dataclass(frozen=True, slots=True)
class OpCosts:
    """Time, power and energy of many ops, an array each in the order they were given.

    Attributes:
        time_s: Seconds.
        time_low: Lower end of the 90 % interval of the time, s.
        time_high: Its upper end, s.
        power_w: Mean power of the board while the op runs, W.
        energy_j: Time × power, J.
        energy_low: Lower end of the 90 % interval of the energy, J.
        energy_high: Its upper end, J.
        static_j: Time × idle power, J; part of `energy_j`.
        flops: Counted from the shapes.
        bytes: Counted from the shapes.
        is_rough: Whether no measurement of such an op is behind it.
        reasons: Why it is rough, "" where it is not.
    """

    time_s: Floats
    time_low: Floats
    time_high: Floats
    power_w: Floats
    energy_j: Floats
    energy_low: Floats
    energy_high: Floats
    static_j: Floats
    flops: Floats
    bytes: Floats
    is_rough: npt.NDArray[np.bool_]
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.time_s)

    def __getitem__(self, place: int) -> OpCost:
        numbers = {name: float(getattr(self, name)[place]) for name in NUMBERS}
        is_rough, reason = bool(self.is_rough[place]), self.reasons[place]
        return OpCost(**numbers, is_rough=is_rough, reason=reason)


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One GPU.

    Attributes:
        name: As given to `--on`.
        sheet: Its datasheet.
        leaves: Models of its kernels, or those of the GPU that stands in for it.
        provenance: Data, versions, held-out errors.
        digest: SHA-256 of what it was loaded from.
    """

    name: str
    sheet: Datasheet
    leaves: Leaves
    provenance: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def costs(self, ops: Sequence[Op], eager: bool = False) -> OpCosts:
        """Time, power and energy of every op.

        Args:
            ops: What is run.
            eager: As the tables were measured, one launch after the other. Otherwise
                as serving engines run, in graphs, where small kernels do not wait for
                the host.
        """
        rows = np.zeros((len(NUMBERS), len(ops)))
        reasons = np.full(len(ops), "", dtype=object)
        for group in columns_of(ops):
            times = self.leaves.times(group, self.sheet, eager)
            rows[:, group.places] = self._numbers(group, times)
            reasons[group.places] = times.reasons
        is_rough = np.array(reasons != "", dtype=np.bool_)
        numbers = dict(zip(NUMBERS, rows, strict=True))
        return OpCosts(**numbers, is_rough=is_rough, reasons=tuple(reasons.tolist()))

    def _numbers(self, group: OpColumns, times: Times) -> Floats:
        """`NUMBERS` by op."""
        sheet, time_s = self.sheet, times.time_s
        work = work_of(group)
        curve = self.leaves.curve(group.kind)
        shares = shares_of(group, work, times.kernel_s, sheet)
        waiting_j = sheet.idle_w * (time_s - times.kernel_s)
        energy_j = curve.watts(*shares, sheet) * times.kernel_s + waiting_j
        low = -np.hypot(times.low, curve.low)
        high = np.hypot(times.high, curve.high)
        # No op uses less than the idle GPU, or more than the limit allows.
        longest_s = time_s * np.exp(times.high)
        shortest_s = time_s * np.exp(times.low)
        return np.stack(
            [
                time_s, shortest_s, longest_s, energy_j / time_s, energy_j,
                np.maximum(energy_j * np.exp(low), sheet.idle_w * shortest_s),
                np.minimum(energy_j * np.exp(high), sheet.tdp_w * longest_s),
                time_s * sheet.idle_w, work.flops, work.bytes,
            ]
        )  # fmt: skip


def find_device(name: str) -> GpuDevice:
    """The GPU of a name: one that ships, or one that a user added.

    Raises:
        UsageError: There is none of that name.
    """
    from irene.predict.machines.gpu.known_devices import load_device

    return load_device(name)
