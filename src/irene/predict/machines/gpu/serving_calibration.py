"""How whole servings differ from the sum of their kernels: few numbers per GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from irene.arrays import Bools, Floats
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.engines import TODAY
from irene.predict.machines.gpu.kernel_ops import Collective, Gemm, Memory, Moe, Op
from irene.predict.machines.gpu.kernel_work import Work
from irene.saved import Saved, shipped_document
from irene.trace.serving.gguf import GGUF_BYTES

SCHEMA = "irene.serving_calibration/5"
FILES = ("serving_calibration.json", "desktop_calibration.json")
UNSEEN = "unseen"
"""Name of the calibration for GPUs that no serving was measured on."""
LONG_ANSWER = 2048
"""Tokens of an answer from which on it counts as long; those of chat have some hundred,
those of reasoning several thousand."""
SLOW_BLOCKS = ("hopper",)
"""Architectures on which servings show that experts of block-scaled fp8 take longer
than their table."""
SHARPNESS = 8.0
"""How sharply power bends where it meets the limit."""

BYTE_ENERGY = {"hbm": 1.0, "gddr": 2.5}
"""Energy of a byte to or from a kind of memory, by that of HBM: an RTX 6000 Ada (GDDR6)
and an RTX 4090 (GDDR6X) take 2.3 to 2.7 times what H100, H200 and B200 do."""


@dataclass(frozen=True, slots=True)
class OpKinds:
    """What a calibration tells apart of ops, an array each in their order.

    Attributes:
        memory: Whether an op only moves bytes.
        experts: Whether it is experts.
        unpacked: Whether it is experts whose 4-bit weights are made wider before they
            are multiplied.
        blocks: Whether it is experts of block-scaled fp8 that take longer than their
            table.
        untuned: Whether it is experts of which each GPU has some, with more tokens than
            such experts: the engine's kernel is not tuned for their number, and takes
            blocks of the usual size.
        eights: Whether it is a product in fp8.
        talks: Whether GPUs exchange results.
    """

    memory: Bools
    experts: Bools
    unpacked: Bools
    blocks: Bools
    untuned: Bools
    eights: Bools
    talks: Bools

    @classmethod
    def of(cls, ops: Sequence[Op], sheet: Datasheet) -> OpKinds:
        """Those of ops on a GPU."""
        is_slow = sheet.architecture in SLOW_BLOCKS
        has_fp4 = "fp4" in sheet.flops_s

        def flags(holds: Callable[[Op], bool]) -> Bools:
            return np.array([holds(op) for op in ops], dtype=np.bool_)

        return cls(
            flags(lambda op: isinstance(op, Memory)),
            flags(lambda op: isinstance(op, Moe)),
            flags(lambda op: is_packed(op) and not has_fp4),
            flags(lambda op: is_slow and is_block(op)),
            flags(_is_untuned),
            flags(lambda op: isinstance(op, Gemm) and STORED.get(op.dtype) == "fp8"),
            flags(lambda op: isinstance(op, Collective)),
        )


def is_packed(op: Op) -> bool:
    """Whether an op is experts of 4 bit."""
    return isinstance(op, Moe) and STORED.get(op.dtype) == "fp4"


def is_block(op: Op) -> bool:
    """Whether an op is experts of block-scaled fp8."""
    return isinstance(op, Moe) and op.dtype == "fp8_block"


def _is_untuned(op: Op) -> bool:
    if not isinstance(op, Moe) or op.expert_parallel < 2:
        return False
    return op.dtype in ("bf16", "fp8") and op.tokens * op.expert_parallel > op.experts


@dataclass(frozen=True, slots=True)
class Calibration(Saved):
    """From the kernels of a step to its time and energy in a serving engine.

    Above its idle power a GPU takes `joules_per_byte` for what is moved, and shares of
    the span between idle and limit: `active_share` while anything runs, `compute_share`
    for arithmetic at the peak rate of bf16 whatever the precision, `experts_share`,
    `unpacked_share`, `block_share` and `eights_share` more while such kernels run,
    `sequence_share` in the time of sequences. A power limit holds for the mean of
    milliseconds: of a whole run, the share u of the span becomes u / (1 + u⁸)^⅛, which
    never passes one.

    Attributes:
        joules_per_byte: To and from memory, J; of HBM, `BYTE_ENERGY` has other kinds.
        active_share: Share of the span that any kernel takes by running at all.
        compute_share: Share of the span that arithmetic takes at bf16's peak rate.
        experts_share: Share that experts take beside their bytes and arithmetic.
        unpacked_share: What 4-bit experts take more where they are unpacked.
        block_share: What experts of block-scaled fp8 take more where they are slow.
        eights_share: What products in fp8 take more.
        collective_share: Share that GPUs take while they exchange results; assumed.
        sequence_share: Share during the time of sequences.
        experts_sequences: The same share in a model with experts, by that of others.
        limit_share: Part of the power limit that is reached.
        memory_time: Time of what only moves bytes, by that of products of as many.
        block_time: Time of slow experts of block-scaled fp8 by that of their table.
        untuned_time: Time of experts that kernels are not tuned for by their table's.
        gap_s: Time of a step in which nothing runs, s.
        layer_s: The same for each of its layers, s.
        long_gap_s: What steps of long answers on one GPU wait more, s.
        sequence_s: Time of a step for each of its sequences beside its kernels, s.
        logit_s: The same for each token of the vocabulary, which engines sort to draw
            one of the likely ones, s.
        energy_width: Half the 90 % interval of the energy, in log units, where the
            regime is in none of `energy_widths`.
        time_width: The same of time.
        unserved: What a GPU adds to that whose servings were not measured: half the
            interval in log units, of the energy.
        unserved_time: The same of time.
        energy_widths: Half the interval by regime, as `regime_of` names them.
        time_widths: The same of time.
        engine: Serving engine whose servings it is from.
        source: Which servings it is from, in words.
        errors: Errors with a model family left out, in percent.
    """

    joules_per_byte: float = 1.3e-10
    active_share: float = 0.1
    compute_share: float = 1.5
    experts_share: float = 0.1
    unpacked_share: float = 0.1
    block_share: float = 0.45
    eights_share: float = 0.05
    collective_share: float = 0.3
    sequence_share: float = 1.0
    experts_sequences: float = 1.0
    limit_share: float = 0.97
    memory_time: float = 1.0
    block_time: float = 1.7
    untuned_time: float = 1.2
    gap_s: float = 0.0
    layer_s: float = 1.5e-5
    long_gap_s: float = 0.0
    sequence_s: float = 1e-5
    logit_s: float = 2.1e-10
    energy_width: float = 0.5
    time_width: float = 0.7
    unserved: float = 0.0
    unserved_time: float = 0.0
    energy_widths: Mapping[str, float] = field(default_factory=dict)
    time_widths: Mapping[str, float] = field(default_factory=dict)
    engine: str = TODAY
    source: str = "no serving"
    errors: Mapping[str, Any] = field(default_factory=dict)

    def span_w(self, sheet: Datasheet) -> float:
        """From idle to the most that is reached, W."""
        return self.limit_share * sheet.tdp_w - sheet.idle_w

    def factors(self, kinds: OpKinds) -> Floats:
        """By how much ops take longer than in their tables."""
        found = np.where(kinds.memory, self.memory_time, 1.0)
        found = np.where(kinds.untuned, self.untuned_time, found)
        return np.where(kinds.blocks, self.block_time, found)

    def counted_j(
        self, kinds: OpKinds, worked_s: Floats, work: Work, sheet: Datasheet
    ) -> Floats:
        """What ops take for their bytes and arithmetic on one GPU, J."""
        compute_s = np.minimum(work.flops / sheet.peak("bf16"), worked_s)
        byte_j = self.joules_per_byte * BYTE_ENERGY[sheet.memory]
        counted = byte_j * work.bytes
        counted = counted + self.span_w(sheet) * self.compute_share * compute_s
        return np.where(kinds.talks, 0.0, counted)

    def running_w(self, kinds: OpKinds, sheet: Datasheet) -> Floats:
        """What ops take beside that and idle power while they run, W."""
        share = self.active_share + self.experts_share * kinds.experts.astype(
            np.float64
        )
        share += self.unpacked_share * kinds.unpacked
        share += self.block_share * kinds.blocks
        share += self.eights_share * kinds.eights
        share[kinds.talks] = self.collective_share
        return self.span_w(sheet) * share

    def work_j(
        self, kinds: OpKinds, worked_s: Floats, work: Work, sheet: Datasheet
    ) -> Floats:
        """What ops take on one GPU beyond its idle power, were there no limit, J."""
        counted = self.counted_j(kinds, worked_s, work, sheet)
        return counted + self.running_w(kinds, sheet) * worked_s

    def gap(
        self,
        sequences: Floats,
        vocabulary: Floats,
        layers: Floats,
        is_long: Bools | bool,
        has_experts: Bools | bool,
    ) -> tuple[Floats, Floats]:
        """Time of steps beyond their kernels, s, and of it at full power, s.

        Long answers are those on one GPU.
        """
        own_s = self.sequence_s * sequences
        share = self.sequence_share * np.where(has_experts, self.experts_sequences, 1.0)
        wait_s = self.gap_s + self.layer_s * layers
        wait_s = wait_s + np.where(is_long, self.long_gap_s, 0.0)
        drawn_s = self.logit_s * vocabulary * sequences
        return own_s + drawn_s + wait_s, own_s * share

    def limited_j(self, above_j: Floats, time_s: Floats, sheet: Datasheet) -> Floats:
        """Energy of GPUs within their limit, J.

        Both given are of all GPUs, energy without a limit and above idle power.
        """
        span_w = self.span_w(sheet)
        share = above_j / (span_w * time_s)
        return time_s * (sheet.idle_w + span_w * bend(share))

    def width(self, regime: str, of_time: bool = False) -> float:
        """Half the 90 % interval in a regime, in log units.

        Precisions and lengths of answers have one width unless told apart; what is no
        regime of a serving has the widest.
        """
        widths = self.time_widths if of_time else self.energy_widths
        usual = self.time_width if of_time else self.energy_width
        return widths.get(regime, widths.get(coarse(regime), usual))

    def unlike(self, regime: str) -> str:
        """Why no serving that it is from is like those of a regime, "" if some are."""
        if not self.energy_widths or {regime, coarse(regime)} & {*self.energy_widths}:
            return ""
        layers, stored, *_ = regime.split()
        what = f"weights in {stored}" if layers != "hybrid" else "layers of states"
        return f"{what}, as in no serving that its numbers are from"


def bend(share: Floats) -> Floats:
    """A share of power that never reaches one."""
    return share / (1.0 + share**SHARPNESS) ** (1.0 / SHARPNESS)


STORED = {
    "fp8": "fp8", "fp8_block": "fp8", "mxfp4": "fp4", "fp4": "fp4", "int4": "fp4",
    **dict.fromkeys(GGUF_BYTES, "gguf"),
}  # fmt: skip


def regime_of(
    ops: Sequence[Op], ranks: int, output_len: int, is_hybrid: bool = False
) -> str:
    """In which regime of measured servings one is, as `dense bf16 short one`."""
    kinds = {STORED.get(op.dtype, "bf16") for op in ops if isinstance(op, Gemm | Moe)}
    stored = next((kind for kind in ("gguf", "fp4", "fp8") if kind in kinds), "bf16")
    layers = "experts" if any(isinstance(op, Moe) for op in ops) else "dense"
    layers = "hybrid" if is_hybrid else layers
    where = "one" if ranks == 1 else "several"
    answers = "long" if output_len >= LONG_ANSWER else "short"
    return f"{layers} {stored} {answers} {where}"


def coarse(regime: str) -> str:
    """A regime by its layers and whether GPUs share them, such as `dense several`."""
    layers, *_, where = regime.split()
    return f"{layers} {where}"


@cache
def calibrations() -> Mapping[str, Calibration]:
    """Those that ship, by name of the GPU."""
    found = {}
    for file in FILES:
        document = shipped_document(__package__, file, SCHEMA)
        for name, fields in document["calibrations"].items():
            found[name] = Calibration.from_dict({"engine": TODAY, **fields})
    return found


def calibration_of(name: str) -> Calibration:
    """The calibration of a GPU, or the one for GPUs nobody measured."""
    known = calibrations()
    return known.get(name, known[UNSEEN])
