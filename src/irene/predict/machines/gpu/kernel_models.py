"""The fitted models of one GPU's kernels: which of them answers for an op, how well.

Times come from a model per kind and dtype. Power is not asked of kernels: most power
readings of their tables are stale, whole servings tell more (`serving_calibration`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats
from irene.errors import FormatError
from irene.predict.intervals import BEYOND
from irene.predict.machines.gpu.collectives import exchange_seconds, exchanges
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_ops import OpColumns
from irene.predict.machines.gpu.kernel_work import (
    COLLECTIVES,
    FEATURES,
    ring_bytes,
    seconds_of,
    work_of,
)
from irene.predict.machines.gpu.time_model import SmoothRoofline, TimeModel
from irene.saved import Saved
from irene.trace.serving.gguf import GGUF_BYTES

Words = npt.NDArray[np.object_]
Pair = tuple[float, float]

LIKE: Mapping[str, tuple[str, ...]] = {
    "fp8": ("fp8_block", "bf16"),
    "fp8_block": ("fp8", "bf16"),
    "fp4": ("mxfp4", "fp8", "fp8_block", "bf16"),
    "mxfp4": ("fp4", "int4", "fp8", "fp8_block", "bf16"),
    "int4": ("mxfp4", "fp4", "bf16"),
    "bf16": (),
}
"""Whose table answers for a dtype that has none, the most alike first."""

WAITED: Mapping[str, str] = {"gemm/fp8_block": "gemm/fp8"}
"""Tables whose small kernels waited for the host, and whose kernels did not.

No block-scaled fp8 product takes less than 50 µs (Hopper, 75 µs from 32 tokens on) or
150 µs (Blackwell), whatever its shape, at almost idle power: the host was launching.
Inside a graph they are not slower than fp8 products of one scale by that much; a whole
module of latent attention with four of them takes 113 and 52 µs.
"""
WAITED_BY = 1.1

ROUGH: Pair = (-0.7, 0.7)
"""Width of what was never measured, an assumption: a factor of 2 either way."""
OCTAVE: Mapping[str, float] = {
    "gemm": 0.11, "context_attention": 0.15, "generation_attention": 0.1, "moe": 0.33,
    "latent_attention": 0.15, "latent_prompt": 0.15,
}  # fmt: skip
"""Half the interval, in log units, that every octave beyond the measured sizes adds:
median of the 90th percentile over tables whose largest sizes, up to three octaves, were
left out (`benchmarks/coverage.py`)."""
MOST = BEYOND["group"]
"""The most that sizes add: far away the roofline carries, as of kernels that were never
measured."""
UNLIKE: Mapping[str, float] = {"gemm": 1.0, "moe": 1.0}
UNLIKE_OTHERS = 0.5
"""The same of a kind whose dtype has no table: 90th percentile where the table of the
dtype was left out and the next of `LIKE` stood in."""
BORROWED: Mapping[str, float] = {
    "gemm": 0.2, "context_attention": 0.45, "generation_attention": 0.35, "moe": 0.7,
    "latent_attention": 0.45, "latent_prompt": 0.45,
}  # fmt: skip
"""The same of a table of another GPU, scaled: H100 and H200, each by the other's;
latent attention as prompts."""
CONTRADICTS = 0.7
"""log of how far the tables of two GPUs of one make may be apart, scaled by their
datasheets, before they contradict each other: a factor of 2, an assumption. Then what
is taken lies in the middle, and the interval holds both."""
COLLECTIVE_S = 5e-6
LINK_SHARE = 0.8
"""Latency of an all-reduce and the share of the link it reaches; both assumed."""
STREAM_SHARE = 0.92
"""Share of the bandwidth at which llama.cpp reads weights: 929 of 1,008 GB/s on an RTX
4090 with one stream."""
STREAM_WIDTH: Pair = (-0.07, 0.07)
"""Nine of ten times per token, family left out (`benchmarks/desktop.py`)."""
STREAM_KEY = "gemm/bf16"
"""The products whose launch time and bandwidth hold for ops that only move bytes."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of ops of one kind.

    Attributes:
        time_s: Seconds.
        low: log of the lower end of the 90 % interval over the time.
        high: log of the upper end over the time.
        reasons: Why a time is rough, "" where it is not.
        doubt: What that adds to half the interval, in log units; part of both ends.
    """

    time_s: Floats
    low: Floats
    high: Floats
    reasons: Words
    doubt: Floats


@dataclass(frozen=True, slots=True)
class KernelModels(Saved):
    """Time models by kind and dtype.

    Attributes:
        models: By key of `OpColumns`.
        transfer: Width of times on a GPU that was never measured, by kind.
        rivals: Models of a GPU of the same make whose table contradicts this one's, by
            key of both.
        stands_in: The GPU whose tables these are, "" for the device's own.
    """

    models: Mapping[str, TimeModel]
    transfer: Mapping[str, Pair] = field(default_factory=dict)
    rivals: Mapping[str, TimeModel] = field(default_factory=dict)
    stands_in: str = field(default="", metadata={"kept": False})

    def __post_init__(self) -> None:
        """Refuse models whose trees see other features than this version computes."""
        for key, model in self.models.items():
            kind = key.split("/")[0]
            if model.trees.features != FEATURES[kind]:
                raise FormatError(
                    f"the model of {kind} was trained with other features than this "
                    "version computes: train it anew with `irene train-ops`"
                )

    def times(self, ops: OpColumns, sheet: Datasheet, eager: bool = False) -> Times:
        """Times of ops of one kind and dtype on a GPU of this datasheet."""
        if not any(key.startswith(f"{ops.kind}/") for key in self.models):
            return self._counted(ops, sheet)
        is_packed = ops.dtype == "mxfp4" and sheet.host == "desktop"
        if ops.dtype in GGUF_BYTES or is_packed:
            return self._streamed(ops, sheet)
        key, why, doubt = self._key(ops)
        model = self.models[key]
        table_s = model.seconds(ops, sheet)
        time_s = table_s if eager else _padded_s(model, ops, sheet, table_s)
        reasons: Words = np.full(len(ops), why, dtype=object)
        doubts = np.full(len(ops), doubt)
        slow = table_s > WAITED_BY * time_s
        reasons[slow] = "one row takes longer than two in its table: time of two"
        doubts[slow] = np.hypot(doubt, np.log(table_s / time_s)[slow])
        other = WAITED.get(key, "")
        if other in self.models and not eager:
            one = self.models[other]
            other_s = _padded_s(one, ops, sheet, one.seconds(ops, sheet))
            waited = time_s > WAITED_BY * other_s
            reasons[waited] = f"measured while waiting for the host: time of {other}"
            time_s = np.where(waited, other_s, time_s)
        if key in self.rivals:
            rival = self.rivals[key]
            apart = np.log(rival.seconds(ops, sheet) / time_s)
            apart[np.abs(apart) < CONTRADICTS] = 0.0
            why = f"its {key} and that of {rival.borrowed_from} contradict each other"
            reasons[apart != 0.0] = why
            time_s = time_s * np.exp(apart / 2)
            doubts = np.hypot(doubts, apart / 2)
        octaves = model.octaves_beyond(ops)
        reasons[(octaves > 0) & (reasons == "")] = "a size beyond the measured ones"
        low, high = self._width(ops.kind, model)
        doubts = np.hypot(doubts, np.minimum(OCTAVE[ops.kind] * octaves, MOST))
        ends = -np.hypot(low, doubts), np.hypot(high, doubts)
        return Times(time_s, *ends, reasons, doubts)

    def _streamed(self, ops: OpColumns, sheet: Datasheet) -> Times:
        """Times of products with weights of GGUF files, read at the memory's rate."""
        compute_s, memory_s = seconds_of(ops, work_of(ops), sheet)
        base = self.models[STREAM_KEY].base
        law = SmoothRoofline(0.0, base.compute_factor, 1 / STREAM_SHARE)
        time_s = law.seconds(compute_s, memory_s)
        low, high = (np.full(len(ops), end) for end in STREAM_WIDTH)
        why = np.full(len(ops), "", dtype=object)
        return Times(time_s, low, high, why, np.zeros(len(ops)))

    def _key(self, ops: OpColumns) -> tuple[str, str, float]:
        """Whose model answers, why it is rough, and how much."""
        for dtype in (ops.dtype, *LIKE.get(ops.dtype, ("bf16",)), "bf16"):
            key = f"{ops.kind}/{dtype}"
            if key not in self.models:
                continue
            other = self.models[key].borrowed_from
            if dtype != ops.dtype:
                why = f"no table of {ops.kind} in {ops.dtype}: that of {dtype}"
                return key, why, UNLIKE.get(ops.kind, UNLIKE_OTHERS)
            if self.stands_in:
                why = f"no table of this GPU: that of {self.stands_in}, scaled"
                return key, why, 0.0
            if other:
                why = f"no table of {ops.key}: that of {other}"
                return key, why, BORROWED[ops.kind]
            return key, "", 0.0
        raise KeyError(ops.key)

    def _width(self, kind: str, model: TimeModel) -> Pair:
        if self.stands_in:
            low, high = self.transfer.get(kind, ROUGH)
            return min(low, model.width[0]), max(high, model.width[1])
        return model.width

    def _counted(self, ops: OpColumns, sheet: Datasheet) -> Times:
        """Times of ops without a table, from their bytes."""
        base = self.models[STREAM_KEY].base
        compute_s, memory_s = seconds_of(ops, work_of(ops), sheet)
        if ops.kind in COLLECTIVES:
            return _exchanged(ops, sheet, memory_s)
        time_s = base.seconds(compute_s, memory_s)
        why = "kernels nobody measured, reckoned at the rates of matrix products"
        return _rough(time_s, why, *ROUGH)


