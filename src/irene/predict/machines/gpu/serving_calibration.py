"""How whole servings differ from the sum of their kernels: few numbers per GPU."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.learned_file import Floats, Saved, check_schema
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.engines import TODAY
from irene.predict.machines.gpu.kernel_models import WAITED
from irene.predict.machines.gpu.kernel_ops import Collective, Gemm, Memory, Moe, Op
from irene.predict.machines.gpu.kernel_work import Work
from irene.trace.serving.gguf import GGUF_BYTES

__all__ = [
    "LONG_ANSWER",
    "SCHEMA",
    "UNSEEN",
    "Calibration",
    "OpKinds",
    "bend",
    "calibration_of",
    "calibrations",
    "regime_of",
    "uneven",
    "without_ranks",
]


Flags = npt.NDArray[np.bool_]

SCHEMA = "irene.serving_calibration/3"
FILES = ("serving_calibration.json", "desktop_calibration.json")
UNSEEN = "unseen"
"""Name of the calibration for GPUs that no serving was measured on."""
LONG_ANSWER = 2048
"""Tokens of an answer from which on it counts as long; those of chat have some hundred,
those of reasoning several thousand."""
BLOCKS = "gemm/fp8_block"
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
        scaled: Whether it is experts, but not 4-bit ones that are multiplied as such.
        unpacked: Whether it is experts whose 4-bit weights are made wider before they
            are multiplied.
        blocks: Whether it is a product of block-scaled fp8 that takes its table's time.
        talks: Whether GPUs exchange results.
        uneven: Time until the busiest GPU is done, by that of the mean one.
    """

    memory: Flags
    experts: Flags
    scaled: Flags
    unpacked: Flags
    blocks: Flags
    talks: Flags
    uneven: Floats

    @classmethod
    def of(cls, ops: Sequence[Op], sheet: Datasheet) -> OpKinds:
        """Those of ops on a GPU."""
        is_slow = (sheet.architecture, BLOCKS) not in WAITED
        has_fp4 = "fp4" in sheet.flops_s

        def flags(holds: Callable[[Op], bool]) -> Flags:
            return np.array([holds(op) for op in ops], dtype=np.bool_)

        experts, packed = flags(lambda op: isinstance(op, Moe)), flags(_is_packed)
        return cls(
            flags(lambda op: isinstance(op, Memory)),
            experts,
            experts & ~(packed & has_fp4),
            packed & (not has_fp4),
            flags(lambda op: is_slow and _is_block(op)),
            flags(lambda op: isinstance(op, Collective)),
            np.array([uneven(op) for op in ops], dtype=np.float64),
        )


def _is_packed(op: Op) -> bool:
    return isinstance(op, Moe) and STORED.get(op.dtype) == "fp4"


def _is_block(op: Op) -> bool:
    return isinstance(op, Gemm) and op.dtype == "fp8_block"


