"""Ops of ONNX files: have they the shapes that onnx' own cases of every op have?

python -m benchmarks.onnx_ops

Every case of the suite that onnx ships, of one node that is in our table, is run on
shapes; the shape of each output is compared with the one that is written there.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np

from irene.trace.onnx_graph import Running
from irene.trace.onnx_nodes import Tensor, kind_of
from irene.trace.onnx_ops import OPS


def fed(op: str, place: int, value: Any) -> Any:
    """A tensor without content, where the op does not need the content."""
    array = np.asarray(value)
    needed = array.dtype.kind != "f" and (place > 0 or op == "Gather")
    needed = needed or (op == "Resize" and place > 0)
    if needed or not array.ndim:
        return array
    return Tensor(array.shape, kind_of(array.dtype))


def problem(case: Any) -> str | None:
    """What is wrong with a case, "" for nothing, None where it says nothing."""
    graph = case.model.graph
    op = graph.node[0].op_type
    given, wanted = case.data_sets[0]
    try:
        places = enumerate(zip(graph.input, given, strict=False))
        inputs = {each.name: fed(op, i, value) for i, (each, value) in places}
        if not any(isinstance(value, Tensor) for value in inputs.values()):
            return None
        running = Running(case.model)
        running.run(inputs)
        found = [running.values.get(out.name) for out in graph.output]
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"[:100]
    pairs = [(tuple(f.shape), np.shape(w)) for f, w in zip(found, wanted, strict=False)
             if isinstance(f, Tensor)]  # fmt: skip
    return "; ".join(f"{f}, not {w}" for f, w in pairs if f != w)


def main() -> None:
    """Run all cases, and print what went wrong."""
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    good: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for case in collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in OPS or nodes[0].domain:
            continue
        told = problem(case)
        if told:
            print(f"{case.name}: {told}")
        if told is not None:
            (wrong if told else good)[nodes[0].op_type] += 1
    print(f"{good.total()} of {good.total() + wrong.total()} cases, {len(good)} ops")


if __name__ == "__main__":
    main()
