"""Elementwise ops, reductions, norms, softmax, pooling: a fixed work per element.

The count is one FLOP per arithmetic operation or function evaluation (`exp`, `erf`,
`tanh`, `rsqrt`) in the definition. Ops on integers and booleans count none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, prod

from irene.trace.costs.call import Call, Formula, OpCost
from irene.trace.templates.piece import transform_flops


def _is_float(call: Call) -> bool:
    return any(spec.is_float for spec in (*call.inputs, *call.outputs))


def elementwise(per_element: int = 1) -> Formula:
    """So many FLOPs for each element of the output."""

    def cost(call: Call) -> OpCost:
        elements = call.outputs[0].numel if call.outputs else 0
        return call.streamed(per_element * elements * _is_float(call))

    return cost


def _reduction(per_element: int = 1) -> Formula:
    """So many FLOPs for each element of the input."""

    def cost(call: Call) -> OpCost:
        elements = call.inputs[0].numel if call.inputs else 0
        return call.streamed(per_element * elements * _is_float(call))

    return cost


def _gelu(call: Call) -> OpCost:
    """x·½(1 + erf(x/√2)): 5; with tanh of a cubic: 9."""
    tanh = call.kwargs.get("approximate") == "tanh"
    return elementwise(9 if tanh else 5)(call)


def _log_sigmoid(call: Call) -> OpCost:
    """-log(1 + exp(-x)): 4; the buffer that a CPU keeps is not counted."""
    return call.result_only(4 * call.inputs[0].numel)


def _layer_norm(call: Call) -> OpCost:
    """Sum, centre, square, sum, scale: 5; weight and bias one more each."""
    affine = sum(1 for spec in call.inputs[1:3])
    return call.result_only((5 + affine) * call.inputs[0].numel)


def _rms_norm(call: Call) -> OpCost:
    """Square, sum, scale: 3; weight one more."""
    scaled = len(call.inputs) + len(call.weights) > 1
    return call.result_only((3 + scaled) * call.inputs[0].numel)


def _batch_norm(call: Call) -> OpCost:
    """(x - mean)·scale·weight + bias; in training the statistics cost three more."""
    training = any(value is True for value in call.args[3:])
    return call.result_only((7 if training else 4) * call.inputs[0].numel)


def _sort(call: Call) -> OpCost:
    """n·log2(n) comparisons."""
    elements = call.inputs[0].numel
    return call.streamed(int(elements * log2(max(elements, 2))) * _is_float(call))


def _window(kernel: Sequence[int] | int, dimensions: int) -> int:
    if isinstance(kernel, int):
        return int(kernel**dimensions)
    return prod(kernel) if len(kernel) == dimensions else prod(kernel) ** dimensions


def _pool(dimensions: int) -> Formula:
    """One operation per element of the window and output."""

    def cost(call: Call) -> OpCost:
        window = _window(call.argument(1, "kernel_size", 1), dimensions)
        return call.result_only(window * call.outputs[0].numel)

    return cost


def _adaptive_pool(call: Call) -> OpCost:
    """Every input element is added once."""
    return call.streamed(call.inputs[0].numel)


def _interpolate(taps: int) -> Formula:
    """A weighted sum of some neighbours."""

    def cost(call: Call) -> OpCost:
        return call.streamed(2 * taps * call.outputs[0].numel)

    return cost


def _fft(call: Call) -> OpCost:
    elements = max(spec.numel for spec in (*call.inputs, *call.outputs))
    return call.streamed(transform_flops(elements, max(call.inputs[0].shape)))


def _accumulate(call: Call) -> OpCost:
    """`index_add`: read, add and write as many values as are given."""
    values = call.inputs[-1]
    rest = sum(spec.bytes for spec in call.inputs[1:])
    return OpCost(values.numel * values.is_float, rest + values.bytes, values.bytes)


def _embedding_bag(call: Call) -> OpCost:
    """The rows that are looked up are read and added; the table is not read whole."""
    table, indices = call.inputs[:2]
    numbers = indices.numel * table.shape[-1]
    looked_up = numbers * table.dtype.itemsize
    rest = sum(spec.bytes for spec in call.inputs[1:])
    return OpCost(numbers, looked_up + rest, call.bytes_out)


def _embedding_backward(call: Call) -> OpCost:
    """A zero-filled table to which the gradient's rows are added."""
    grad = call.inputs[0]
    return OpCost(grad.numel, call.bytes_in + grad.bytes, call.bytes_out)


