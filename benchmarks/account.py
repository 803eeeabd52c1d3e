"""What accounting costs: a BERT step with and without it, in the same run.

Every round runs the same steps plain, off (plain again: nothing of a recording before
may stay behind), at module level and at op level, each in another order. A ratio is the
median over rounds of a variant's time to the plain one of its round. CPU time is
printed beside wall time: on a busy machine it is the steadier of the two, but it does
not see a step that waits. What is done after a recording (writing and reading the
profiler's trace, splitting energy) is not part of a step; it is printed per 1,000
events. Limits are on wall time. Needs a quiet machine.

    python benchmarks/account.py [--rounds 7] [--steps 2] [--layers 4] [--hidden 768]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "2")

import torch
from transformers import BertConfig, BertForSequenceClassification

from irene.account.live.session import record

SLACK = 0.02
"""Two plain runs differ by this even on a quiet machine."""
LIMITS = {"off": 1.00 + SLACK, "module": 1.05, "op": 1.15}
VARIANTS = ("plain", "off", "module", "op")
VOCABULARY = 30522


class Times(NamedTuple):
    """Seconds that steps took."""

    wall_s: float
    cpu_s: float


class Rest(NamedTuple):
    """What was done after a recording."""

    wall_s: float
    cpu_s: float
    events: int


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--meters", default="auto")
    return parser.parse_args()


def workloads(chosen: argparse.Namespace) -> dict[str, tuple[Any, Callable[[], None]]]:
    """A model and one step of it, for training and for inference."""
    config = BertConfig(
        num_hidden_layers=chosen.layers,
        hidden_size=chosen.hidden,
        num_attention_heads=chosen.hidden // 64,
        intermediate_size=4 * chosen.hidden,
    )
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    tokens = torch.randint(VOCABULARY, (chosen.batch, chosen.seq))
    labels = torch.zeros(chosen.batch, dtype=torch.int64)

    def train() -> None:
        optimizer.zero_grad()
        model(input_ids=tokens, labels=labels).loss.backward()
        optimizer.step()

    def infer() -> None:
        with torch.no_grad():
            model(input_ids=tokens)

    return {"training": (model, train), "inference": (model, infer)}


def timed(step: Callable[[], None], steps: int) -> Times:
    """Time of some steps, after one that is not counted."""
    step()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    return Times(time.perf_counter() - wall, time.process_time() - cpu)


def one(
    variant: str, model: Any, step: Callable[[], None], chosen: argparse.Namespace
) -> tuple[Times, Rest | None]:
    """Run one variant once."""
    live = None
    if variant in ("module", "op"):
        meters = chosen.meters.split(",")
        live = record(model, level=variant, meters=meters)  # type: ignore[arg-type]
    with live or nullcontext():
        took = timed(step, chosen.steps)
        wall, cpu = time.perf_counter(), time.process_time()
    if live is None:
        return took, None
    after = time.perf_counter() - wall, time.process_time() - cpu
    return took, Rest(*after, len(live.events))


def compare(
    name: str, model: Any, step: Callable[[], None], chosen: argparse.Namespace
) -> bool:
    """Run all rounds of a workload, print its ratios; whether the limits hold."""
    times: dict[str, list[Times]] = {variant: [] for variant in VARIANTS}
    rests: dict[str, list[Rest]] = {variant: [] for variant in VARIANTS}
    timed(step, 1)
    for number in range(chosen.rounds):
        turn = number % len(VARIANTS)
        for variant in VARIANTS[turn:] + VARIANTS[:turn]:
            took, rest = one(variant, model, step, chosen)
            times[variant].append(took)
            rests[variant] += [rest] if rest else []
    plain = times["plain"]
    step_s = statistics.median(took.wall_s for took in plain) / chosen.steps
    print(f"{name}: {step_s * 1e3:.0f} ms for a plain step, {chosen.rounds} rounds")
    held = True
    for variant, limit in LIMITS.items():
        pairs = list(zip(times[variant], plain, strict=True))
        wall = statistics.median(took.wall_s / base.wall_s for took, base in pairs)
        cpu = statistics.median(took.cpu_s / base.cpu_s for took, base in pairs)
        verdict = "held" if wall <= limit else "MISSED"
        held &= wall <= limit
        print(
            f"  {variant:<7} {wall:.3f} × plain (CPU time {cpu:.3f} ×), "
            f"limit {limit:.2f}: {verdict}{after_words(rests[variant])}"
        )
    return held


def after_words(rests: list[Rest]) -> str:
    """What is done after a recording, per 1,000 events."""
    if not rests:
        return ""
    wall_s = statistics.median(rest.wall_s / rest.events for rest in rests)
    cpu_s = statistics.median(rest.cpu_s / rest.events for rest in rests)
    events = statistics.median(rest.events for rest in rests)
    return (
        f"; afterwards {wall_s * 1e6:.0f} ms ({cpu_s * 1e6:.0f} ms CPU) per 1,000 "
        f"events of {events:,.0f}"
    )


def main() -> int:
    """Print the ratios; 1 if a limit was missed."""
    chosen = options()
    torch.manual_seed(0)
    print(
        f"BERT of {chosen.layers} layers, hidden {chosen.hidden}, batch "
        f"{chosen.batch}, {chosen.seq} tokens; {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}; load {os.getloadavg()[0]:.1f}"
    )
    held = [
        compare(name, model, step, chosen)
        for name, (model, step) in workloads(chosen).items()
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
