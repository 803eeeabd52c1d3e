"""Time of one kind of op in one dtype: a smooth roofline times a learned residual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.errors import FormatError
from irene.predict.machines.gpu.boosted import Boosted
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.op_features import FEATURES, features_of
from irene.predict.machines.gpu.roofline import seconds_of, work_of
from irene.predict.machines.gpu.shapes import Floats, OpColumns

__all__ = ["SHARPNESS", "SmoothRoofline", "TimeModel"]

SHARPNESS = 3.0
"""How sharp the corner of the roofline is: the norm that joins its two sides."""


@dataclass(frozen=True, slots=True)
class SmoothRoofline:
    """launch + ((compute factor × compute)³ + (memory factor × memory)³)^⅓, s.

    Attributes:
        launch_s: Time of an op that does nothing, s.
        compute_factor: How much slower than the peak arithmetic is at best.
        memory_factor: How much slower than the bandwidth memory is at best.
    """

    launch_s: float
    compute_factor: float
    memory_factor: float

    def seconds(self, compute_s: Floats, memory_s: Floats) -> Floats:
        """Time from the least times of both sides, s."""
        joined = (self.compute_factor * compute_s) ** SHARPNESS
        joined += (self.memory_factor * memory_s) ** SHARPNESS
        seconds: Floats = self.launch_s + joined ** (1 / SHARPNESS)
        return seconds


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Time of ops of one kind and dtype.

    Attributes:
        base: The smooth roofline.
        trees: log(measured / base) from the features of the kind.
        clamp: Least and greatest residual that was measured.
        width: 5 % and 95 % quantile of log(measured / predicted), groups held out.
        limits: Least and greatest measured value of every column.
        borrowed_from: The GPU whose table it is, "" for the device's own.
    """

    base: SmoothRoofline
    trees: Boosted
    clamp: tuple[float, float]
    width: tuple[float, float]
    limits: Mapping[str, tuple[float, float]]
    borrowed_from: str = ""

    def seconds(self, ops: OpColumns, sheet: Datasheet) -> Floats:
        """Time of every op on a GPU of this datasheet, s."""
        compute_s, memory_s = seconds_of(ops, work_of(ops), sheet)
        base_s = self.base.seconds(compute_s, memory_s)
        rows = features_of(ops, (compute_s, memory_s, base_s), sheet.multiprocessors)
        seconds: Floats = base_s * np.exp(
            np.clip(self.trees.predict(rows), *self.clamp)
        )
        return seconds

    def is_beyond(self, ops: OpColumns) -> npt.NDArray[np.bool_]:
        """Whether a number of an op is outside what was measured."""
        beyond = np.zeros(len(ops), dtype=bool)
        for name, (least, most) in self.limits.items():
            values = ops.columns[name]
            beyond |= (values < least) | (values > most)
        return beyond

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "base": {
                "launch_s": self.base.launch_s,
                "compute_factor": self.base.compute_factor,
                "memory_factor": self.base.memory_factor,
            },
            "clamp": list(self.clamp),
            "width": list(self.width),
            "limits": {name: list(pair) for name, pair in self.limits.items()},
            "borrowed_from": self.borrowed_from,
            "trees": self.trees.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], kind: str) -> TimeModel:
        """Read what `to_dict` wrote.

        Args:
            fields: Its values.
            kind: What kind of op it is for.

        Raises:
            FormatError: Its trees see other features than this version computes.
        """
        trees = Boosted.from_dict(fields["trees"])
        if trees.features != FEATURES[kind]:
            raise FormatError(
                f"the model of {kind} was trained with other features than this "
                "version computes: train it anew with `irene train-ops`"
            )
        return cls(
            SmoothRoofline(**fields["base"]),
            trees,
            _pair(fields["clamp"]),
            _pair(fields["width"]),
            {name: _pair(pair) for name, pair in fields["limits"].items()},
            str(fields["borrowed_from"]),
        )


def _pair(values: Any) -> tuple[float, float]:
    low, high = values
    return float(low), float(high)
