"""How quickly questions are answered, against importing torch and against traces.

    python -m benchmarks.at_once [--equal N] [--seed S]

New processes are compared with `import torch` in a new process, answers of a running
process with what a trace takes there. `--equal` compares trees of random models, sizes,
phases and attentions of the catalogue with their traces, node by node: each line that
differs is printed, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter

from irene.errors import IreneError
from irene.predict.api import predict
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.templates.trees import tree_from_template

REPEATS = 5
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
    """Least seconds that a new Python takes."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=False
        )
        seconds.append(time.perf_counter() - start)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr[-500:]}")
    return min(seconds)


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
            start = time.perf_counter()
            predict(name, batch_size=8, seq_len=length)
            took.append(time.perf_counter() - start)
        quick_s = sorted(took)[len(took) // 2]
        from irene.trace.tracer import trace

        trace(name, batch_size=8, seq_len=129)
        start = time.perf_counter()
        trace(name, batch_size=8, seq_len=130)
        slow_s = time.perf_counter() - start
        print(
            f"| {name}, running process | {1e3 * quick_s:.1f} ms | "
            f"{quick_s / slow_s:.3f} × a trace |"
        )


def equality(count: int, seed: int) -> int:
    """Compare trees with their traces; how many differ."""
    from irene.trace.tracer import trace_spec

    chosen, told = random.Random(seed), Counter[str]()
    for _ in range(count):
        spec = RunSpec(
            chosen.choice(list(catalogue.entries())),
            batch_size=chosen.choice((1, 2, chosen.randint(2, 64))),
            seq_len=chosen.randint(2, 512),
            phase=chosen.choice(("forward", "forward", "prefill", "decode", "train")),
            attention=chosen.choice(("eager", "sdpa")),
            dtype=chosen.choice(("fp32", "bf16")),
        )
        try:
            tree = tree_from_template(spec)
        except IreneError:
            told["refused"] += 1
            continue
        if tree is None:
            told["no template"] += 1
            continue
        same = tree == trace_spec(spec)
        told["equal" if same else "different"] += 1
        if not same:
            print("differs:", spec, flush=True)
    print(f"| {count:,} random runs | {dict(told)} | |")
    return told["different"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equal", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| what | took | against |\n|---|---|---|")
    if options.equal:
        return int(equality(options.equal, options.seed) > 0)
    processes()
    running()
    return 0


if __name__ == "__main__":
    sys.exit(main())