@dataclass(frozen=True, slots=True)
class Calibration(Saved):
    """From the kernels of a step to its time and energy in a serving engine.

    Above its idle power a GPU takes `joules_per_byte` for what is moved, and shares of
    the span between idle and limit: `compute_share` for arithmetic at the peak rate of
    bf16 whatever the precision, `experts_share`, `unpacked_share` and `block_share`
    while such kernels run, `sequence_share` in the time of sequences. A power limit
    holds for the mean of milliseconds: of a whole run, the share u of the span becomes
    u / (1 + u⁸)^⅛, which never passes one.

    Attributes:
        joules_per_byte: To and from memory, J; of HBM, `BYTE_ENERGY` has other kinds.
        compute_share: Share of the span that arithmetic takes at bf16's peak rate.
        experts_share: Share that experts take beside their bytes and arithmetic.
        unpacked_share: What 4-bit experts take more where they are unpacked.
        block_share: Share that products of block-scaled fp8 take beside theirs.
        collective_share: Share that GPUs take while they exchange results; assumed.
        sequence_share: Share during the time of sequences.
        experts_sequences: The same share in a model with experts, by that of others.
        limit_share: Part of the power limit that is reached.
        memory_time: Time of what only moves bytes, by that of products of as many.
        experts_time: Time of experts by that of their table, but 4-bit ones where a
            GPU multiplies in 4 bits.
        gap_s: Time of a step in which nothing runs, s.
        long_gap_s: What steps of long answers on one GPU wait more, s.
        sequence_s: Time of a step for each of its sequences beside its kernels, s.
        energy_width: Half the 90 % interval of the energy, in log units, where the
            regime is in none of `energy_widths`.
        time_width: The same of time.
        energy_widths: Half the interval by regime, as `regime_of` names them.
        time_widths: The same of time.
        engine: Serving engine whose servings it is from.
        source: Which servings it is from, in words.
        errors: Errors with a model family left out, in percent.
    """

    joules_per_byte: float = 1.3e-10
    compute_share: float = 1.5
    experts_share: float = 0.1
    unpacked_share: float = 0.1
    block_share: float = 0.8
    collective_share: float = 0.3
    sequence_share: float = 1.0
    experts_sequences: float = 1.0
    limit_share: float = 0.97
    memory_time: float = 1.5
    experts_time: float = 1.0
    gap_s: float = 1e-3
    long_gap_s: float = 0.0
    sequence_s: float = 4e-5
    energy_width: float = 0.5
    time_width: float = 0.7
    energy_widths: Mapping[str, float] = field(default_factory=dict)
    time_widths: Mapping[str, float] = field(default_factory=dict)
    engine: str = TODAY
    source: str = "no serving"
    errors: Mapping[str, Any] = field(default_factory=dict)

    def span_w(self, sheet: Datasheet) -> float:
        """From idle to the most that is reached, W."""
        return self.limit_share * sheet.tdp_w - sheet.idle_w

    def factors(self, kinds: OpKinds) -> tuple[Floats, Floats]:
        """By how much ops work longer than in their tables, and how long others wait.

        Args:
            kinds: What is run.

        Returns:
            Time in which the mean rank works, and time until the busiest one is done,
            both by the table's time.
        """
        worked = np.where(kinds.memory, self.memory_time, 1.0)
        worked = np.where(kinds.scaled, self.experts_time, worked)
        return worked, worked * kinds.uneven

    def work_j(
        self, kinds: OpKinds, worked_s: Floats, work: Work, sheet: Datasheet
    ) -> Floats:
        """What ops take on one GPU beyond its idle power, were there no limit, J.

        Args:
            kinds: What is run.
            worked_s: Time in which a GPU works on each, s.
            work: FLOPs and bytes of each.
            sheet: Whose idle power and limit hold.
        """
        span_w = self.span_w(sheet)
        compute_s = np.minimum(work.flops / sheet.peak("bf16"), worked_s)
        share = self.experts_share * kinds.experts
        share = share + self.unpacked_share * kinds.unpacked
        share = share + self.block_share * kinds.blocks
        busy_s = self.compute_share * compute_s + share * worked_s
        byte_j = self.joules_per_byte * BYTE_ENERGY[sheet.memory]
        alone: Floats = byte_j * work.bytes + span_w * busy_s
        return np.where(kinds.talks, span_w * self.collective_share * worked_s, alone)

    def gap(
        self, sequences: Floats, is_long: Flags | bool, has_experts: Flags | bool
    ) -> tuple[Floats, Floats]:
        """Time of steps beyond their kernels, s, and of it at full power, s.

        Args:
            sequences: Of each step.
            is_long: Whether they are of long answers on one GPU.
            has_experts: Whether they are of a model with experts.
        """
        own_s = self.sequence_s * sequences
        share = self.sequence_share * np.where(has_experts, self.experts_sequences, 1.0)
        wait_s = self.gap_s + np.where(is_long, self.long_gap_s, 0.0)
        return own_s + wait_s, own_s * share

    def limited_j(self, above_j: Floats, time_s: Floats, sheet: Datasheet) -> Floats:
        """Energy of GPUs within their limit, J.

        Args:
            above_j: What they would take above idle power without one, J.
            time_s: Their time, of all of them, s.
            sheet: Whose idle power and limit hold.
        """
        span_w = self.span_w(sheet)
        share = above_j / (span_w * time_s)
        joules: Floats = time_s * (sheet.idle_w + span_w * bend(share))
        return joules

    def width(self, regime: str, of_time: bool = False) -> float:
        """Half the 90 % interval in a regime, in log units.

        Regimes on one GPU and on several have one width unless told apart; what is no
        regime of a serving has the widest.
        """
        widths = self.time_widths if of_time else self.energy_widths
        usual = self.time_width if of_time else self.energy_width
        return widths.get(regime, widths.get(without_ranks(regime), usual))


