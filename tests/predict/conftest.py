"""Tables whose truth is known, and the measured one where it is present."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from irene.dataset import FEATURES, MeasuredNode, NodeTable, TreeKey, read_folder

SIZES = tuple((batch, length) for batch in (2, 4, 8) for length in (16, 32, 64))
MODELS = {
    "a-large": ("Linear", 3),
    "a-small": ("Linear", 2),
    "b-large": ("Conv1D", 3),
    "b-small": ("Conv1D", 2),
}
JOULES_PER_MFLOP = {"Linear": 2e-3, "Conv1D": 3e-3, "Softmax": 1e-3}


@pytest.fixture(scope="session")
def pc1() -> NodeTable:
    folder = os.environ.get("IRENE_DATA_DIR")
    if not folder:
        pytest.skip("IRENE_DATA_DIR is not set: it names the folder of irene-pc1")
    path = Path(folder) / "irene-pc1"
    if not path.is_dir():
        pytest.skip(f"no measured data in {path}")
    return read_folder(path)[0]


class Grower:
    """Grows one tree; leaves cost in proportion to FLOPs, parents a factor more."""

    def __init__(self, key: TreeKey, alpha: float) -> None:
        self.key = key
        self.alpha = alpha
        self.nodes: list[MeasuredNode] = []

    def leaf(self, path: str, op: str, flops: float, parent: int) -> float:
        energy_j = 0.01 + JOULES_PER_MFLOP[op] * flops
        self._add(path, "ml", op, energy_j, flops, parent)
        return energy_j

    def block(self, path: str, parent: int, matmul: str) -> float:
        place = self._add(path, "module", "Block", 0.0, 0.0, parent)
        tokens = self.key.batch_size * self.key.seq_len
        below = [
            self.leaf(f"{path}.up", matmul, 4.0 * tokens, place),
            self.leaf(f"{path}.down", matmul, 2.0 * tokens, place),
            self.leaf(f"{path}.Softmax", "Softmax", self.key.seq_len**2, place),
        ]
        return self._close(place, sum(below))

    def model(self, matmul: str, layers: int) -> list[MeasuredNode]:
        self._add("", "model", self.key.model, 0.0, 0.0, -1)
        blocks = [self.block(f"h.{i}", 0, matmul) for i in range(layers)]
        self._close(0, sum(blocks))
        return self.nodes

    def _close(self, place: int, below_j: float) -> float:
        node = self.nodes[place]
        energy_j = self.alpha * below_j
        features = {**node.features, "flops": below_j * 100}
        self.nodes[place] = MeasuredNode(
            node.path, node.kind, node.op, energy_j, features, node.parent
        )
        return energy_j

    def _add(
        self, path: str, kind: str, op: str, energy_j: float, flops: float, parent: int
    ) -> int:
        features = dict.fromkeys(FEATURES, 1.0)
        features |= {
            "batch_size": self.key.batch_size,
            "seq_len": self.key.seq_len,
            "num_parameters": np.nan,
            "flops": flops,
            "mem_bytes": flops / 2,
            "cpu": 8.0,
        }
        self.nodes.append(MeasuredNode(path, kind, op, energy_j, features, parent))
        return len(self.nodes) - 1


@pytest.fixture(scope="session")
def grow() -> Callable[[float], NodeTable]:
    """A table whose parents are `alpha` times the sum of their children."""

    def table(alpha: float) -> NodeTable:
        keys = [TreeKey(model, *size) for model in MODELS for size in SIZES]
        trees = [(key, Grower(key, alpha).model(*MODELS[key.model])) for key in keys]
        return NodeTable.from_trees("grown", trees)

    return table
