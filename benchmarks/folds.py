"""From which size on it is worth to hold out on an engine, and how much it gains.

The rounds of `irene train` (specs: models traced, then every model, every family, small
and large runs held out) and of `irene crossvalidate` (the paper's tree, by size) run in
one process, in processes of this machine, and on Ray started on this machine, on the
same trees in the same run. A figure is the wall time of one process over that of the
engine: above 1 the engine is quicker. The start of processes and of Ray counts. Results
must be equal to the last digit, else the benchmark fails.

The trees are irene-pc1 where IRENE_DATA_DIR is set, and parts of it; else made-up
energies on traces of models of the catalogue. Every figure is of a fresh process, as a
command would be: nothing is traced before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = (12, 48, 166)
WAYS = ("here", "local", "ray")
TASKS = ("train specs", "crossvalidate irene")
MADE_UP = ("bert-l2-h128", "bert-l4-h256", "minilm-l3-h384", "pythia-14m")


def read(trees: int) -> tuple[Any, Any]:
    """So many trees, evenly taken, and what traces them as they were run."""
    import numpy as np

    from irene.predict.learning.join import Joiner, OwnRun

    if os.environ.get("IRENE_DATA_DIR"):
        from irene.predict.learning.own_data import read_for_training

        found = read_for_training("irene-pc1")
        some = np.linspace(0, len(found.table.keys) - 1, trees).round()
        chosen = np.unique(some.astype(np.int64))
        return found.table.take(chosen), Joiner(configs=found.joiner.configs)
    return _made_up(), Joiner(own=OwnRun())


def write_made_up(trees: int, path: Path) -> None:
    """Energies by FLOPs on traces of some models at growing sizes, as a file."""
    import numpy as np

    from irene.dataset import write_data
    from irene.dataset.measured_data import table_of
    from irene.hardware import Hardware
    from irene.trace.tracer import trace
    from irene.tree import EnergyColumns

    made = []
    for place in range(trees):
        step = place // len(MADE_UP)
        model, batch = MADE_UP[place % len(MADE_UP)], 1 + step % 6
        length = 16 * (1 + step // 6)
        tree = trace(model, batch_size=batch, seq_len=length).at_level("ml")
        joules = np.asarray(tree.columns.flops * 1e-11 + 1e-3, np.float64)
        source = np.zeros(len(tree), np.uint8)
        energy = EnergyColumns(joules, joules, joules, source, "made up")
        made.append(tree.with_energy(energy, Hardware("made-up", "wall")))
    write_data(table_of(made), path, "jsonl")


def _made_up() -> Any:
    from irene.dataset import read_data

    return read_data(Path(os.environ["IRENE_BENCHMARK_TREES"]))[0]


def run(task: str, way: str, trees: int, jobs: int) -> dict[str, Any]:
    """Do one task in one way; how long it took, and what came out."""
    from contextlib import nullcontext

    table, joiner = read(trees)
    from irene.collect.folds import make_folds

    began_s = time.perf_counter()
    with nullcontext() if way == "here" else make_folds(way, jobs) as folds:
        found = (
            _train(table, joiner, folds) if "train" in task else _cross(table, folds)
        )
    lasted_s = time.perf_counter() - began_s
    return {"lasted_s": lasted_s, "nodes": len(table), "found": found}


def _train(table: Any, joiner: Any, folds: Any) -> Any:
    from irene.hardware import Hardware
    from irene.predict.learning.training_runs import train

    rounds = None
    if folds is not None:
        folds.trace(table, joiner)
        rounds = folds.rounds(table, joiner, "specs", {})
    machine = Hardware("made-up", "wall")
    return train(table, machine, {}, joiner, predict_rounds=rounds).to_dict()["digest"]


def _cross(table: Any, folds: Any) -> Any:
    from irene.errors import UsageError
    from irene.predict import crossvalidate, make_method, make_split
    from irene.predict.learning.join import Joiner

    rounds = folds.rounds(table, Joiner(), "irene", {}) if folds else None
    split = make_split("size")
    try:
        split(table)
    except UsageError:  # a few small trees have no such sizes
        split = make_split("model")
    return crossvalidate(
        *(table, lambda seed: make_method("irene", seed=seed), split),
        predict_rounds=rounds,
    ).to_dict()


def measured(task: str, way: str, trees: int, jobs: int, folder: Path) -> Any:
    """The same in a process of its own."""
    words = [sys.executable, __file__, "--one", task, way, str(trees)]
    answer = subprocess.run(
        [*words, "--jobs", str(jobs)], cwd=folder, stdout=subprocess.PIPE, check=True
    )
    return json.loads(answer.stdout.splitlines()[-1])


def compare(sizes: tuple[int, ...], jobs: int) -> None:
    """Print a row per task and size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gains: dict[tuple[str, str], list[tuple[int, float]]] = {}
        print(f"wall time of one process over that of {jobs}, {os.cpu_count()} CPUs")
        busy = os.getloadavg()[0]
        print(f"load before it began: {busy:.1f}; others at work hide what is gained")
        print(f"{'':20} {'trees':>5} {'nodes':>7} {'here':>8} {'local':>7} {'ray':>7}")
        for task in TASKS:
            for trees in sizes:
                row = _row(task, trees, jobs, folder)
                for way in WAYS[1:]:
                    gains.setdefault((task, way), []).append((row["nodes"], row[way]))
                print(
                    f"{task:20} {trees:5} {row['nodes']:7} {row['here']:6.1f} s "
                    f"{row['local']:6.2f}× {row['ray']:6.2f}×",
                    flush=True,
                )
        for (task, way), of_sizes in gains.items():
            print(f"{task}, {way}: {_worth(of_sizes)}")


def _row(task: str, trees: int, jobs: int, folder: Path) -> dict[str, Any]:
    if not os.environ.get("IRENE_DATA_DIR"):
        path = folder / f"{trees}.jsonl"
        if not path.exists():
            write_made_up(trees, path)
        os.environ["IRENE_BENCHMARK_TREES"] = str(path)
    answers = {way: measured(task, way, trees, jobs, folder) for way in WAYS}
    for way, answer in answers.items():
        if answer["found"] != answers["here"]["found"]:
            raise SystemExit(f"{task}, {trees} trees: {way} gives another result")
    here_s = answers["here"]["lasted_s"]
    ratios = {way: here_s / answers[way]["lasted_s"] for way in WAYS[1:]}
    return {"nodes": answers["here"]["nodes"], "here": here_s, **ratios}


def _worth(of_sizes: list[tuple[int, float]]) -> str:
    """From which size on every larger one was quicker."""
    first = None
    for nodes, gain in reversed(of_sizes):
        if gain <= 1:
            break
        first = nodes
    if first is None:
        return f"not worth it up to {of_sizes[-1][0]} nodes"
    return f"worth it from {first} nodes, of the sizes tried"


def main() -> None:
    """Compare, or do one task for the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        task, way, trees = options.one
        print(json.dumps(run(task, way, int(trees), options.jobs)))
    else:
        compare(tuple(options.sizes), options.jobs)


if __name__ == "__main__":
    main()
