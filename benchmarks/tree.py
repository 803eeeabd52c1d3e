"""Speed of a tree of 100,000 nodes, against one Python object per node.

The baseline is the plain way to write it: a dataclass per node with a list of children
and recursive functions. Both sides hold the same tree and give the same answers.

    python benchmarks/tree.py
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from irene.tree import ModelTree, Signature, TreeBuilder

SIGNATURE = Signature(((8, 128, 768),), ((8, 128, 768),), "fp32")


@dataclass
class PlainNode:
    """The baseline's node."""

    path: str
    kind: str
    op: str
    flops: int
    bytes_read: int
    bytes_written: int
    params: int
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtype: str
    children: list[PlainNode] = field(default_factory=list)

    def total(self) -> int:
        """FLOPs of the subtree."""
        return self.flops + sum(child.total() for child in self.children)

    def by_operator(self, sums: dict[str, int]) -> dict[str, int]:
        """FLOPs of every primitive in the subtree."""
        if self.kind == "ml":
            sums[self.op] = sums.get(self.op, 0) + self.total()
        for child in self.children:
            child.by_operator(sums)
        return sums

    def find(self, path: str) -> PlainNode | None:
        """The node at a path."""
        if self.path == path:
            return self
        for child in self.children:
            found = child.find(path)
            if found is not None:
                return found
        return None


def grow(layers: int) -> tuple[ModelTree, PlainNode]:
    """The same tree twice: layers of 10 blocks, of 10 primitives, of 9 math ops."""
    builder = TreeBuilder()
    plain = _plain("", "model", "Model")
    root = builder.add(-1, "", "model", "Model")
    for i in range(layers):
        layer = builder.add(root, f"layer.{i}", "module", "Layer")
        plain_layer = _plain(f"layer.{i}", "module", "Layer")
        plain.children.append(plain_layer)
        for j in range(10):
            _grow_block(builder, layer, plain_layer, f"block.{j}", i)
    return builder.build(), plain


def _grow_block(
    builder: TreeBuilder, layer: int, plain_layer: PlainNode, name: str, i: int
) -> None:
    block = builder.add(layer, name, "module", "Block")
    plain_block = _plain(f"{plain_layer.path}.{name}", "module", "Block")
    plain_layer.children.append(plain_block)
    for k in range(10):
        op = f"op{k}"
        primitive = builder.add(block, op, "ml", op, signature=SIGNATURE)
        plain_primitive = _plain(f"{plain_block.path}.{op}", "ml", op)
        plain_block.children.append(plain_primitive)
        for m in range(9):
            flops = 10 * k + m
            builder.add(
                primitive, f"m_{m}", "math", "aten.mm", flops=flops, signature=SIGNATURE
            )
            leaf = _plain(f"{plain_primitive.path}.m_{m}", "math", "aten.mm", flops)
            plain_primitive.children.append(leaf)


def _plain(path: str, kind: str, op: str, flops: int = 0) -> PlainNode:
    shapes = SIGNATURE.inputs
    return PlainNode(path, kind, op, flops, 0, 0, 0, shapes, shapes, "fp32")


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Shortest time of several runs, s."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    tree, plain = grow(options.layers)
    last = f"layer.{options.layers - 1}.block.9.op9.m_8"
    assert tree.total().flops == plain.total()
    operators = {op: cost.flops for op, cost in tree.by_operator().items()}
    assert operators == plain.by_operator({})
    fresh = tree.to_json()
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object] | None]] = {
        "total()": (tree.total, plain.total),
        "by_operator()": (tree.by_operator, lambda: plain.by_operator({})),
        "find(last path)": (lambda: tree.find(last), lambda: plain.find(last)),
        "to_json()": (tree.to_json, lambda: json.dumps(asdict(plain))),
        "from_json()": (lambda: ModelTree.from_json(fresh), None),
        "fold()": (tree.fold, None),
        "unfold()": (tree.fold().unfold, None),
    }
    print(f"{len(tree):,} nodes, {len(tree.fold()):,} when folded")
    print(f"{'':18} {'ours':>10} {'objects':>10} {'ratio':>8}")
    for name, (ours, theirs) in pairs.items():
        ours_s = best_of(options.runs, ours)
        if theirs is None:
            print(f"{name:18} {ours_s * 1e3:7.2f} ms")
            continue
        theirs_s = best_of(options.runs, theirs)
        print(
            f"{name:18} {ours_s * 1e3:7.2f} ms {theirs_s * 1e3:7.2f} ms "
            f"{theirs_s / ours_s:7.1f}×"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
