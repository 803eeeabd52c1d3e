"""A graph of ONNX as a tree, without torch.

Only shapes of weights are taken; those in files beside the graph are never opened. What
depends on shapes alone is worked out by onnx' own reference, shapes by onnx' inference;
`onnx_ops` says what runs. Names of nodes (`/encoder/layer.0/Add`) make the tree.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from irene.errors import ConfigError, IreneError, SpecError, TraceError, library
from irene.spec import RunSpec
from irene.trace.costs.call import Leaf
from irene.trace.onnx_nodes import Node, Shapes, Tensor, as_tensor, kind_of
from irene.trace.onnx_ops import OPS
from irene.trace.sources import short
from irene.tree import ModelTree, Signature, TreeBuilder

SMALL = 4096
"""Whole numbers up to which the content of a tensor counts: shapes and axes."""
FEW = 8
"""The same of other numbers: by how much a picture is made larger."""
INDEX = re.compile(r"[^A-Za-z0-9_]+")
ONNX_NOTE = "traced op by op as the graph has them: a runtime may fuse some"
PRODUCTS = ("linear", "matmul")
"""Functions whose preparing copies are shown as a primitive of their own."""


def _library(name: str = "onnx") -> Any:
    missing = "ONNX files are read with onnx: pip install 'irene-energy[onnx]'"
    return library(name, missing)


def trace_onnx(path: Path, spec: RunSpec) -> ModelTree:
    """The tree of a graph, which has its own types.

    Raises:
        ConfigError: It cannot be read, or has ops that are not known here.
        SpecError: Something else than a forward pass is asked for.
        MissingExtraError: onnx is not installed.
    """
    if spec.phase != "forward":
        raise SpecError(
            f"a graph of ONNX runs forward: it has no phase {spec.phase!r}, use "
            "phase 'forward'"
        )
    running = Running(read_onnx(path))
    try:
        running.run(inputs_of_graph(running.graph, spec))
    except IreneError:
        raise
    except Exception as error:
        told = f"{path} fails in {running.at}: {short(error)}"
        raise TraceError(told, running.at) from error
    return running.builder.build(
        spec=replace(spec, model=str(path)),
        provenance={"graph": str(path), "onnx": _library().__version__},
        notes=(ONNX_NOTE,),
    )


def read_onnx(path: Path) -> Any:
    """The model of a file, without weights that lie beside it.

    Raises:
        ConfigError: It cannot be read, or has ops that are not known here.
        MissingExtraError: onnx is not installed.
    """
    onnx = _library()
    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:  # protobuf has a class of its own for damage
        raise ConfigError(f"{path} is no ONNX file, or is cut short") from error
    if model.functions:
        model = _library("onnx.inliner").inline_local_functions(model)
    if not model.graph.node:
        raise ConfigError(f"{path} is no ONNX file, or has an empty graph")
    unknown = sorted(
        {n.op_type for n in model.graph.node} - {*OPS, "Constant", "Shape"}
    )
    unknown = [op for op in unknown if not _has_reference(op)]
    if unknown:
        raise ConfigError(
            f"{path} has ops that are not known here: {', '.join(unknown)}; export it "
            "without them, or trace the model itself"
        )
    return model


def _has_reference(op: str) -> bool:
    """Whether an op may be of shapes alone: onnx itself works it out then."""
    try:
        _library("onnx.reference.ops._op_list").load_op("", op)
    except (
        RuntimeError,
        AssertionError,
    ):  # the second for some that are made of others
        return False
    return True


class Running:
    """A graph that runs on shapes.

    Attributes:
        graph: Its graph.
        builder: The nodes so far.
        values: Arrays that are known, and tensors, by name.
        at: Name of the node that runs.
    """

    def __init__(self, model: Any) -> None:
        self.graph = model.graph
        self.builder = TreeBuilder()
        self.values: dict[str, Any] = {"": None}
        self.at = ""
        self._opsets = list(model.opset_import)
        self._weights: dict[str, int] = {}
        self._open: list[tuple[str, int]] = []
        self._used: dict[int, Counter[str]] = {}

    def run(self, inputs: Mapping[str, Any]) -> None:
        """Run every node on what the graph is given."""
        root = self.builder.add(-1, "", "model", "OnnxGraph")
        self._open = [("", root)]
        self.values |= inputs
        for value in self.graph.initializer:
            self._know(value.name, value)
        words: list[str] = []
        for node in self.graph.node:
            self.at = node.name or node.op_type
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._know(node.output[0], node.attribute[0].t)
                continue
            words = _words(node.name) if "/" in node.name else words
            self._enter(words)
            self._run(node)
        found = [self.values.get(out.name) for out in self.graph.output]
        given, gave = (
            tuple(t.shape for t in map(as_tensor, each) if isinstance(t, Tensor))
            for each in (inputs.values(), found)
        )
        kind = next((t.kind.name for t in found if isinstance(t, Tensor)), "")
        self.builder.rows[root].signature = Signature(given, gave, kind)

    def _know(self, name: str, value: Any) -> None:
        """Content of what is small, shape and type of what is not."""
        size, kind = math.prod(value.dims), kind_of(value.data_type)
        most = FEW if kind.is_floating_point else SMALL
        self.values[name] = Tensor(tuple(value.dims), kind)
        if value.data_location != value.EXTERNAL and size <= most:
            self.values[name] = _library("onnx.numpy_helper").to_array(value)
        if size > (1 if kind.is_floating_point else SMALL):
            self._weights[name] = size

    def _enter(self, words: list[str]) -> None:
        """Go to the module of such a path; one that was left is called again."""
        here = [word for word, _ in self._open[1:]]
        pairs = zip(here, words, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        del self._open[same + 1 :]
        for word in words[same:]:
            handle = self.builder.add(self._open[-1][1], word, "module", "Scope")
            self._open.append((word, handle))

    def _run(self, node: Any) -> None:
        """One node; of shapes alone as onnx has it, else by the table."""
        for name in node.input:  # whoever multiplies with it first, has it
            for _, handle in self._open if name in self._weights else ():
                self.builder.rows[handle].params += self._weights[name]
            self._weights.pop(name, None)
        inputs = [self.values[name] for name in node.input]
        helper = _library("onnx.helper")
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Shape":
            sides = inputs[0].shape[given.get("start", 0) : given.get("end")]
            outputs: Sequence[Any] = (np.array(sides, dtype=np.int64),)
        elif not any(isinstance(value, Tensor) for value in inputs):
            outputs = self._evaluated(node, inputs)
        elif node.op_type not in OPS:
            told = f"no op {node.op_type} of tensors is known here"
            raise TraceError(f"{told}: trace the model itself", node.name)
        else:
            ran = Node(inputs, given, self._inferred(node, inputs))
            outputs = OPS[node.op_type](ran) or ran.outputs
            for primitive in ran.primitives:
                self._write(*primitive)
        self.values.update(zip(filter(None, node.output), outputs, strict=False))

    def _evaluated(self, node: Any, inputs: Sequence[Any]) -> Sequence[Any]:
        """What onnx' reference gives; shapes alone where it does not know how."""
        fed = {k: v for k, v in zip(node.input, inputs, strict=True) if k}
        try:
            found: Sequence[Any] = (
                _library("onnx.reference").ReferenceEvaluator(node).run(None, fed)
            )
        except (ValueError, NotImplementedError, RuntimeError):
            return self._inferred(node, inputs)
        return found

    def _inferred(self, node: Any, inputs: Sequence[Any]) -> list[Tensor]:
        """What comes out of a node, as onnx infers it."""
        onnx, helper = _library(), _library("onnx.helper")
        versions = {each.domain: each.version for each in self._opsets}
        version = versions.get(node.domain, onnx.defs.onnx_opset_version())
        if not onnx.defs.has(node.op_type, version, node.domain):
            first = next(value for value in inputs if isinstance(value, Tensor))
            return [first] * len(node.output)
        types, data = {}, {}
        for name, value in zip(node.input, inputs, strict=True):
            tensor = value
            if isinstance(value, np.ndarray):
                tensor = Tensor(value.shape, kind_of(value.dtype))
                data[name] = _library("onnx.numpy_helper").from_array(value)
            if tensor is not None:
                number = tensor.kind.number
                types[name] = helper.make_tensor_type_proto(number, tensor.shape)
        found = _library("onnx.shape_inference").infer_node_outputs(
            onnx.defs.get_schema(node.op_type, version, node.domain), node, types, data,
            opset_imports=self._opsets,
        )  # fmt: skip
        shape = next(value.shape for value in inputs if value is not None)
        return [
            Tensor(
                tuple(_sides(kind.shape.dim)) if kind.HasField("shape") else shape,
                kind_of(kind.elem_type),
            )
            for kind in (found[name].tensor_type for name in node.output if name)
        ]

    def _write(self, function: str, given: Shapes, leaves: Sequence[Leaf]) -> None:
        """A function as a primitive, with its math ops."""
        copies = [leaf for leaf in leaves if leaf.name == "clone"]
        if function in PRODUCTS and copies:
            copied = tuple(leaf.signature.inputs[0] for leaf in copies)
            self._write("copy", copied, copies)
            leaves = [leaf for leaf in leaves if leaf.name != "clone"]
        parent = self._open[-1][1]
        used = self._used.setdefault(parent, Counter())
        name = f"{function}_{used[function]}" if used[function] else function
        used[function] += 1
        last = leaves[-1].signature
        signature = Signature(given, last.outputs, last.dtype)
        row = self.builder.add(parent, name, "ml", function, signature=signature)
        for leaf in leaves:
            leaf.add_to(self.builder, row)


