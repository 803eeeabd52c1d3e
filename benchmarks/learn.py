"""How well `irene learn` knows the machine it ran on: whole models that it never saw.

    python benchmarks/learn.py

Truth is the wall time of real runs, measured in two passes over the whole exam, one
before and one after the learning; their spread stands beside every error, and a run on
a noisy machine says that it does not count. Beside it, fitted to the same measurements:
FLOPs times one rate, and a roofline (FLOPs, bytes, ops). What was done is kept in a
file: the same command goes on where it was stopped. Shorter: `--learn quick:1`,
`--every 3`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoConfig

from irene.collect.learning import learn
from irene.measure.alone.journal import default_folder
from irene.measure.alone.target import using_threads
from irene.measure.inside.op_timing import (
    Prepared,
    clock_of,
    prepare,
    timed_ops,
    watching_cost_s,
)
from irene.measure.inside.seen import Measured
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.predict.machines.specs.regression import relative_nnls
from irene.spec import RunSpec
from irene.trace.sources import quiet
from irene.whole_file import whole_file

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
Entry = tuple[str, str, Any, dict[str, Any]]
EXAM: list[Entry] = [
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


TWO_THREADS = (0, 1, 3, 6, 8, 9, 13, 14, 17, 19, 20, 22, 25, 28)
"""Places in the exam that are also run on two threads: each group, each phase."""


def _asked(entry: Entry) -> tuple[Any, RunSpec]:
    """What an entry is a run of: a name or a config, and the run."""
    _, _, model, run = entry
    if isinstance(model, str):
        return model, RunSpec.asked(model, run)
    fields = {k: v for k, v in model.items() if k != "model_type"}
    source = AutoConfig.for_model(model["model_type"], **fields)
    return source, RunSpec.asked(model["model_type"], run)


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


def _truth(entry: Entry) -> dict[str, Any]:
    """One measurement of a run: whole, modules, primitives."""
    target = prepare(*_asked(entry), "cpu")
    clock = clock_of("cpu", lambda: None)
    whole_s = _wall_s(target)
    modules = _modules_s(target)
    tree, hot_s = timed_ops(target, 3, clock, lambda: None)
    cost_s = watching_cost_s("cpu", clock)
    own = np.where(hot_s > 0, np.maximum(hot_s - cost_s, 0.0), 0.0)
    sums = tree.columns.inclusive(own)
    primitives = {
        f"{node.path} {node.call}": float(sums[node.row]) for node in tree.nodes("ml")
    }
    return {"whole": whole_s, "modules": modules, "primitives": primitives}


def _predicted(entry: Entry, machine: Any) -> tuple[dict[str, Any], list[float]]:
    source, spec = _asked(entry)
    tree = predict_run(spec, machine, source=source).unfold()
    time_s = tree.features["time_s"]
    modules: dict[str, float] = {}
    for node in tree.nodes("module"):
        modules[node.path] = modules.get(node.path, 0.0) + float(time_s[node.row])
    found = {
        "whole": float(time_s[0]),
        "spread": float(tree.features["time_spread"][0]),
        "modules": modules,
        "primitives": {
            f"{n.path} {n.call}": float(time_s[n.row]) for n in tree.nodes("ml")
        },
    }
    ops = sum(node.kind == "math" for node in tree.nodes())
    return found, [tree.root.flops / 1e9, tree.root.bytes / 2**20, float(ops)]


def _peers() -> dict[str, Any]:
    """FLOPs × one rate, and a roofline, of what was just measured."""
    newest = max(default_folder().glob("learn-*.done"), key=lambda p: p.stat().st_mtime)
    lines = newest.read_text().splitlines()[1:]
    rows, seconds = [], []
    for item in (Measured.from_dict(json.loads(line)) for line in lines):
        if item.kind != "blocks" or item.whole is None:
            continue
        gflop = sum(op.flops * op.times for op in item.ops) / 1e9
        mib = sum(op.moved * op.times for op in item.ops) / 2**20
        rows.append([gflop, mib, float(item.whole.calls[0])])
        seconds.append(item.whole.seconds)
    work, taken = np.array(rows), np.array(seconds)
    rate = float(np.median(taken / np.maximum(work[:, 0], 1e-6)))
    roofline = relative_nnls(work / taken[:, None], np.ones(len(taken)))
    return {"rate": rate, "roofline": roofline.tolist()}


class Kept:
    """What was done so far, in a file: a run that was stopped goes on.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """What was kept under a key, or is made now."""
        if key not in self._found:
            begun = time.monotonic()
            self._found[key] = make()
            with whole_file(self._path) as file:
                file.write(json.dumps(self._found).encode())
            print(f"{key}: {time.monotonic() - begun:.1f} s", flush=True)
        return self._found[key]


