"""Ops made of matrix products: two FLOPs per multiply-add, nothing else counted.

A bias costs no FLOPs: a dot product of length k takes k multiplications and k - 1
additions, and the bias is the k-th addition. A fused kernel (attention, LSTM) counts
its matrix products; its softmax or gates are not counted, as in torch's own counter.
"""

from __future__ import annotations

from math import prod

from irene.trace.costs.call import Call, Formula, OpCost
from irene.trace.templates.piece import groups_hit


def _product(call: Call) -> OpCost:
    left, right = call.inputs[-2:]
    return call.streamed(2 * prod(left.shape) * right.shape[-1])


def _mv(call: Call) -> OpCost:
    return call.streamed(2 * call.inputs[-2].numel)


def _dot(call: Call) -> OpCost:
    return call.streamed(2 * call.inputs[0].numel)


def _linear(call: Call) -> OpCost:
    out_features = call.inputs[1].shape[0] if len(call.inputs[1].shape) == 2 else 1
    return call.streamed(2 * call.inputs[0].numel * out_features)


def _scaled_mm(call: Call) -> OpCost:
    left, right = call.inputs[:2]
    return call.streamed(2 * prod(left.shape) * right.shape[-1])


def _distances(call: Call) -> OpCost:
    """|x - y|² = |x|² - 2·x·y + |y|²: one product of all rows against all rows."""
    return call.streamed(2 * call.outputs[0].numel * call.inputs[0].shape[-1])


def _pairwise(call: Call) -> OpCost:
    """Subtract, raise and add, for each pair of rows and each column."""
    return call.streamed(3 * call.outputs[0].numel * call.inputs[0].shape[-1])


def _solve_triangular(call: Call) -> OpCost:
    """n² operations for each right-hand side of n numbers."""
    matrix, right = call.inputs[:2]
    return call.streamed(right.numel * matrix.shape[-1])


def _grouped_mm(call: Call) -> OpCost:
    """Rows sorted by group against one matrix per group.

    Only the matrices of groups that have rows are read: see `groups_hit`.
    """
    left, right = call.inputs[:2]
    flops = 2 * prod(left.shape[-2:]) * right.shape[-1]
    if len(left.shape) == 3 or len(right.shape) == 2:
        return call.streamed(flops)
    rows, groups = left.shape[0], right.shape[0]
    skipped = right.bytes * (groups - groups_hit(rows, groups)) // groups
    return OpCost(flops, call.bytes_in - skipped, call.bytes_out)


def _convolution(call: Call) -> OpCost:
    """Each output element sums over its input channels and the kernel."""
    out, weight = call.outputs[0], call.inputs[1]
    if call.argument(6, "transposed", False):
        return call.streamed(2 * call.inputs[0].numel * prod(weight.shape[1:]))
    return call.streamed(2 * out.numel * prod(weight.shape[1:]))


def _convolution_backward(call: Call) -> OpCost:
    grad, _, weight = call.inputs[:3]
    mask = call.argument(10, "output_mask", (True, True, False))
    products = int(bool(mask[0])) + int(bool(mask[1]))
    return call.streamed(2 * products * grad.numel * prod(weight.shape[1:]))


def _attention(call: Call) -> OpCost:
    """Q·Kᵀ and A·V over the full matrix of scores, causal or not."""
    query, key, value = call.inputs[:3]
    scores = prod(query.shape[:-1]) * key.shape[-2]
    return call.streamed(2 * scores * (query.shape[-1] + value.shape[-1]))


def _attention_backward(call: Call) -> OpCost:
    """Five products: the scores again, then the gradients of V, A, Q and K."""
    query, key, value = call.inputs[1:4]
    scores = prod(query.shape[:-1]) * key.shape[-2]
    flops = 2 * scores * (3 * query.shape[-1] + 2 * value.shape[-1])
    return OpCost(flops, call.bytes_in, query.bytes + key.bytes + value.bytes)


def _recurrent(call: Call) -> OpCost:
    """Every step multiplies its input and state with every weight matrix."""
    steps = prod(call.inputs[0].shape[:-1])
    matrices = [weight for weight in call.weights if len(weight.shape) == 2]
    return call.streamed(sum(2 * steps * matrix.numel for matrix in matrices))


ATTENTION_KERNELS = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)

MATRIX: dict[str, Formula] = {
    "aten.mm": _product,
    "aten.addmm": _product,
    "aten._int_mm": _product,
    "aten.bmm": _product,
    "aten.baddbmm": _product,
    "aten.addbmm": _product,
    "aten.mv": _mv,
    "aten.addmv": _mv,
    "aten.dot": _dot,
    "aten.vdot": _dot,
    "aten.linear": _linear,
    "aten._scaled_mm": _scaled_mm,
    "aten._euclidean_dist": _distances,
    "aten._cdist_forward": _pairwise,
    "aten.linalg_solve_triangular": _solve_triangular,
    "aten._grouped_mm": _grouped_mm,
    "aten.convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
    "transformers.grouped_mm_fallback": _grouped_mm,
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention.backward": _attention_backward,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    **{f"aten.{kernel}": _attention for kernel in ATTENTION_KERNELS},
    **{f"aten.{kernel}_backward": _attention_backward for kernel in ATTENTION_KERNELS},
}
"""Formulas by op name."""