def _words(name: str) -> list[str]:
    """The modules of `/encoder/layer/layer.0/Add`: encoder, layer, 0."""
    words, before = [], ""
    for part in name.split("/")[:-1]:
        inner = part.removeprefix(f"{before}.") if before else part
        words += [INDEX.sub("_", word) for word in inner.split(".") if word]
        before = part
    return words


def inputs_of_graph(graph: Any, spec: RunSpec) -> dict[str, Tensor]:
    """Tensors for the inputs of a graph, of the sizes that a run asks for."""
    weights = {value.name for value in graph.initializer}
    kinds = {v.name: v.type.tensor_type for v in graph.input if v.name not in weights}
    return {
        name: Tensor(tuple(_sides(kind.shape.dim, spec)), kind_of(kind.elem_type))
        for name, kind in kinds.items()
    }


def _sides(dims: Any, spec: RunSpec | None = None) -> Iterator[int]:
    """A side that has a name is chosen by it; the first is the batch."""
    for axis, dim in enumerate(dims):
        name = dim.dim_param.lower()
        if dim.HasField("dim_value"):
            yield dim.dim_value
        elif spec is None:
            raise ValueError("its shape depends on data")
        elif "total" in name or ("past" in name and "+" in name):
            yield (spec.context_len or 0) + spec.seq_len
        elif "past" in name:
            yield spec.context_len or 0
        elif axis == 0 or "batch" in name:
            yield spec.batch_size
        else:
            yield spec.seq_len