def _learn(plan: str, threads: int, measuring_s: float | None) -> dict[str, Any]:
    name = f"bench-{plan}-{threads}"
    how = {"device": "cpu", "threads": threads, "measuring_s": measuring_s}
    found = learn(plan, name=name, **how)
    disturbed = found.machine.provenance["disturbed"]
    return {"machine": name, "took_s": found.took_s, "disturbed": disturbed, **_peers()}


def _safely(entry: Entry, threads: int) -> dict[str, Any] | None:
    torch.set_flush_denormal(True)
    try:
        with using_threads(threads), quiet():
            return _truth(entry)
    except Exception as error:  # noqa: BLE001  one model must not end the exam
        print(f"not measured: {entry[1:]}: {error}", flush=True)
        return None


def _pass(kept: Kept, turn: int, threads: int, places: Sequence[int]) -> list[Any]:
    """One measurement of every run of the exam, in a process of its own.

    A process that has learned for minutes has another heap than a user's.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:

        def measured(entry: Entry) -> dict[str, Any] | None:
            return pool.submit(_safely, entry, threads).result()

        return [
            kept.get(
                f"truth {turn}, {threads} threads, {i}", partial(measured, EXAM[i])
            )
            for i in places
        ]


class Row(NamedTuple):
    """One run of the exam; errors and spread as parts of the time that it took."""

    group: str
    family: str
    run: str
    seconds: float
    spread: float
    error: float
    flops: float
    roofline: float
    inside: bool


def _row(entry: Entry, a: Any, b: Any, found: Any, peers: tuple[float, float]) -> Row:
    truth = 0.5 * (a["whole"] + b["whole"])
    error = found["whole"] / truth - 1
    inside = abs(np.log1p(error)) <= np.log(found["spread"])
    model, run = entry[2], entry[3]
    words = [model if isinstance(model, str) else "made up"]
    words += [str(v) for k, v in run.items() if k != "model_class"]
    of_peers = [each / truth - 1 for each in peers]
    spread = abs(a["whole"] - b["whole"]) / truth
    told = entry[0], entry[1], " ".join(words), truth, spread
    return Row(*told, error, *of_peers, bool(inside))


def _compared(
    places: Sequence[int], passes: Sequence[Sequence[Any]], learned: dict[str, Any]
) -> dict[str, Any]:
    machine: Any = find_machine(learned["machine"])
    found: dict[str, Any] = {"rows": [], "modules": [], "primitives": [], "spreads": []}
    for place, a, b in zip(places, *passes, strict=True):
        entry = EXAM[place]
        if a is None or b is None:
            continue
        try:
            predicted, work = _predicted(entry, machine)
        except Exception as error:  # noqa: BLE001  one model must not end the exam
            print(f"not predicted: {entry[1]}: {str(error)[:200]}", flush=True)
            continue
        peers = learned["rate"] * work[0], float(np.array(work) @ learned["roofline"])
        found["rows"].append(_row(entry, a, b, predicted, peers))
        for kind, least in (("modules", 0.0), ("primitives", LEAST_S)):
            for key, seconds in predicted[kind].items():
                real = [t[kind].get(key, 0.0) for t in (a, b)]
                if min(real) > least and sum(real) > 2e-4:
                    found[kind].append(2 * seconds / sum(real) - 1)
                    found["spreads"].append(abs(real[0] - real[1]) / max(real))
    return found


def _told(errors: Sequence[float]) -> str:
    if not errors:
        return "–"
    each = 100 * np.abs(errors)
    return f"{np.median(each):.1f} / {np.quantile(each, 0.9):.1f} ({len(each)})"


def _report(plan: str, threads: int, learned: Any, found: dict[str, Any]) -> None:
    rows: list[Row] = found["rows"]
    print(f"\n## {plan}, {threads} threads: learned in {learned['took_s']:.0f} s")
    print(f"\ndisturbed: {learned['disturbed'] or 'nothing'}\n")
    heads = ["group", "family", "run", "ms", "truth twice, %", "learned, %"]
    heads += ["FLOPs × rate, %", "roofline, %", "inside"]
    print(f"| {' | '.join(heads)} |")
    print("|---|---|---|---:|---:|---:|---:|---:|---|")
    for row in sorted(rows, key=lambda each: -abs(each.error)):
        print(
            f"| {row.group} | {row.family} | {row.run} | {row.seconds * 1e3:.1f} | "
            f"{100 * row.spread:.1f} | {100 * row.error:+.1f} | {100 * row.flops:+.0f} "
            f"| {100 * row.roofline:+.0f} | {'yes' if row.inside else 'NO'} |"
        )
    _summary(found)
    for group in dict.fromkeys(row.group for row in rows):
        inside = [row.inside for row in rows if row.group == group]
        print(f"inside the 90 % interval, {group}: {sum(inside)} of {len(inside)}")
    noise = float(np.median([row.spread for row in rows]))
    if noise > NOISY:
        print(f"truth differs by {noise:.1%} between passes: this run does not count")


def _summary(found: dict[str, Any]) -> None:
    rows: list[Row] = found["rows"]
    heads = ["median / p90 of the error of time, % (number)", "learned"]
    heads += ["FLOPs × rate", "roofline", "truth twice"]
    print(f"\n| {' | '.join(heads)} |")
    print("|---|---:|---:|---:|---:|")
    usual = [row for row in rows if row.group != "hard"]
    for name, some in (
        ("whole models, fp32", usual),
        ("bf16, experts, scans, large outputs", [r for r in rows if r.group == "hard"]),
    ):
        columns = ("error", "flops", "roofline", "spread")
        cells = [_told([getattr(row, each) for row in some]) for each in columns]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"| modules | {_told(found['modules'])} | | | |")
    cells = [_told(found["primitives"]), "", "", _told(found["spreads"])]
    print(f"| primitives of ≥ 0.1 ms | {' | '.join(cells)} |")
    if usual:
        mine, flops, roofline = (
            float(np.median(np.abs([getattr(row, each) for row in usual])))
            for each in ("error", "flops", "roofline")
        )
        print(f"\nbetter than FLOPs × rate {flops / mine:.1f} ×, ", end="")
        print(f"than a roofline {roofline / mine:.1f} ×")


def main() -> None:
    """First truth, learn, second truth, compare; what is done is not done again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--learn", action="append", metavar="PLAN:THREADS",
        help="what is learned (default quick:1 usual:1 quick:2)",
    )  # fmt: skip
    parser.add_argument("--kept", type=Path, default=Path("learn-benchmark.json"))
    parser.add_argument("--fresh", action="store_true", help="forget what was kept")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="each Nth run of the exam"
    )
    parser.add_argument(
        "--measuring-s", type=float, metavar="S", help="less than the plans', to try"
    )
    options = parser.parse_args()
    seconds = options.measuring_s
    folder = options.kept.absolute().with_suffix("")
    if options.fresh:
        options.kept.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    # Journals and machines of its own: nothing of an earlier, busier day.
    os.environ |= {"XDG_CACHE_HOME": f"{folder}/cache", "IRENE_HOME": f"{folder}/home"}
    kept, begun = Kept(options.kept), time.monotonic()
    asked = options.learn or ["quick:1", "usual:1", "quick:2"]
    plans = [(p, int(n or 1)) for p, _, n in (each.partition(":") for each in asked)]
    all_places = {1: range(len(EXAM))}
    places = {
        n: list(all_places.get(n, TWO_THREADS))[:: options.every]
        for n in dict.fromkeys(n for _, n in plans)
    }
    first = {n: _pass(kept, 1, n, some) for n, some in places.items()}
    learned = {
        (p, n): kept.get(f"{p}, {n} threads", partial(_learn, p, n, seconds))
        for p, n in plans
    }
    second = {n: _pass(kept, 2, n, some) for n, some in places.items()}
    for (plan, n), machine in learned.items():
        found = _compared(places[n], (first[n], second[n]), machine)
        _report(plan, n, machine, found)
    load = os.getloadavg()[0]
    print(f"\n{time.monotonic() - begun:.0f} s now; load average {load:.1f}")


if __name__ == "__main__":
    main()
