"""How whole servings differ from the sum of their kernels: few numbers per GPU."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.predict.learned_file import Floats, Saved, check_schema
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_models import WAITED
from irene.predict.machines.gpu.kernel_ops import Collective, Gemm, Memory, Moe, Op
from irene.predict.machines.gpu.kernel_work import Work

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

SCHEMA = "irene.serving_calibration/2"
FILE = "serving_calibration.json"
UNSEEN = "unseen"
"""Name of the calibration for GPUs that no serving was measured on."""
LONG_ANSWER = 2048
"""Tokens of an answer from which on it counts as long; those of chat have some hundred,
those of reasoning several thousand."""
BLOCKS = "gemm/fp8_block"
SHARPNESS = 8.0
"""How sharply power bends where it meets the limit."""


@dataclass(frozen=True, slots=True)
class OpKinds:
    """What a calibration tells apart of ops, an array each in their order.

    Attributes:
        memory: Whether an op only moves bytes.
        experts: Whether it is experts.
        blocks: Whether it is a product of block-scaled fp8 that takes its table's time.
        talks: Whether GPUs exchange results.
        uneven: Time until the busiest GPU is done, by that of the mean one.
    """

    memory: Flags
    experts: Flags
    blocks: Flags
    talks: Flags
    uneven: Floats

    @classmethod
    def of(cls, ops: Sequence[Op], sheet: Datasheet) -> OpKinds:
        """Those of ops on a GPU."""
        is_slow = (sheet.architecture, BLOCKS) not in WAITED
        blocks = [
            is_slow and isinstance(op, Gemm) and op.dtype == "fp8_block" for op in ops
        ]
        return cls(
            np.array([isinstance(op, Memory) for op in ops], dtype=np.bool_),
            np.array([isinstance(op, Moe) for op in ops], dtype=np.bool_),
            np.array(blocks, dtype=np.bool_),
            np.array([isinstance(op, Collective) for op in ops], dtype=np.bool_),
            np.array([uneven(op) for op in ops], dtype=np.float64),
        )


@dataclass(frozen=True, slots=True)
class Calibration(Saved):
    """From the kernels of a step to its time and energy in a serving engine.

    While a kernel runs, a GPU takes its idle power and, of the span between that and
    its limit, a share u: `joules_per_byte` for what is moved, `compute_share` for
    arithmetic at the peak rate of bf16 whatever the precision, `experts_share` more in
    experts and `block_share` in products that scale blocks, bent as u / (1 + u⁸)^⅛ so
    that it never passes the limit. A step takes more time than its kernels: some for
    each of its sequences, at `sequence_share`, and some at idle power.

    Attributes:
        joules_per_byte: To and from memory, J.
        compute_share: Share of the span that arithmetic takes at bf16's peak rate.
        experts_share: Share that experts take beside their bytes and arithmetic.
        block_share: Share that products of block-scaled fp8 take beside theirs.
        collective_share: Share that GPUs take while they exchange results; assumed.
        sequence_share: Share during the time of sequences, before it is bent.
        limit_share: Part of the power limit that is reached.
        memory_time: Time of what only moves bytes, by that of products of as many.
        gap_s: Time of a step in which nothing runs, s.
        sequence_s: Time of a step for each of its sequences beside its kernels, s.
        energy_width: Half the 90 % interval of the energy, in log units, where the
            regime is in none of `energy_widths`.
        time_width: The same of time.
        energy_widths: Half the interval by regime, as `regime_of` names them.
        time_widths: The same of time.
        source: Which servings it is from, in words.
        errors: Errors with a model family left out, in percent.
    """

    joules_per_byte: float = 1.4e-10
    compute_share: float = 1.0
    experts_share: float = 0.1
    block_share: float = 0.8
    collective_share: float = 0.5
    sequence_share: float = 1.0
    limit_share: float = 0.97
    memory_time: float = 1.5
    gap_s: float = 1e-3
    sequence_s: float = 4e-5
    energy_width: float = 0.5
    time_width: float = 0.7
    energy_widths: Mapping[str, float] = field(default_factory=dict)
    time_widths: Mapping[str, float] = field(default_factory=dict)
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
        return worked, worked * kinds.uneven

    def work_j(
        self, kinds: OpKinds, worked_s: Floats, work: Work, sheet: Datasheet
    ) -> Floats:
        """What ops take on one GPU beyond its idle power, J.

        Args:
            kinds: What is run.
            worked_s: Time in which a GPU works on each, s.
            work: FLOPs and bytes of each.
            sheet: Whose idle power and limit hold.
        """
        span_w = self.span_w(sheet)
        compute = np.minimum(work.flops / sheet.peak("bf16") / worked_s, 1.0)
        share = self.joules_per_byte * work.bytes / worked_s / span_w
        share = share + self.compute_share * compute
        share = share + self.experts_share * kinds.experts
        share = share + self.block_share * kinds.blocks
        bent = bend(np.where(kinds.talks, self.collective_share, share))
        found: Floats = span_w * worked_s * bent
        return found

    def gap(self, sequences: Floats, sheet: Datasheet) -> tuple[Floats, Floats]:
        """Time of steps beyond their kernels, s, and their energy on one GPU, J."""
        time_s = self.gap_s + self.sequence_s * sequences
        return time_s, self.gap_j(sequences, time_s, sheet)

    def gap_j(self, sequences: Floats, time_s: Floats, sheet: Datasheet) -> Floats:
        """Energy of steps in the time beyond their kernels on one GPU, J."""
        busy_s = np.minimum(self.sequence_s * sequences, time_s)
        share = bend(np.array(self.sequence_share))
        joules: Floats = sheet.idle_w * time_s + self.span_w(sheet) * share * busy_s
        return joules

    def width(self, regime: str, of_time: bool = False) -> float:
        """Half the 90 % interval in a regime, in log units.

        A regime with few servings has that of one and several GPUs together; what
        nobody measured has the widest.
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


STORED = {"fp8": "fp8", "fp8_block": "fp8", "mxfp4": "fp4", "fp4": "fp4", "int4": "fp4"}


def regime_of(ops: Sequence[Op], ranks: int, output_len: int) -> str:
    """In which regime of the measured servings one is, such as `dense bf16 one short`.

    Args:
        ops: What it runs.
        ranks: GPUs.
        output_len: Tokens of an answer.
    """
    kinds = {STORED.get(op.dtype, "bf16") for op in ops if isinstance(op, Gemm | Moe)}
    stored = next((kind for kind in ("fp4", "fp8") if kind in kinds), "bf16")
    layers = "experts" if any(isinstance(op, Moe) for op in ops) else "dense"
    where = "one" if ranks == 1 else "several"
    answers = "long" if output_len >= LONG_ANSWER else "short"
    return f"{layers} {stored} {answers} {where}"


def without_ranks(regime: str) -> str:
    """A regime on however many GPUs."""
    return regime.rpartition(" ")[0]


@cache
def calibrations() -> Mapping[str, Calibration]:
    """Those that ship, by name of the GPU."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    document = json.loads(text)
    check_schema(document.get("schema"), SCHEMA)
    return {
        name: Calibration.from_dict(fields)
        for name, fields in document["calibrations"].items()
    }


def calibration_of(name: str) -> Calibration:
    """The calibration of a GPU, or the one for GPUs nobody measured."""
    known = calibrations()
    return known.get(name, known[UNSEEN])