PER_ELEMENT = {
    "_prelu_kernel": 2,
    "_softmax": 5,
    "_safe_softmax": 5,
    "_log_softmax": 5,
    "_softmax_backward_data": 4,
    "_log_softmax_backward_data": 4,
    "addcdiv": 3,
    "addcmul": 3,
    "elu": 3,
    "floor_divide": 1,
    "gelu_backward": 13,
    "glu": 5,
    "hardsigmoid": 3,
    "hardswish": 4,
    "leaky_relu": 2,
    "lerp": 3,
    "logit": 3,
    "mish": 6,
    "native_dropout": 2,
    "native_dropout_backward": 2,
    "sigmoid": 4,
    "sigmoid_": 4,
    "sigmoid_backward": 3,
    "silu": 5,
    "silu_": 5,
    "silu_backward": 8,
    "softplus": 3,
    "tanh_backward": 3,
    "_weight_norm_interface": 4,
    "bucketize": 1,
    "grid_sampler_2d": 16,
    "histc": 1,
    "one_hot": 0,
    "polar": 2,
}
PER_INPUT = {
    "_is_all_true": 1,
    "_is_any_true": 1,
    "all": 1,
    "amax": 1,
    "amin": 1,
    "aminmax": 2,
    "any": 1,
    "argmax": 1,
    "argmin": 1,
    "bincount": 1,
    "count_nonzero": 1,
    "cummax": 1,
    "cummin": 1,
    "cumprod": 1,
    "cumsum": 1,
    "equal": 1,
    "isin": 1,
    "l1_loss": 3,
    "linalg_vector_norm": 2,
    "logcumsumexp": 3,
    "logsumexp": 4,
    "max": 1,
    "mean": 1,
    "median": 1,
    "min": 1,
    "mse_loss": 3,
    "nonzero": 1,
    "prod": 1,
    "std": 4,
    "sum": 1,
    "unique_consecutive": 1,
    "var": 4,
    "var_mean": 4,
    "std_mean": 4,
    "nll_loss_forward": 1,
    "nll_loss_backward": 1,
    "topk": 1,
    "multinomial": 1,
    "kthvalue": 1,
    "searchsorted": 1,
    "native_layer_norm_backward": 11,
    "native_group_norm_backward": 11,
    "native_batch_norm_backward": 11,
    "_fused_rms_norm_backward": 8,
    "max_pool2d_with_indices_backward": 1,
    "avg_pool2d_backward": 1,
    "_adaptive_avg_pool2d_backward": 1,
}
NORMS = ("native_layer_norm", "native_group_norm")
BATCH_NORMS = (
    "native_batch_norm",
    "cudnn_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_with_update",
    "_batch_norm_no_update",
)
TRANSFORMS = ("_fft_r2c", "_fft_c2r", "_fft_c2c")
TAPS = {
    "upsample_nearest1d": 1,
    "upsample_nearest2d": 1,
    "upsample_nearest3d": 1,
    "_upsample_nearest_exact2d": 1,
    "upsample_linear1d": 2,
    "upsample_bilinear2d": 4,
    "_upsample_bilinear2d_aa": 4,
    "upsample_trilinear3d": 8,
    "upsample_bicubic2d": 16,
    "_upsample_bicubic2d_aa": 16,
}

ARITHMETIC: dict[str, Formula] = {
    **{f"aten.{name}": elementwise(work) for name, work in PER_ELEMENT.items()},
    **{f"aten.{name}": _reduction(work) for name, work in PER_INPUT.items()},
    **{f"aten.{name}": _layer_norm for name in NORMS},
    **{f"aten.{name}": _batch_norm for name in BATCH_NORMS},
    **{f"aten.{name}": _fft for name in TRANSFORMS},
    **{f"aten.{name}": _interpolate(taps) for name, taps in TAPS.items()},
    "aten.log_sigmoid_forward": _log_sigmoid,
    "aten.gelu": _gelu,
    "aten.gelu_": _gelu,
    "RMSNorm": _rms_norm,
    "rms_norm": _rms_norm,
    "aten._fused_rms_norm": _rms_norm,
    "aten.rms_norm": _rms_norm,
    "aten.sort": _sort,
    "aten._unique2": _sort,
    "aten.unique_dim": _sort,
    "aten.max_pool1d": _pool(1),
    "aten.avg_pool1d": _pool(1),
    "aten.max_pool2d_with_indices": _pool(2),
    "aten.avg_pool2d": _pool(2),
    "aten.max_pool3d_with_indices": _pool(3),
    "aten.avg_pool3d": _pool(3),
    "aten._adaptive_avg_pool2d": _adaptive_pool,
    "aten._adaptive_avg_pool3d": _adaptive_pool,
    "aten.adaptive_max_pool2d": _adaptive_pool,
    "aten.index_add_": _accumulate,
    "aten.index_add": _accumulate,
    "aten.scatter_add_": _accumulate,
    "aten.scatter_add": _accumulate,
    "aten.scatter_reduce_": _accumulate,
    "aten.scatter_reduce": _accumulate,
    "aten._embedding_bag": _embedding_bag,
    "aten._embedding_bag_forward_only": _embedding_bag,
    "aten.embedding_dense_backward": _embedding_backward,
}
"""Formulas by op name."""
