"""How quickly questions are answered, against importing torch and against traces.

    python -m benchmarks.at_once
    python -m benchmarks.at_once --server
    python -m benchmarks.at_once --equal N --into FILE [--models …] [--seed S]

Times are CPU seconds (user and system), so that other programs do not count. New
processes are compared with `import torch` in a new process, answers of a running
process with what a trace takes there. `--server` asks a server for sizes that nobody
asked for before, against an answer that it keeps. `--equal` compares trees of random
models, sizes, phases and attentions that ship with their traces, node by node: each
line that differs is printed, and the exit code is then 1. What was compared is added to
FILE, so that runs add up, each with choices of its own; a template that is another now
does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product, repeat
from pathlib import Path
from typing import Any

import psutil
from benchmarks.serve import (
    QUERY,
    ROUNDS,
    free_port,
    load,
    process,
    wait_for,
)
from scripts.templates import read_variant, resolved

from irene.analyse.config_fields import changed, read_config
from irene.errors import IreneError, TraceError
from irene.predict.api import predict
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.sources import config_key, locate
from irene.trace.templates.keeping import shipped, shipped_fields
from irene.trace.templates.trees import tree_from_template
from irene.tree import ModelTree

REPEATS = 5
SIZES = 32
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


FILES = {"safetensors index, 70 B": "model.safetensors.index.json",
         "ONNX, 70 B": "model.onnx"}  # fmt: skip


def write_files(folder: Path) -> None:
    """Files of a model of 70 B, without their weights."""
    from onnx import TensorProto, helper

    entry = catalogue.entries()["llama-3.1-70b"]
    config = {**entry.config, "architectures": ["LlamaForCausalLM"], "bos_token_id": 7}
    (folder / "config.json").write_text(json.dumps(config))
    index = {"weight_map": {"model.norm.weight": "model-1.safetensors"}}
    (folder / FILES["safetensors index, 70 B"]).write_text(json.dumps(index))
    width, inner = config["hidden_size"], config["intermediate_size"]
    nodes, weights, last = [], [], "x"
    for layer, (name, sides) in product(
        range(config["num_hidden_layers"]),
        {"q": (width, width), "o": (width, width), "up": (width, inner),
         "gate": (inner, inner // 2), "down": (inner // 2, width)}.items(),
    ):  # fmt: skip
        path = f"/layers.{layer}/{name}"
        weight = TensorProto(name=path, dims=sides, data_type=TensorProto.FLOAT)
        weight.data_location = TensorProto.EXTERNAL
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [last, path], [f"{path}/y"],
                                      name=f"{path}/MatMul"))  # fmt: skip
        last = f"{path}/y"
    ends = [helper.make_tensor_value_info(name, 1, ["batch", "seq", width])
            for name in ("x", last)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph)
    (folder / FILES["ONNX, 70 B"]).write_bytes(model.SerializeToString())


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
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        for name, file in FILES.items():
            words = ["-m", "irene", "predict", str(Path(folder, file)), "--on", "pc1"]
            took_s = new_process(words, 3)
            print(f"| predict {name} | {took_s:.2f} s | {took_s / torch_s:.2f} × |")


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


LOADING = """
from pathlib import Path
from irene.serve.computing.questions import ask
from irene.trace import catalogue
from irene.trace.sources import config_key, locate
from irene.trace.templates import keeping

ask("energy", {"model": "bert-base-uncased"})
for name in catalogue.entries():
    for variant in keeping.shipped_fields(name):
        found = keeping.shipped(name, config_key(locate(name)), variant)
        for piece in found.pieces if found else ():
            piece.at({axis: low for axis, (low, _) in piece.where.items()})
