"""Ops of ONNX as the functions and math ops of torch: one table.

Shapes are worked out by onnx itself; here is what runs, and what is copied for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from irene.trace.onnx_nodes import Node, Tensor

Op = Callable[[Node], Any]


def _plain(function: str, math_op: str = "", takes: int | None = None) -> Op:
    """A function of all inputs, or of the first ones, that runs one math op."""

    def op(node: Node) -> None:
        tensors = node.tensors[:takes]
        if tensors != node.outputs or math_op != "_to_copy":
            node.call(function, tensors)
            node.run(math_op or function, tensors, *node.outputs)

    return op


def _point(function: str) -> Op:
    """One of element by element: the result lies as what it is made of."""

    def op(node: Node) -> list[Tensor]:
        node.call(function, node.tensors)
        out = node.outputs[0]
        lies = all(t.is_dense for t in node.tensors if t.shape == out.shape)
        return [node.run(function, node.tensors, replace(out, is_dense=lies))]

    return op


def _viewed(function: str, math_op: str = "") -> Op:
    """Parts or other sides of a tensor, where they lie."""

    def op(node: Node) -> list[Tensor]:
        x, order = node.tensors[0], node.given.get("perm")
        if function == "permute":
            axes = order or reversed(range(len(x.shape)))
            moved = [axis for axis in axes if x.shape[axis] != 1]
            lies = moved == sorted(moved)
        else:
            pairs = zip(x.shape, node.outputs[0].shape, strict=False)
            before = next((i for i, (m, n) in enumerate(pairs) if m != n), 0)
            lies = function.endswith("squeeze") or math.prod(x.shape[:before]) == 1
        lies = x.is_dense and (lies or node.outputs[0].shape == x.shape)
        outputs = [replace(o, is_dense=lies) for o in node.outputs]
        if function == "expand":
            wide = math.prod(outputs[0].shape) // max(1, math.prod(x.shape))
            outputs = [replace(o, repeats=x.repeats * wide) for o in outputs]
        node.call(function, [x])
        node.run(math_op or function, [x], *outputs)
        return outputs

    return op


def _reshaped(node: Node) -> None:
    node.call("reshape", node.tensors[:1])
    node.reshaped(node.tensors[0], node.outputs[0].shape)


def _matmul(node: Node) -> None:
    """As torch has it: a product of matrices, or of as many as there are."""
    a, b = node.tensors[:2]
    out = node.outputs[0]
    node.call("matmul", [a, b])
    if len(a.shape) == len(b.shape) == 2:
        node.run("mm", [a, b], out)
        return
    rows, inner = (1, *a.shape)[-2:]
    columns = (*b.shape, 1)[1] if len(b.shape) < 3 else b.shape[-1]
    if len(b.shape) < 3:
        a = node.reshaped(a, (math.prod(a.shape) // inner, inner))
        b = b if len(b.shape) == 2 else node.reshaped(b, (inner, 1))
        found = Tensor((a.shape[0], columns), out.kind)
        node.run("mm", [a, b], found)
    else:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        whole = []
        for x, ends in ((a, (rows, inner)), (b, (inner, columns))):
            times = math.prod((*batch, *ends)) // max(1, math.prod(x.shape))
            wide = replace(x, shape=(*batch, *ends), repeats=x.repeats * times,
                           is_dense=x.is_dense and times == 1)  # fmt: skip
            node.run("expand", [x], wide)
            whole.append(node.reshaped(wide, (math.prod(batch), *ends)))
        found = Tensor((math.prod(batch), rows, columns), out.kind)
        node.run("bmm", whole, found)
    node.run("_unsafe_view", [found], out)


def _linear(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """A product with a weight as layers store it."""
    out = node.outputs[0]
    node.call("linear", [x, weight] if bias is None else [x, weight, bias])
    turned = node.run("t", [weight], replace(weight, shape=weight.shape[::-1]))
    flat = Tensor((math.prod(out.shape[:-1]), out.shape[-1]), out.kind)
    if len(x.shape) > 2:
        x = node.reshaped(x, (flat.shape[0], x.shape[-1]))
    if bias is None:
        node.run("mm", [x, turned], flat)
    else:
        node.run("addmm", [bias, x, turned], flat)
    if flat.shape != out.shape:
        node.run("view", [flat], out)


def _gemm(node: Node) -> None:
    a, b, *rest = node.tensors
    if node.given.get("transA"):
        node.call("t", [a])
        a = node.run("t", [a], replace(a, shape=a.shape[::-1]))
    weight = b if node.given.get("transB") else replace(b, shape=b.shape[::-1])
    fits = [bias for bias in rest if bias.shape == weight.shape[:1]]
    _linear(node, a, weight, *fits)
    if rest and not fits:
        node.call("add", [*node.outputs, *rest])
        node.run("add", [*node.outputs, *rest], *node.outputs)


def _gathered(node: Node) -> Any:
    index = node.inputs[1]
    if isinstance(index, np.ndarray) and not index.ndim:
        return _viewed("select")(node)
    x, axis = node.tensors[0], node.given.get("axis", 0)
    is_table = axis == 0 and len(x.shape) == 2
    return _plain("embedding" if is_table else "index_select")(node)


def _pooled(name: str, of_several: str) -> Op:
    def op(node: Node) -> None:
        sides = len(node.outputs[0].shape) - 2
        of = f"{name}{sides}d"
        _plain(of, of if sides == 1 else of + of_several)(node)

    return op


def _convolved(node: Node) -> None:
    _plain(f"conv{len(node.outputs[0].shape) - 2}d", "convolution")(node)


def _dequantized(node: Node) -> None:
    node.call("to", node.tensors[:1])
    node.run("_to_copy", node.tensors[:1], node.outputs[0])
    node.call("mul", node.outputs)
    node.run("mul", node.outputs, *node.outputs)


def _transposed(node: Node) -> None:
    node.given = {**node.given, "transposed": True}
    sides = len(node.outputs[0].shape) - 2
    _plain(f"conv_transpose{sides}d", "convolution")(node)


def _integers(product: Op) -> Op:
    """A product of whole numbers, which is turned to the wider ones that come out."""

    def op(node: Node) -> None:
        out = node.outputs[0]
        few = replace(out, kind=node.tensors[0].kind)
        node.inputs = node.inputs[:2]
        product(node)
        node.call("to", [few])
        node.run("_to_copy", [few], out)

    return op


def _quantized(product: Op) -> Op:
    """A product of what stands between scales and zero points."""

    def op(node: Node) -> None:
        node.inputs = [node.inputs[0], node.inputs[3], *node.inputs[8:]]
        product(node)

    return op


def _resized(node: Node) -> None:
    x = node.tensors[0]
    mode = node.given.get("mode", b"nearest").decode()
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}
    sides = len(x.shape) - 2
    mode = {"linear": linear.get(sides, "linear"), "cubic": "bicubic"}.get(mode, mode)
    _plain("interpolate", f"upsample_{mode}{sides}d", takes=1)(node)


def _einsum(node: Node) -> None:
    """Sides that both have and that stay are a batch of products."""
    given, arrow, kept = (
        node.given["equation"].decode().replace(" ", "").partition("->")
    )
    if not arrow:
        kept = "".join(side for side in given if given.count(side) == 1)
    if len(node.tensors) == 1:
        _plain("einsum", "sum")(node)
        return
    (a, b), (left, right) = node.tensors, given.split(",")
    sizes = dict(zip((*left, *right), (*a.shape, *b.shape), strict=True))

    def size(chosen: set[str]) -> int:
        return math.prod(sizes[side] for side in chosen)

    both = {*left} & {*right}
    batch, inner = size(both & {*kept}), size(both - {*kept})
    rows, columns = size({*left} - both), size({*right} - both)
    out = node.outputs[0]
    node.call("einsum", [a, b])
    views = [
        node.reshaped(a, (batch, rows, inner)),
        node.reshaped(b, (batch, inner, columns)),
    ]
    node.run("bmm", views, Tensor((batch, rows, columns), out.kind))


def _attended(node: Node) -> None:
    """Queries, keys and values with heads apart or side by side, after earlier ones."""
    given, tensors = node.given, node.tensors[:3]
    heads = given.get("q_num_heads", 1)
    counts = (heads, *[given.get("kv_num_heads", heads)] * 2)
    apart = [
        t if len(t.shape) > 3 else
        replace(t, shape=(t.shape[0], many, t.shape[1], t.shape[2] // many))
        for t, many in zip(tensors, counts, strict=True)
    ]  # fmt: skip
    for place, past in enumerate(node.inputs[4:6], 1):
        if past is not None:
            *outer, length, width = apart[place].shape
            shape = (*outer, past.shape[2] + length, width)
            apart[place] = replace(apart[place], shape=shape)
    node.call("scaled_dot_product_attention", tensors)
    name = "_scaled_dot_product_flash_attention_for_cpu"
    node.run(name, apart, node.outputs[0])


def _recurrent(function: str) -> Op:
    """Every step multiplies its input and its state with a matrix of all gates."""

    def op(node: Node) -> None:
        x, *weights = node.tensors[:3]
        rows = math.prod(x.shape[:2])
        node.call(function, [x, *weights])
        for directions, gates, width in (weight.shape for weight in weights):
            read = Tensor((rows, width), x.kind), Tensor((width, gates), x.kind)
            for _ in range(directions):
                node.run("mm", read, Tensor((rows, gates), x.kind))

    return op


def _product_of_few_bits(node: Node) -> list[Tensor]:
    """Weights are read as they are stored, turned to what is multiplied with them."""
    x, stored = node.tensors[:2]
    weight = Tensor((node.given["N"], node.given["K"]), x.kind)
    node.outputs = [Tensor((*x.shape[:-1], weight.shape[0]), x.kind)]
    node.call("to", [stored])
    node.run("_to_copy", [stored], weight)
    _linear(node, x, weight)
    return node.outputs


OPS: dict[str, Op] = {
    **{name: _point(name.lower()) for name in (
        "Abs", "Add", "Ceil", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu",
        "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "Log", "Mish", "Mul", "Neg",
        "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin",
        "Softplus", "Sqrt", "Sub", "Tanh", "Where",
    )},
    **{name: _point(torchs) for name, torchs in (
        ("And", "logical_and"), ("BiasGelu", "gelu"), ("Clip", "clamp"),
        ("Equal", "eq"), ("FastGelu", "gelu"), ("Greater", "gt"),
        ("GreaterOrEqual", "ge"), ("LeakyRelu", "leaky_relu"), ("Less", "lt"),
        ("LessOrEqual", "le"), ("Max", "maximum"), ("Min", "minimum"),
        ("Mod", "remainder"), ("Not", "logical_not"), ("Or", "logical_or"),
        ("PRelu", "_prelu_kernel"), ("QuickGelu", "gelu"), ("Sum", "add"),
        ("Swish", "silu"), ("Xor", "logical_xor"),
    )},
    **{name: _plain(function, math_op, takes=1) for name, function, math_op in (
        ("ArgMax", "argmax", ""), ("ArgMin", "argmin", ""), ("CumSum", "cumsum", ""),
        ("DepthToSpace", "pixel_shuffle", ""), ("GlobalMaxPool", "amax", ""),
        ("LogSoftmax", "log_softmax", "_log_softmax"),
        ("Pad", "pad", "constant_pad_nd"), ("ReduceL1", "norm", "linalg_vector_norm"),
        ("ReduceL2", "norm", "linalg_vector_norm"),
        ("ReduceLogSumExp", "logsumexp", ""), ("ReduceMax", "amax", ""),
        ("ReduceMean", "mean", ""), ("ReduceMin", "amin", ""),
        ("ReduceProd", "prod", ""), ("ReduceSum", "sum", ""),
        ("SpaceToDepth", "pixel_unshuffle", ""), ("Tile", "repeat", ""),
        ("TopK", "topk", ""),
    )},
    "Attention": _attended, "AveragePool": _pooled("avg_pool", ""),
    "BatchNormalization": _plain("batch_norm", "_native_batch_norm_legit_no_training"),
    "Cast": _plain("to", "_to_copy"), "Concat": _plain("cat"), "Conv": _convolved,
    "ConvInteger": _integers(_convolved), "ConvTranspose": _transposed,
    "DequantizeLinear": _dequantized, "Dropout": lambda node: node.tensors[:1],
    "DynamicQuantizeLinear": _plain("to", "_to_copy"), "Einsum": _einsum,
    "Expand": _viewed("expand"), "Flatten": _reshaped, "GRU": _recurrent("gru"),
    "Gather": _gathered, "GatherElements": _plain("gather"),
    "GatherND": _plain("index"), "Gemm": _gemm,
    "GlobalAveragePool": _plain("adaptive_avg_pool2d", "mean"),
    "GroupNormalization": _plain("group_norm", "native_group_norm"),
    "Identity": lambda node: node.tensors[:1],
    "InstanceNormalization": _plain("instance_norm", "native_batch_norm"),
    "LSTM": _recurrent("lstm"),
    "LayerNormalization": _plain("layer_norm", "native_layer_norm"),
    "MatMul": _matmul, "MatMulInteger": _integers(_matmul),
    "MatMulNBits": _product_of_few_bits,
    "MaxPool": _pooled("max_pool", "_with_indices"),
    "QLinearConv": _quantized(_convolved), "QLinearMatMul": _quantized(_matmul),
    "QuantizeLinear": _plain("to", "_to_copy"), "RNN": _recurrent("rnn"),
    "RMSNormalization": _plain("rms_norm", "_fused_rms_norm"), "Reshape": _reshaped,
    "Resize": _resized, "ScatterElements": _plain("scatter"),
    "ScatterND": _plain("index_put"),
    "SimplifiedLayerNormalization": _plain("rms_norm", "_fused_rms_norm"),
    "SkipLayerNormalization": _plain("layer_norm", "native_layer_norm"),
    "SkipSimplifiedLayerNormalization": _plain("rms_norm", "_fused_rms_norm"),
    "Slice": _viewed("getitem", "slice"), "Softmax": _plain("softmax", "_softmax"),
    "Split": _viewed("split"), "Squeeze": _viewed("squeeze"),
    "Transpose": _viewed("permute"), "Trilu": _plain("triu"),
    "Unsqueeze": _viewed("unsqueeze"),
}  # fmt: skip
"""What runs for an op; gives what comes out where that does not lie in order."""
