"""How quickly questions are answered, against importing torch and against traces.

    python -m benchmarks.at_once [--equal N [--models …] [--seed S] [--seconds T]]

Times are CPU seconds (user and system), so that other programs do not count. New
processes are compared with `import torch` in a new process, answers of a running
process with what a trace takes there. `--equal` compares trees of random models, sizes,
phases and attentions that ship with their traces, node by node: each line that
differs is printed, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from irene.errors import IreneError, TraceError
from irene.predict.api import predict
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.templates.keeping import shipped_fields
from irene.trace.templates.trees import tree_from_template
from irene.tree import ModelTree

REPEATS = 5
SIZES = 16
"""Sizes of a model, phase, attention and dtype that are compared."""
QUESTIONS = {
    "predict": ["predict", "bert-base-uncased"],
    "what-if 8 × 8": [
        "what-if", "bert-base-uncased", "--set", "batch_size=1,2,4,8,16,32,64,128",
        "--set", "seq_len=16,32,64,128,192,256,384,500",
    ],
    "suggest": ["suggest", "bert-base-uncased"],
    "trade-off": ["trade-off"],
    "leaderboard pc1": ["leaderboard", "--no-cache"],
    "leaderboard b200": ["leaderboard", "--no-cache", "--on", "b200"],
}  # fmt: skip
RUNNING = ("bert-base-uncased", "llama-3.1-70b", "deepseek-v3")


def new_process(words: list[str], repeats: int) -> float:
    """Least CPU seconds that a new Python and its children take."""
    seconds = []
    for _ in range(repeats):
        start = _of_children()
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=False
        )
        seconds.append(_of_children() - start)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr[-500:]}")
    return min(seconds)


def _of_children() -> float:
    """CPU seconds, user and system, of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processes() -> None:
    """New processes against `import torch`."""
    torch_s = new_process(["-c", "import torch"], REPEATS)
    print(f"| import torch | {torch_s:.2f} s | 1 × |")
    for name, words in QUESTIONS.items():
        took_s = new_process(["-m", "irene", *words], 1 if "board" in name else 3)
        print(f"| {name}, new process | {took_s:.2f} s | {took_s / torch_s:.2f} × |")


def running() -> None:
    """Sizes never asked, in a running process, against a trace of the same size."""
    for name in RUNNING:
        predict(name, batch_size=8)
        took = []
        for length in range(130, 150):
            start = time.process_time()
            predict(name, batch_size=8, seq_len=length)
            took.append(time.process_time() - start)
        quick_s = sorted(took)[len(took) // 2]
        from irene.trace.tracer import trace

        trace(name, batch_size=8, seq_len=129)
        start = time.process_time()
        trace(name, batch_size=8, seq_len=130)
        slow_s = time.process_time() - start
        print(
            f"| {name}, running process | {1e3 * quick_s:.1f} ms | "
            f"{quick_s / slow_s:.3f} × a trace |"
        )


def equality(models: list[str], count: int, seed: int, seconds: float) -> int:
    """Compare trees with their traces; how many differ.

    Models come in turn. A model is built once for several sizes. The first of them is
    traced with all its layers, the others with fewer, of which the whole is then put
    together.

    Args:
        models: Names of the catalogue.
        count: Most comparisons.
        seed: Of the random choices.
        seconds: Most time.
    """
    chosen, told = random.Random(seed), Counter[str]()
    end = time.monotonic() + seconds
    for name in _in_turn(models, chosen):
        if told["whole"] + told["fewer"] >= count or time.monotonic() > end:
            break
        variants = [each.split("/") for each in shipped_fields(name)]
        if not variants:
            told["no template"] += SIZES
            continue
        run = dict(
            zip(("phase", "attention", "dtype"), chosen.choice(variants), strict=True)
        )
        sizes = [
            {
                "batch_size": chosen.choice((1, 2, chosen.randint(2, 64))),
                "seq_len": chosen.randint(2, chosen.choice((64, 512, 512, 2048))),
            }
            for _ in range(SIZES)
        ]
        told.update(_compared(RunSpec.asked(name, run), sizes))
        print(f"{name} {'/'.join(run.values())} {dict(told)}", flush=True)
    print(f"| random runs | {dict(told)} | |")
    return told["different"]


def _in_turn(models: list[str], chosen: random.Random) -> Iterator[str]:
    """All models, in another order every time."""
    while True:
        yield from chosen.sample(models, len(models))


def _compared(spec: RunSpec, sizes: list[dict[str, int]]) -> Iterator[str]:
    """What became of each comparison."""
    found: dict[RunSpec, ModelTree] = {}
    for size in sizes:
        asked = spec.changed(**size)
        try:
            tree = tree_from_template(asked)
        except IreneError as error:
            yield "refused by size" if "positions" in str(error) else "refused"
            continue
        if tree is None:
            yield "no template"
        else:
            found[asked] = tree
    if found:
        yield from _against_traces(spec, found)


def _against_traces(spec: RunSpec, found: dict[RunSpec, ModelTree]) -> Iterator[str]:
    """How each tree was traced, and whether that is another."""
    from irene.trace.limits import DEFAULT_LIMITS
    from irene.trace.models import build, resolve
    from irene.trace.templates.fewer_layers import FewerLayers
    from irene.trace.templates.making import REBUILT
    from irene.trace.tracer import trace_built

    resolved = resolve(spec.model, DEFAULT_LIMITS)
    digest = resolved.digest
    model, fewer, is_cut = build(resolved, spec), None, True
    for asked, tree in found.items():
        named = replace(asked, model=resolved.name, config_digest=digest)
        traced = trace_built(model, resolved, named)
        same = tree == (fewer.whole_traced(traced) if fewer else traced)
        yield "fewer" if fewer else "whole"
        if not same:
            print("differs:", asked, flush=True)
            yield "different"
        if hasattr(model, REBUILT):
            model = build(resolved, spec)
        elif fewer is None and is_cut:
            fewer = FewerLayers(model, keep_last=spec.phase == "train")
            try:
                again = fewer.whole_traced(trace_built(model, resolved, named))
                is_cut = again == traced
            except TraceError:  # layers that are built alike do not run alike
                is_cut = False
            if not is_cut:
                model, fewer = build(resolved, spec), None


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equal", type=int, default=0, metavar="N")
    parser.add_argument("--models", nargs="*", default=list(catalogue.entries()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    print("| what | took | against |\n|---|---|---|")
    if options.equal:
        chosen = (options.models, options.equal, options.seed, options.seconds)
        return int(equality(*chosen) > 0)
    processes()
    running()
    return 0


if __name__ == "__main__":
    sys.exit(main())
