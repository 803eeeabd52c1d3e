"""A graph of ONNX as a module that torch runs, so that it can be traced.

Only shapes of weights are taken; those in files beside the graph are never opened. What
depends on shapes alone is worked out by onnx' own reference; all else runs as the torch
function that `onnx_ops` names. Names of nodes (`/encoder/layer.0/Add`) make the tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from irene.errors import ConfigError, TraceError, library
from irene.spec import RunSpec
from irene.trace.onnx_ops import OPS, dtype_of

SMALL = 4096
"""Whole numbers up to which the content of a tensor counts: shapes and axes."""
INDEX = re.compile(r"[^A-Za-z0-9_]+")


def _library(name: str = "onnx") -> Any:
    missing = "ONNX files are read with onnx: pip install 'irene-energy[onnx]'"
    return library(name, missing)


def read_onnx(path: Path) -> OnnxGraph:
    """The graph of a file, without weights that lie beside it.

    Raises:
        ConfigError: It cannot be read, or has ops that are not known here.
        MissingExtraError: onnx is not installed.
    """
    onnx = _library()
    try:
        graph = onnx.load(str(path), load_external_data=False).graph
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:  # protobuf has a class of its own for damage
        raise ConfigError(f"{path} is no ONNX file, or is cut short") from error
    if not graph.node:
        raise ConfigError(f"{path} is no ONNX file, or has an empty graph")
    unknown = sorted({n.op_type for n in graph.node} - {*OPS, "Constant", "Shape"})
    unknown = [op for op in unknown if not _has_reference(op)]
    if unknown:
        raise ConfigError(
            f"{path} has ops that are not known here: {', '.join(unknown)}; export it "
            "without them, or trace the model itself"
        )
    return OnnxGraph(graph)


def _has_reference(op: str) -> bool:
    """Whether an op may be of shapes alone: onnx itself works it out then."""
    try:
        _library("onnx.reference.ops._op_list").load_op("", op)
    except RuntimeError:
        return False
    return True


class _Values:
    """What is known while a graph runs: arrays of numpy, and tensors."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def run(self, node: Any) -> None:
        """One node; of shapes alone as onnx has it, else by torch."""
        inputs = [self._values[name] for name in node.input]
        helper = _library("onnx.helper")
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Shape":
            outputs: Any = self._shape(inputs[0], given)
        elif not any(isinstance(value, torch.Tensor) for value in inputs):
            evaluator = _library("onnx.reference").ReferenceEvaluator(node)
            fed = dict(zip(node.input, inputs, strict=True))
            outputs = evaluator.run(None, {k: v for k, v in fed.items() if k})
        elif node.op_type not in OPS:
            raise TraceError(f"no op {node.op_type} of tensors is known", node.name)
        else:
            given.setdefault("num_outputs", len(node.output))
            outputs = OPS[node.op_type](inputs, given)
        outputs = outputs if isinstance(outputs, list | tuple) else (outputs,)
        self._values.update(zip(node.output, outputs, strict=False))

    def _shape(self, value: Any, given: Mapping[str, Any]) -> Any:
        import numpy as np

        sides = list(value.shape)[given.get("start", 0) : given.get("end")]
        return np.array(sides, dtype=np.int64)


class Scope(nn.Module):
    """Nodes that share the beginning of their names.

    They are run in the order of the graph; a scope that is left and entered again is
    called once for each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._runs: list[list[Any]] = []
        self._calls = 0

    def add(self, words: Sequence[str], node: Any, fresh: bool = False) -> Scope:
        """Put a node into this scope, or into one below it, which is returned."""
        if fresh or not self._runs:
            self._runs.append([])
        here = self._runs[-1]
        if not words:
            here.append(node)
            return self
        if words[0] not in self._modules:
            self.add_module(words[0], Scope())
        inner = self._modules[words[0]]
        assert isinstance(inner, Scope)
        again = not here or here[-1] is not inner
        if again:
            here.append(inner)
        return inner.add(words[1:], node, fresh=again)

    def forward(self, values: _Values) -> None:
        """Run what comes next."""
        nodes = self._runs[self._calls % len(self._runs)]
        self._calls += 1
        for each in nodes:
            if isinstance(each, Scope):
                each(values)
            else:
                values.run(each)


class OnnxGraph(Scope):
    """All nodes of a graph, in scopes by their names.

    Args:
        graph: A GraphProto.
    """

    def __init__(self, graph: Any) -> None:
        super().__init__()
        self.graph = graph
        self.known: dict[str, Any] = {}
        self._weights: dict[str, torch.Tensor] = {}
        for value in graph.initializer:
            self._know(value.name, value)
        words: list[str] = []
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._know(node.output[0], node.attribute[0].t)
                continue
            words = _words(node.name) if "/" in node.name else words
            scope = self.add(words, node)
            for name in node.input:
                if name in self._weights:  # whoever multiplies with it first, has it
                    weight = nn.Parameter(self._weights.pop(name), requires_grad=False)
                    scope.register_parameter(f"w{len(scope._parameters)}", weight)
                    self.known[name] = weight

    def _know(self, name: str, value: Any) -> None:
        """Content of what is small, shape and type of what is not."""
        size, dtype = math.prod(value.dims), dtype_of(value.data_type)
        if value.data_location != value.EXTERNAL and size <= (
            1 if dtype.is_floating_point else SMALL
        ):
            self.known[name] = _library("onnx.numpy_helper").to_array(value)
            return
        weight = torch.empty(tuple(value.dims), dtype=dtype, device="meta")
        self.known[name] = self._weights[name] = weight

    def forward(self, **inputs: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        """Run every node on what the graph is given."""
        values = {"": None, **self.known, **inputs}
        super().forward(_Values(values))
        return tuple(values.get(out.name) for out in self.graph.output)


def _words(name: str) -> list[str]:
    """The modules of `/encoder/layer/layer.0/Add`: encoder, layer, 0."""
    words, before = [], ""
    for part in name.split("/")[:-1]:
        inner = part.removeprefix(f"{before}.") if before else part
        words += [INDEX.sub("_", word) for word in inner.split(".") if word]
        before = part
    return words


def inputs_of_graph(module: OnnxGraph, spec: RunSpec) -> dict[str, torch.Tensor]:
    """Meta tensors for the inputs of a graph, of the sizes that a run asks for."""
    weights = {value.name for value in module.graph.initializer}
    found = {}
    for value in module.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = tuple(_sides(kind.shape.dim, spec))
        dtype = dtype_of(kind.elem_type)
        found[value.name] = torch.zeros(shape, dtype=dtype, device="meta")
    return found


def _sides(dims: Any, spec: RunSpec) -> Iterator[int]:
    """A side that has a name is chosen by it; the first is the batch."""
    past = spec.context_len or 0
    for axis, dim in enumerate(dims):
        name = dim.dim_param.lower()
        if dim.dim_value > 0:
            yield dim.dim_value
        elif "total" in name or ("past" in name and "+" in name):
            yield past + spec.seq_len
        elif "past" in name:
            yield past
        elif axis == 0 or "batch" in name:
            yield spec.batch_size
        else:
            yield spec.seq_len