def bend(share: Floats) -> Floats:
    """A share of power that never reaches one."""
    bent: Floats = share / (1.0 + share**SHARPNESS) ** (1.0 / SHARPNESS)
    return bent


LARGEST_OF = {1: 0.0, 2: 0.564, 4: 1.029, 8: 1.423, 16: 1.766, 32: 2.070, 64: 2.344}
"""Mean of the largest of so many normal numbers, in standard deviations (Teichroew,
Annals of Mathematical Statistics 27, 1956)."""


def uneven(op: Op) -> float:
    """Experts that the busiest of several GPUs reads, by those of the mean one.

    Where each GPU has some of the experts, tokens touch more of them on one than on
    another: of E / R experts each is touched with probability q, and all wait for the
    GPU with most.
    """
    if not isinstance(op, Moe) or op.expert_parallel < 2:
        return 1.0
    share = min(op.topk / op.experts, 0.999999)
    touched = -math.expm1(max(op.tokens, 1) * math.log1p(-share))
    here = max(op.experts / op.expert_parallel, 1.0)
    ranks = 1 << round(math.log2(min(op.expert_parallel, max(LARGEST_OF))))
    spread = math.sqrt((1.0 - touched) / (here * touched))
    return min(1.0 + LARGEST_OF[ranks] * spread, max(1.0 / touched, 1.0))


STORED = {
    "fp8": "fp8", "fp8_block": "fp8", "mxfp4": "fp4", "fp4": "fp4", "int4": "fp4",
    **dict.fromkeys(GGUF_BYTES, "gguf"),
}  # fmt: skip


def regime_of(
    ops: Sequence[Op], ranks: int, output_len: int, is_hybrid: bool = False
) -> str:
    """In which regime of the measured servings one is, such as `dense bf16 one short`.

    Args:
        ops: What it runs.
        ranks: GPUs.
        output_len: Tokens of an answer.
        is_hybrid: Whether some of its layers are state spaces.
    """
    kinds = {STORED.get(op.dtype, "bf16") for op in ops if isinstance(op, Gemm | Moe)}
    stored = next((kind for kind in ("gguf", "fp4", "fp8") if kind in kinds), "bf16")
    layers = "experts" if any(isinstance(op, Moe) for op in ops) else "dense"
    layers = "hybrid" if is_hybrid else layers
    where = "one" if ranks == 1 else "several"
    answers = "long" if output_len >= LONG_ANSWER else "short"
    return f"{layers} {stored} {answers} {where}"


def without_ranks(regime: str) -> str:
    """A regime on however many GPUs."""
    return regime.rpartition(" ")[0]


@cache
def calibrations() -> Mapping[str, Calibration]:
    """Those that ship, by name of the GPU."""
    found = {}
    for file in FILES:
        text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
        document = json.loads(text)
        check_schema(document.get("schema"), SCHEMA)
        for name, fields in document["calibrations"].items():
            found[name] = Calibration.from_dict({"engine": TODAY, **fields})
    return found


def calibration_of(name: str) -> Calibration:
    """The calibration of a GPU, or the one for GPUs nobody measured."""
    known = calibrations()
    return known.get(name, known[UNSEEN])
