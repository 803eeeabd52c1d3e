"""Trainings that were published beside what is planned for them.

    python -m benchmarks.training

Tokens per second and GPU, from published GPU hours or as they were published, and W per
GPU where energy was. Nothing of a plan is fitted to the rows of speed. The share of
the power limit that GPUs draw is the middle of the two rows that have W, so that these
two are no test of it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from irene.analyse.training_plan import TrainingPlan, plan_training
from irene.spec import RunSpec

LLAMA_2 = "Touvron et al. 2023, Llama 2, Table 2: GPU hours; 2 T tokens of 4,096"
LLAMA_3 = "Llama 3.1, MODEL_CARD.md: GPU hours of all training; 15 T tokens of 8,192"
BLOOM = "Luccioni et al. 2023: 1,082,990 GPU hours; 366 G tokens of 2,048"
OLMO_3 = (
    "muxup.com/2025q4/minipost-olmo3-training-cost; OLMo 2 at 4,096 tokens stands in"
)
KEMPNER = "KempnerForge, reference/benchmarks: 4,096 tokens, checkpointing"


@dataclass(frozen=True, slots=True)
class Published:
    """A training as it was published.

    Attributes:
        model: In the catalogue; a neighbour of it where it is not there.
        on: Machine.
        gpus: How many; of a cluster the fewest that hold it, up to a node.
        seq_len: Tokens of a sequence.
        tokens_per_s: Of one GPU.
        source: Where it was published.
        power_w: Of one GPU; None where nobody measured.
        checkpointing: Whether the forward pass was computed again.
    """

    model: str
    on: str
    gpus: int
    seq_len: int
    tokens_per_s: float
    source: str
    power_w: float | None = None
    checkpointing: bool = False


def _of_hours(tokens: float, gpu_hours: float) -> float:
    return tokens / gpu_hours / 3600


PUBLISHED = (
    Published("llama-2-7b", "a100", 8, 4096, _of_hours(2e12, 184_320), LLAMA_2),
    Published("llama-2-70b", "a100", 16, 4096, _of_hours(2e12, 1_720_320), LLAMA_2),
    Published("llama-3.1-8b", "h100", 8, 8192, _of_hours(15e12, 1.46e6), LLAMA_3),
    Published("llama-3.1-70b", "h100", 16, 8192, _of_hours(15e12, 7.0e6), LLAMA_3),
    Published("llama-3.1-405b", "h100", 128, 8192, _of_hours(15e12, 30.84e6), LLAMA_3),
    Published("bloom-176b", "a100", 48, 2048, _of_hours(366e9, 1_082_990), BLOOM),
    Published("olmo-2-7b", "h100", 8, 4096, 7_700, OLMO_3, 146e6 / 234e3),
    Published("olmo-2-32b", "h100", 8, 4096, 1_900, OLMO_3, 681e6 / 1.05e6),
    Published("llama-2-7b", "h200", 1, 4096, 10_471, KEMPNER, checkpointing=True),
    Published("llama-2-7b", "h200", 4, 4096, 38_983 / 4, KEMPNER, checkpointing=True),
    Published("llama-2-13b", "h200", 8, 4096, 35_405 / 8, KEMPNER, checkpointing=True),
)


def planned(row: Published) -> TrainingPlan:
    """The plan of a published training, for as many tokens as it takes seconds."""
    run = RunSpec(row.model, batch_size=1, seq_len=row.seq_len)
    return plan_training(run, row.on, 1e9, row.gpus, checkpointing=row.checkpointing)


def main() -> None:
    """Print the table and the middle of it."""
    ratios, inside = [], 0
    print("model, machine, GPUs: tokens per s and GPU: published, planned, ratio; W")
    for row in PUBLISHED:
        plan = planned(row)
        assert plan.hours is not None
        rate = [
            1e9 / (3600 * hours * row.gpus)
            for hours in (plan.hours.value, plan.hours.high, plan.hours.low)
        ]
        watts = 1000 * plan.kwh.value / plan.hours.value / row.gpus
        told = "" if row.power_w is None else f", published {row.power_w:.0f}"
        ratios.append(rate[0] / row.tokens_per_s)
        inside += rate[1] <= row.tokens_per_s <= rate[2]
        print(
            f"{row.model}, {row.on}, {row.gpus}: {row.tokens_per_s:,.0f}, "
            f"{rate[0]:,.0f} ({rate[1]:,.0f} to {rate[2]:,.0f}), {ratios[-1]:.2f}; "
            f"{watts:.0f} W{told} ({row.source})"
        )
    print(
        f"planned by published: median {statistics.median(ratios):.2f}, "
        f"{min(ratios):.2f} to {max(ratios):.2f}; inside {inside} of {len(ratios)}"
    )


if __name__ == "__main__":
    main()
