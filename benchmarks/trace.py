"""Speed of tracing, as ratios to the bare forward pass on the meta device.

The baseline runs the same model object on the same inputs, with nothing watching, in
the same process. Each figure is the best of several runs.

    python benchmarks/trace.py
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import nn

import irene
from irene.spec import RunSpec
from irene.trace.inputs import make_inputs
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.models import build, resolve
from irene.tree import ModelTree


@dataclass(frozen=True)
class Case:
    """A run, and what tracing it may cost at most, as a ratio to the bare forward."""

    spec: RunSpec
    ratio_allowed: float


CASES = (
    Case(RunSpec("bert-base-uncased", batch_size=8, seq_len=128), 2.5),
    Case(
        RunSpec(
            "llama-3.1-70b",
            seq_len=2048,
            dtype="bf16",
            attention="sdpa",
            phase="prefill",
        ),
        3.0,
    ),
)
MEMORY_ALLOWED_MB = 1000.0


@dataclass(frozen=True)
class Result:
    """What was measured; times in seconds, memory in MB."""

    name: str
    nodes: int
    bare_s: float
    trace_s: float
    ratio: float
    ratio_allowed: float
    fold_s: float
    json_s: float
    build_and_trace_s: float
    peak_mb: float

    @property
    def failures(self) -> list[str]:
        """Which promises were not kept."""
        broken = []
        if self.ratio > self.ratio_allowed:
            broken.append(f"ratio {self.ratio:.2f} > {self.ratio_allowed}")
        if max(self.fold_s, self.json_s) > self.trace_s:
            broken.append("folding or JSON takes longer than tracing")
        if self.peak_mb > MEMORY_ALLOWED_MB:
            broken.append(f"{self.peak_mb:.0f} MB resident")
        return broken


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Shortest time of several runs, s."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def bare_forward(model: nn.Module, spec: RunSpec) -> Callable[[], object]:
    """The same pass with nothing watching."""
    inputs = make_inputs(model, spec)
    if spec.phase == "prefill":
        inputs |= {"use_cache": True, "logits_to_keep": 1}

    def run() -> None:
        with torch.no_grad():
            model(**inputs)

    return run


def measure(case: Case, runs: int) -> Result:
    """Time one case."""
    spec = case.spec
    model = build(resolve(spec.model, DEFAULT_LIMITS), spec)
    inputs = make_inputs(model, spec)

    def trace() -> ModelTree:
        return irene.trace(model, inputs, phase=spec.phase)

    bare = bare_forward(model, spec)
    bare(), trace()  # warm up
    bare_s, trace_s = best_of(runs, bare), best_of(runs, trace)
    tree = trace()
    size = {"batch_size": spec.batch_size, "seq_len": spec.seq_len}
    kind = {"phase": spec.phase, "dtype": spec.dtype, "attention": spec.attention}
    return Result(
        name=spec.model,
        nodes=len(tree),
        bare_s=bare_s,
        trace_s=trace_s,
        ratio=trace_s / bare_s,
        ratio_allowed=case.ratio_allowed,
        fold_s=best_of(runs, tree.fold),
        json_s=best_of(runs, tree.to_json),
        build_and_trace_s=best_of(1, lambda: irene.trace(spec.model, **size, **kind)),
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    )


def main() -> int:
    """Measure all cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [measure(case, options.runs) for case in CASES]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        print_table(results)
    return any(result.failures for result in results)


def print_table(results: list[Result]) -> None:
    """One line per case."""
    print(
        f"{'model':20} {'nodes':>6} {'bare':>9} {'traced':>9} {'ratio':>6} "
        f"{'allowed':>7} {'fold':>9} {'JSON':>9} {'+ build':>9} {'peak':>8}"
    )
    for r in results:
        print(
            f"{r.name:20} {r.nodes:6,} {r.bare_s * 1e3:6.0f} ms "
            f"{r.trace_s * 1e3:6.0f} ms {r.ratio:6.2f} {r.ratio_allowed:7.1f} "
            f"{r.fold_s * 1e3:6.1f} ms "
            f"{r.json_s * 1e3:6.1f} ms {r.build_and_trace_s * 1e3:6.0f} ms "
            f"{r.peak_mb:5.0f} MB"
            + "".join(f"  FAILED: {failure}" for failure in r.failures)
        )


if __name__ == "__main__":
    sys.exit(main())