def _padded_s(
    model: TimeModel, ops: OpColumns, sheet: Datasheet, table_s: Floats
) -> Floats:
    """Times of a table, s, where products of one row take no longer than those of two.

    One row can be padded to two. Only the tables of Blackwell say otherwise, in fp8: by
    a tenth on most GPUs, and by 2.5 times on one.
    """
    if ops.kind != "gemm" or not (ops.columns["m"] == 1.0).any():
        return table_s
    two = {**ops.columns, "m": np.maximum(ops.columns["m"], 2.0)}
    return np.minimum(table_s, model.seconds(replace(ops, columns=two), sheet))


def _exchanged(ops: OpColumns, sheet: Datasheet, link_s: Floats) -> Times:
    """Times of collectives, as measured between GPUs of this kind."""
    measured = exchanges()[ops.kind].get(sheet.name)
    if measured is None:
        time_s = COLLECTIVE_S + link_s / LINK_SHARE
        why = "exchanges nobody measured, reckoned by the link of the datasheet"
        low, high = ROUGH
    else:
        sent = ring_bytes(ops.columns)
        time_s, width = exchange_seconds(measured, ops.columns["ranks"], sent)
        why, (low, high) = "", (-width, width)
    return _rough(time_s, why, low, high)


def _rough(time_s: Floats, why: str, low: float, high: float) -> Times:
    """Times that all are as rough."""
    ends = np.full(len(time_s), low), np.full(len(time_s), high)
    reasons: Words = np.full(len(time_s), why, dtype=object)
    doubt = np.full(len(time_s), high if why else 0.0)
    return Times(time_s, *ends, reasons, doubt)