# A process that was forked has the maximum of its parent in `ru_maxrss`.
told = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(int(told) * 1024 // 10**6)
"""


def memory() -> None:
    """Most memory of a computing process that had every template that ships."""
    words = [sys.executable, "-c", LOADING]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    print(f"| memory, all templates one after the other | {done.stdout.strip()} MB | |")


def equality(
    models: list[str], count: int, seed: int, seconds: float, into: Path
) -> int:
    """Compare trees with their traces until so many are; how many differ.

    Models come in turn, each with one of its templates. It is built once for several
    sizes: the first is traced with all its layers, the others with fewer, of which the
    whole is then put together.

    Args:
        models: Names of the catalogue.
        count: Comparisons that there are to be in all.
        seed: Of the random choices.
        seconds: Most time.
        into: File to which what was compared is added.
    """
    before, end = _told(into), time.monotonic() + seconds
    chosen = random.Random(f"{seed} {before['whole'] + before['fewer']}")
    turns = _in_turn(models, chosen)
    while (told := _told(into))["whole"] + told["fewer"] < count:
        if time.monotonic() > end:
            break
        name = next(turns)
        variants = list(shipped_fields(name))
        if not variants:
            continue
        variant = chosen.choice(variants)
        sizes = [_size(chosen, variant) for _ in range(SIZES)]
        found = Counter(_compared(name, variant, sizes))
        line = {"model": name, "variant": variant, "digest": _digest(name, variant)}
        with into.open("a") as file:
            file.write(json.dumps({**line, "told": found}) + "\n")
        print(f"{name} {variant} {dict(found)}", flush=True)
    told = _told(into)
    print(f"| random runs, {told['templates']:,} templates | {dict(told)} | |")
    return told["different"]


def _told(into: Path) -> Counter[str]:
    """What was compared, of templates that ship as they did then."""
    told, seen = Counter[str](), set()
    for line in into.read_text().splitlines() if into.exists() else ():
        fields = json.loads(line)
        key = fields["model"], fields["variant"]
        if fields["digest"] == _digest(*key):
            told.update(fields["told"])
            seen.add(key)
    told["templates"] = len(seen)
    return told


@cache
def _digest(model: str, variant: str) -> str:
    """Of a template that ships, however the file is packed; empty if it does not."""
    found = shipped(model, config_key(locate(model)), variant)
    if found is None:
        return ""
    text = json.dumps([found.to_dict(), found.refusal], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _in_turn(models: list[str], chosen: random.Random) -> Iterator[str]:
    """All models, in another order every time."""
    while True:
        yield from chosen.sample(models, len(models))


def _size(chosen: random.Random, variant: str) -> dict[str, int]:
    """A random size; lengths of decoders and contexts where they mean something."""

    def length() -> int:
        return chosen.randint(2, chosen.choice((64, 512, 512, 2048)))

    size = {
        "batch_size": chosen.choice((1, 2, chosen.randint(2, 64))),
        "seq_len": length(),
    }
    if variant.startswith("decode/"):
        size["context_len"] = length()
    elif chosen.random() < 0.5:
        size["decoder_len"] = length()
    return size


def _compared(name: str, variant: str, sizes: list[dict[str, int]]) -> Iterator[str]:
    """What became of each comparison."""
    spec, changes = read_variant(name, variant)
    source: Any = None
    if changes:
        base = read_config(name, spec.model_class, DEFAULT_LIMITS)
        spec = spec.chosen_as(model_class=base.model_class)
        source = changed(base, changes)
    found: dict[RunSpec, ModelTree] = {}
    for size in sizes:
        asked = spec.changed(**size)
        try:
            tree = tree_from_template(asked, source=source)
        except IreneError as error:
            yield "refused by size" if "positions" in str(error) else "refused"
            continue
        if tree is None:
            yield "no template"
        else:
            found[asked] = tree.unfold()
    if found:
        yield from _against_traces(resolved(spec, changes), found)


def _against_traces(of: Any, found: dict[RunSpec, ModelTree]) -> Iterator[str]:
    """How each tree was traced, and whether that is another."""
    from irene.trace.models import build
    from irene.trace.templates.fewer_layers import FewerLayers
    from irene.trace.templates.making import REBUILT
    from irene.trace.tracer import trace_built

    digest, spec = of.digest, next(iter(found))
    model, fewer, is_cut = build(of, spec), None, True
    for asked, tree in found.items():
        named = replace(asked, model=of.name, config_digest=digest)
        traced = trace_built(model, of, named)
        same = tree == (fewer.whole_traced(traced) if fewer else traced)
        yield "fewer" if fewer else "whole"
        if not same:
            print("differs:", asked, flush=True)
            yield "different"
        if hasattr(model, REBUILT):
            model = build(of, spec)
        elif fewer is None and is_cut:
            fewer = FewerLayers(model, keep_last=spec.phase == "train")
            try:
                again = fewer.whole_traced(trace_built(model, of, named))
                is_cut = again == traced
            except TraceError:  # layers that are built alike do not run alike
                is_cut = False
            if not is_cut:
                model, fewer = build(of, spec), None


def server(seconds: float) -> None:
    """A size never asked against an answer that is kept, 32 clients each, in turn."""
    sizes = product(range(1, 65), range(500, 16, -1))
    new = (
        f"/api/v1/energy?model=bert-base-uncased&batch_size={batch}&seq_len={length}"
        for batch, length in sizes
    )
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        words = ("--port", str(port), "--data-dir", folder, "--rate", "1000000")
        with process(sys.executable, "-m", "irene", "serve", *words) as ours:
            wait_for(f"http://127.0.0.1:{port}/readyz")
            counts, cpu = Counter[str](), Counter[str]()
            for _ in range(ROUNDS):
                for name, queries in (("kept", repeat(QUERY)), ("new", new)):
                    before = _of_tree(ours.pid)
                    counts[name] += len(asyncio.run(load(port, seconds, True, queries)))
                    cpu[name] += _of_tree(ours.pid) - before
    each_s = {name: cpu[name] / counts[name] for name in counts}
    print(f"| server, kept answer | {counts['kept']:,} answers | 1 × |")
    print(
        f"| server, a size never asked | {counts['new']:,} answers | "
        f"{counts['new'] / counts['kept']:.3f} × the rate, "
        f"{each_s['kept'] / each_s['new']:.3f} × per CPU second |"
    )


def _of_tree(pid: int) -> float:
    """CPU seconds of a process and of all below it."""
    top = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in (top, *top.children(True)))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equal", type=int, default=0, metavar="N")
    parser.add_argument("--models", nargs="*", default=list(catalogue.entries()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--into", type=Path, default=Path("compared.jsonl"))
    parser.add_argument("--server", action="store_true")
    options = parser.parse_args()
    print("| what | took | against |\n|---|---|---|")
    if options.equal:
        chosen = (options.models, options.equal, options.seed, options.seconds)
        return int(equality(*chosen, options.into) > 0)
    if options.server:
        server(2.0)
        return 0
    processes()
    running()
    memory()
    return 0


if __name__ == "__main__":
    sys.exit(main())
