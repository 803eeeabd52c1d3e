"""How well `irene learn` knows the machine it ran on: whole models that it never saw.

    python benchmarks/learn.py --plan quick --threads 1 --threads 2

Truth is the wall time of real runs, measured in two passes over the whole exam; their
spread stands beside every error, and a run on a noisy machine says that it does not
count. Beside it, fitted to the same measurements: FLOPs times one rate, and a roofline
(FLOPs, bytes, ops). Run it with `nice -n -15` where others work on the machine, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig

from irene.collect.learning import learn
from irene.measure.alone.device import using_threads
from irene.measure.alone.journal import default_folder
from irene.measure.inside.op_timing import clock_of, timed_ops, watching_cost_s
from irene.measure.inside.prepared import Prepared, prepare
from irene.measure.inside.seen import Measured
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.predict.machines.specs.regression import relative_nnls
from irene.spec import RunSpec
from irene.trace.sources import quiet

NOISY = 0.03
"""Median spread of two measurements of the truth above which a run does not count."""
LEAST_S, RUNS, LONGEST_S = 1e-4, 5, 1.5
MOE = {
    "model_type": "qwen3_moe", "hidden_size": 640, "num_hidden_layers": 4,
    "num_attention_heads": 10, "num_key_value_heads": 2, "head_dim": 64,
    "moe_intermediate_size": 320, "num_experts": 12, "num_experts_per_tok": 3,
    "vocab_size": 8000, "intermediate_size": 1280,
}  # fmt: skip
MAMBA = {
    "model_type": "mamba", "hidden_size": 512, "num_hidden_layers": 4,
    "vocab_size": 8000, "state_size": 16,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "hidden_size": 1152, "num_hidden_layers": 6,
    "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 3200,
    "vocab_size": 32000,
}  # fmt: skip


def _run(batch: int, length: int, **more: Any) -> dict[str, Any]:
    return {"batch_size": batch, "seq_len": length, **more}


def _decode(batch: int, context: int, **more: Any) -> dict[str, Any]:
    return {**_run(batch, 1, phase="decode", context_len=context), **more}


SDPA, BF16 = {"attention": "sdpa"}, {"dtype": "bf16"}
LM = {"model_class": "AutoModelForCausalLM"}
EXAM: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("encoder", "bert", "bert-base-uncased", _run(1, 128)),
    ("encoder", "bert", "bert-base-uncased", _run(8, 32, **SDPA)),
    ("encoder", "roberta", "roberta-base", _run(2, 96, **SDPA)),
    ("encoder", "albert", "albert-base-v2", _run(4, 64)),
    ("encoder", "electra", "electra-small-discriminator", _run(16, 64)),
    ("encoder", "mpnet", "mpnet-base", _run(1, 48)),
    ("encoder", "minilm", "minilm-l6-h384", _run(32, 32, **SDPA)),
    ("encoder", "deberta", "deberta-v3-xsmall", _run(1, 64)),
    ("decoder", "gpt2", "gpt2", _run(1, 64, phase="prefill")),
    ("decoder", "gpt2", "gpt2", _decode(1, 200)),
    ("decoder", "pythia", "pythia-160m", _run(2, 64, **SDPA)),
    ("decoder", "pythia", "pythia-70m", _decode(8, 100, **SDPA)),
    ("decoder", "gpt-neo", "gpt-neo-125m", _run(1, 96, phase="prefill")),
    ("llama-like", "smollm", "smollm2-135m", _run(1, 128, phase="prefill", **SDPA)),
    ("llama-like", "smollm", "smollm2-135m", _decode(4, 150)),
    ("llama-like", "llama", LLAMA, _run(1, 60, **LM)),
    ("llama-like", "llama", LLAMA, _decode(1, 300, **SDPA, **LM)),
    ("enc-dec", "t5", "t5-small", _run(2, 64)),
    ("enc-dec", "bart", "bart-base", _run(1, 64, **SDPA)),
    ("enc-dec", "whisper", "whisper-tiny", _run(1, 32)),
    ("vision", "vit", "vit-small-patch16-224", _run(2, 1, **SDPA)),
    ("vision", "deit", "deit-tiny-patch16-224", _run(8, 1)),
    ("vision", "resnet", "resnet-50", _run(1, 1)),
    ("vision", "resnet", "resnet-18", _run(4, 1)),
    ("vision", "convnext", "convnext-tiny-224", _run(1, 1)),
    ("hard", "moe", MOE, _run(1, 48, **LM)),
    ("hard", "moe", MOE, _decode(2, 64, **LM)),
    ("hard", "mamba", MAMBA, _run(1, 48)),
    ("hard", "bf16", "bert-base-uncased", _run(2, 64, **BF16)),
    ("hard", "bf16", "smollm2-135m", _run(1, 64, phase="prefill", **BF16, **SDPA)),
    ("hard", "bf16", "gpt2", _decode(1, 120, **BF16)),
    ("hard", "large outputs", "minilm-l3-h384", _run(16, 320)),
    ("hard", "large outputs", "bert-l2-h256", _run(32, 256)),
]
"""Group, family, model, run: none of them is in any design."""


def _prepared(model: Any, run: dict[str, Any]) -> tuple[Prepared, Any, RunSpec]:
    if isinstance(model, str):
        spec, source = RunSpec.asked(model, run), model
    else:
        fields = {k: v for k, v in model.items() if k != "model_type"}
        source = AutoConfig.for_model(model["model_type"], **fields)
        spec = RunSpec.asked(model["model_type"], run)
    return prepare(source, spec, "cpu"), source, spec


def _wall_s(target: Prepared) -> float:
    """Median of several runs, after two that warm up, s."""
    for _ in range(2):
        target.run()
    taken: list[float] = []
    while len(taken) < RUNS or (sum(taken) < 0.4 and len(taken) < 200):
        begun = time.perf_counter()
        target.run()
        taken.append(time.perf_counter() - begun)
        if sum(taken) > LONGEST_S and len(taken) >= 3:
            break
    return statistics.median(taken)


@contextmanager
def _hooked(model: Any, seconds: dict[str, float]) -> Iterator[None]:
    """Time of every module by its path, all its calls together."""
    begun: list[float] = []
    handles = []
    for path, module in model.named_modules():

        def before(*_: Any) -> None:
            begun.append(time.perf_counter())

        def after(*_: Any, path: str = path) -> None:
            taken = time.perf_counter() - begun.pop()
            seconds[path] = seconds.get(path, 0.0) + taken

        handles.append(module.register_forward_pre_hook(before))
        handles.append(module.register_forward_hook(after))
    yield
    for handle in handles:
        handle.remove()


def _modules_s(target: Prepared) -> dict[str, float]:
    every: list[dict[str, float]] = []
    for _ in range(3):
        seconds: dict[str, float] = {}
        with _hooked(target.model, seconds):
            target.run()
        every.append(seconds)
    return {p: statistics.median(e[p] for e in every) for p in every[0]}


def _truth(entry: tuple[str, str, Any, dict[str, Any]]) -> dict[str, Any]:
    """One measurement of a run: whole, modules, primitives."""
    target, _, _ = _prepared(entry[2], entry[3])
    clock = clock_of("cpu", lambda: None)
    whole_s = _wall_s(target)
    modules = _modules_s(target)
    tree, hot_s = timed_ops(target, 3, clock, lambda: None)
    cost_s = watching_cost_s("cpu", clock)
    own = np.where(hot_s > 0, np.maximum(hot_s - cost_s, 0.0), 0.0)
    sums = tree.columns.inclusive(own, tree.parents)
    primitives = {
        (node.path, node.call): float(sums[node.row]) for node in tree.nodes("ml")
    }
    return {"whole": whole_s, "modules": modules, "primitives": primitives}


def _predictions(entry: Any, machine: Any) -> tuple[dict[str, Any], list[float]]:
    _, source, spec = _prepared(entry[2], entry[3])
    tree = predict_run(spec, machine, source=source)
    time_s = tree.features["time_s"]
    modules: dict[str, float] = {}
    for node in tree.nodes("module"):
        modules[node.path] = modules.get(node.path, 0.0) + float(time_s[node.row])
    found = {
        "whole": float(time_s[0]),
        "spread": float(tree.features["time_spread"][0]),
        "modules": modules,
        "primitives": {
            (n.path, n.call): float(time_s[n.row]) for n in tree.nodes("ml")
        },
    }
    ops = sum(node.kind == "math" for node in tree.nodes())
    work = [tree.root.flops / 1e9, tree.root.bytes / 2**20, float(ops)]
    return found, work


def _baselines(items: list[Measured]) -> Callable[[list[float]], tuple[float, float]]:
    """FLOPs × one rate, and a roofline, of the same measurements."""
    rows, seconds = [], []
    for item in items:
        if item.whole is None:
            continue
        gflop = sum(op.flops * op.times for op in item.ops) / 1e9
        mib = sum(op.moved * op.times for op in item.ops) / 2**20
        rows.append([gflop, mib, float(item.whole.calls[0])])
        seconds.append(item.whole.seconds)
    work, taken = np.array(rows), np.array(seconds)
    rate = float(np.median(taken / np.maximum(work[:, 0], 1e-6)))
    roofline = relative_nnls(work / taken[:, None], np.ones(len(taken)))
    return lambda w: (rate * w[0], float(np.array(w) @ roofline))


def _told(errors: list[float]) -> str:
    if not errors:
        return "–"
    each = 100 * np.abs(errors)
    return f"{np.median(each):.1f} / {np.quantile(each, 0.9):.1f} ({len(each)})"


def _exam(plan: str, threads: int, reuse: str | None) -> dict[str, Any]:
    name = reuse or f"bench-{plan}-{threads}"
    if reuse is None:
        begun = time.monotonic()
        learn(plan, name=name, device="cpu", threads=threads, fresh=True)
        print(f"learned {name} in {time.monotonic() - begun:.0f} s", flush=True)
    machine: Any = find_machine(name)
    newest = max(default_folder().glob("learn-*.done"), key=lambda p: p.stat().st_mtime)
    lines = newest.read_text().splitlines()[1:]
    items = [Measured.from_dict(json.loads(line)) for line in lines]
    baseline = _baselines([item for item in items if item.kind == "blocks"])
    torch.set_flush_denormal(True)
    with using_threads(threads), quiet():
        first = [_safely(entry) for entry in EXAM]
        second = [_safely(entry) for entry in EXAM]
        return _compared(first, second, machine, baseline)


def _safely(entry: Any) -> dict[str, Any] | None:
    try:
        return _truth(entry)
    except Exception as error:  # noqa: BLE001  one model must not end the exam
        print(f"not measured: {entry[1:]}: {error}", flush=True)
        return None


def _compared(first: Any, second: Any, machine: Any, baseline: Any) -> dict[str, Any]:
    rows, modules, primitives, spreads = [], [], [], []
    for entry, a, b in zip(EXAM, first, second, strict=True):
        if a is None or b is None:
            continue
        try:
            found, work = _predictions(entry, machine)
        except Exception as error:  # noqa: BLE001  one model must not end the exam
            print(f"not predicted: {entry[1]}: {str(error)[:200]}", flush=True)
            continue
        truth = 0.5 * (a["whole"] + b["whole"])
        spread = abs(a["whole"] - b["whole"]) / truth
        error = found["whole"] / truth - 1
        flops_s, roofline_s = baseline(work)
        rows.append(
            (entry[0], entry[1], truth, spread, error, flops_s / truth - 1,
             roofline_s / truth - 1, abs(np.log1p(error)) <= np.log(found["spread"]))
        )  # fmt: skip
        for kind, least, into in (
            ("modules", 0.0, modules),
            ("primitives", LEAST_S, primitives),
        ):
            for key, seconds in found[kind].items():
                real = [t[kind].get(key, 0.0) for t in (a, b)]
                if min(real) > least and sum(real) > 2e-4:
                    into.append(2 * seconds / sum(real) - 1)
                    spreads.append(abs(real[0] - real[1]) / max(real))
    return {
        "rows": rows,
        "modules": modules,
        "primitives": primitives,
        "spreads": spreads,
    }


def _report(plan: str, threads: int, found: dict[str, Any]) -> None:
    rows = found["rows"]
    load = os.getloadavg()[0]
    print(f"\n## {plan}, {threads} threads; load average {load:.1f}\n")
    heads = ["group", "family", "time, ms", "truth twice, %", "learned, %"]
    heads += ["FLOPs × rate, %", "roofline, %", "inside"]
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    for group, family, truth, spread, error, flops, roofline, inside in rows:
        print(
            f"| {group} | {family} | {truth * 1e3:.1f} | {100 * spread:.1f} | "
            f"{100 * error:+.1f} | {100 * flops:+.0f} | {100 * roofline:+.0f} | "
            f"{'yes' if inside else 'no'} |"
        )
    usual = [row for row in rows if row[0] != "hard"]
    heads = ["median / p90 of the error of time, % (number)", "learned"]
    heads += ["FLOPs × rate", "roofline", "truth twice"]
    print(f"\n| {' | '.join(heads)} |")
    print("|---|---:|---:|---:|---:|")
    for name, some in (
        ("whole models, fp32", usual),
        ("bf16, experts, scans, large outputs", [r for r in rows if r[0] == "hard"]),
    ):
        cells = [_told([row[i] for row in some]) for i in (4, 5, 6, 3)]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"| modules | {_told(found['modules'])} | | | |")
    cells = [_told(found["primitives"]), "", "", _told(found["spreads"])]
    print(f"| primitives of ≥ 0.1 ms | {' | '.join(cells)} |")
    print(f"\ninside the 90 % interval: {np.mean([row[7] for row in rows]):.0%}")
    noise = float(np.median([row[3] for row in rows]))
    mine, flops, roofline = (
        float(np.median(np.abs([r[i] for r in usual]))) for i in (4, 5, 6)
    )
    print(f"better than FLOPs × rate {flops / mine:.1f} ×")
    print(f"better than a roofline {roofline / mine:.1f} ×")
    if noise > NOISY:
        print(
            f"truth differs by {noise:.1%} between two passes: this run does not count"
        )


def main() -> None:
    """Learn, examine, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--plan", default="quick", choices=("quick", "usual", "thorough")
    )
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--machine", help="one that is learned already")
    options = parser.parse_args()
    for threads in options.threads or [1]:
        found = _exam(options.plan, threads, options.machine)
        _report(options.plan, threads, found)


if __name__ == "__main__":
    main()
