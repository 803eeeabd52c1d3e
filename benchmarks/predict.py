"""Speed of learning and predicting, against one Python object per node.

The baseline is the plain way to write the paper's method: a torch module that walks a
tree recursively, node by node, one tree at a time, with torch's Adam. It learns a few
trees for one epoch, which gives seconds per node; the whole cross-validation is
extrapolated linearly from that, by the number of nodes it has to visit. Its leaves and
features come ready-made, which favours it. Both sides end with the same weights.

    IRENE_DATA_DIR=… python benchmarks/predict.py
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch

import irene
from irene.dataset import NodeTable, read_folder
from irene.predict import crossvalidate, make_split
from irene.predict.machines.finding import find_machine
from irene.predict.machines.specs.specs_method import SHARED_JOINER, measurements
from irene.predict.machines.specs.specs_model import fit_specs
from irene.predict.paper import TreeMethod, feature_set
from irene.predict.paper.regressors import LeafRegressors, Standardiser, polynomial

TAU, EPOCHS = 10.0, TreeMethod().training[0]


@dataclass
class PlainNode:
    """The baseline's node."""

    features: torch.Tensor
    gold: float
    energy: float | torch.Tensor = 0.0
    children: list[PlainNode] = field(default_factory=list)


class PlainTree(torch.nn.Module):
    """The baseline: equations 3 and 4, node by node."""

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(len(weights) - 1, 1, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight[0] = torch.from_numpy(weights[:-1])
            self.linear.bias[0] = weights[-1]

    def forward(self, node: PlainNode) -> torch.Tensor | float:
        """Set the energy of all parents; return the loss of the subtree."""
        if not node.children:
            return 0.0
        loss: torch.Tensor | float = 0.0
        energy: torch.Tensor | float = 0.0
        for child in node.children:
            loss = loss + self(child)
            alpha = 1.0 + torch.tanh(self.linear(child.features)).squeeze() / TAU
            energy = energy + alpha * child.energy
        node.energy = energy
        return loss + ((energy - node.gold) / node.gold) ** 2

    def weights(self) -> np.ndarray:
        """All weights, the bias last."""
        return torch.cat((self.linear.weight[0], self.linear.bias)).detach().numpy()


def plain_trees(table: NodeTable) -> list[PlainNode]:
    """One object per row, with its features and the predicted energy of the leaves."""
    values = feature_set("all").matrix(table)
    each = np.ones(len(table))
    columns = polynomial(Standardiser.fit(values, each).apply(values), 3)
    leaf = ~table.has_children
    ops = [table.op[row] for row in np.flatnonzero(leaf)]
    leaves = LeafRegressors.fit(values[leaf], table.energy_j[leaf], each[leaf], ops)
    energy_j = np.zeros(len(table))
    energy_j[leaf] = leaves.predict(values[leaf], ops)
    nodes = [
        PlainNode(torch.from_numpy(columns[row]), gold, energy)
        for row, (gold, energy) in enumerate(zip(table.energy_j, energy_j, strict=True))
    ]
    for row, parent in enumerate(table.parent):
        if parent >= 0:
            nodes[parent].children.append(nodes[row])
    return [nodes[start] for start in table.starts[:-1]]


def learn_plainly(trees: list[PlainNode], weights: np.ndarray) -> np.ndarray:
    """One epoch of the baseline."""
    model = PlainTree(weights)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    for tree in trees:
        adam.zero_grad()
        model(tree).backward()
        adam.step()
    return model.weights()


def learned_weights(table: NodeTable, epochs: int) -> np.ndarray:
    """What ours has learned after some epochs."""
    learned = TreeMethod("irene", "all", epochs=epochs).fit(table).learned_
    assert learned is not None
    return learned.weights


def seconds(work: Callable[[], object], runs: int = 1) -> float:
    """Shortest time of several runs, s."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def baseline_seconds(table: NodeTable, count: int) -> tuple[float, int]:
    """Time per node of the baseline's learning, and how many nodes were visited."""
    few = table.take(np.linspace(0, len(table.keys) - 1, count).astype(int))
    trees, start = plain_trees(few), learned_weights(few, 0)
    learn_plainly(trees, start)  # warm up
    taken_s = seconds(lambda: learn_plainly(trees, start))
    ours = learned_weights(few, 1)
    np.testing.assert_allclose(learn_plainly(trees, start), ours, rtol=1e-6, atol=1e-9)
    return taken_s / len(few), len(few)


def compare_irene(table: NodeTable, trees: int, runs: int) -> float:
    """Print times of the leave-one-model-out cross-validation; return the ratio."""
    split = make_split("model")
    ours_s = seconds(
        lambda: crossvalidate(table, lambda _: TreeMethod("irene"), split), runs
    )
    per_node_s, nodes = baseline_seconds(table, trees)
    sizes = np.diff(table.starts)
    visits = EPOCHS * sum(int(sizes[fold.train].sum()) for fold in split(table))
    plain_s = per_node_s * visits
    print(f"{table.name}: {len(table.keys)} trees, {len(table):,} nodes")
    print("irene, leave one model out, all of it")
    print(f"  ours        {ours_s:8.2f} s  (best of {runs}; fit, predict, errors)")
    print(
        f"  node by node{plain_s:8.1f} s  (extrapolated: {per_node_s * 1e6:.0f} µs per "
        f"node, measured on {trees} trees of {nodes:,} nodes, × {visits:,} visits)"
    )
    print(f"  ratio       {plain_s / ours_s:8.0f} ×  (same weights after one epoch)")
    return plain_s / ours_s


FIT_ALLOWED_S = 5.0
PREDICT_ALLOWED_MS = {"bert-base-uncased": 5.0, "llama-3.1-70b": 100.0}


def measure_specs(table: NodeTable, runs: int) -> list[str]:
    """Fitting `specs` and asking it, against tracing the same model."""
    measured = measurements(table, SHARED_JOINER)
    fit_s = seconds(lambda: fit_specs(measured), runs)
    print(f"fitting specs on {len(table.keys)} trees: {fit_s:.2f} s on one core")
    broken = [] if fit_s < FIT_ALLOWED_S else [f"fitting takes {fit_s:.1f} s"]
    predictor = find_machine("pc1")
    for name, allowed_ms in PREDICT_ALLOWED_MS.items():
        tree = irene.trace(name, seq_len=512)
        trace_ms = seconds(partial(irene.trace, name, seq_len=512)) * 1e3
        ask_ms = seconds(partial(predictor.predict, tree), 5 * runs) * 1e3
        print(
            f"predicting {name}, {len(tree):,} nodes: {ask_ms:.1f} ms; tracing it "
            f"{trace_ms:.0f} ms, ratio {trace_ms / ask_ms:.0f}"
        )
        if ask_ms > allowed_ms:
            broken.append(f"predicting {name} takes {ask_ms:.1f} ms")
    return broken


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=6)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    folder = os.environ.get("IRENE_DATA_DIR")
    if not folder:
        print("set IRENE_DATA_DIR to the folder that holds irene-pc1", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    table, _ = read_folder(Path(folder) / "irene-pc1")
    compare_irene(table, options.trees, options.runs)
    broken = measure_specs(table, options.runs)
    for promise in broken:
        print(f"FAILED: {promise}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
