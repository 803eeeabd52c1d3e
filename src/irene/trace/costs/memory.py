"""Ops that move data without arithmetic: bytes are counted, FLOPs are none."""

from __future__ import annotations

from irene.trace.costs.call import Call, Formula, OpCost


def _copy(call: Call) -> OpCost:
    """Read everything, write everything, perhaps with some values replaced."""
    return call.streamed(0)


def _fill(call: Call) -> OpCost:
    """Written only."""
    return OpCost(0, 0, call.bytes_out)


def _nothing(call: Call) -> OpCost:
    """Memory is reserved, or a number is read: no traffic worth counting."""
    return OpCost()


def _gather(call: Call) -> OpCost:
    """Only the rows that are looked up are read, not the whole table."""
    indices = sum(spec.bytes for spec in call.inputs[1:])
    return OpCost(0, call.bytes_out + indices, call.bytes_out)


def _overwrite(call: Call) -> OpCost:
    """`copy_`: the first argument is written, not read."""
    rest = sum(spec.bytes for spec in call.inputs[1:])
    return OpCost(0, rest, call.bytes_out)


def _scatter(call: Call) -> OpCost:
    """Values and indices are read, and as many values written, in place or not."""
    rest = sum(spec.bytes for spec in call.inputs[1:])
    written = call.inputs[-1].bytes if len(call.inputs) > 1 else 0
    return OpCost(0, rest, written)


COPIES = (
    "_copy_from",
    "_fft_conjugate_copy",
    "_pad_enum",
    "_reshape_copy",
    "_to_copy",
    "cat",
    "clone",
    "constant_pad_nd",
    "copy",
    "diag_embed",
    "flip",
    "im2col",
    "index_put",
    "col2im",
    "masked_fill",
    "masked_fill_",
    "masked_scatter",
    "pixel_shuffle",
    "pixel_unshuffle",
    "reflection_pad1d",
    "reflection_pad2d",
    "repeat",
    "repeat_interleave",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "roll",
    "scatter",
    "select_backward",
    "select_scatter",
    "slice_backward",
    "slice_scatter",
    "stack",
    "tril",
    "tril_",
    "triu",
    "triu_",
    "unfold_backward",
    "view_as_complex_copy",
    "view_as_real_copy",
    "where",
)
FILLS = (
    "arange",
    "bernoulli",
    "bernoulli_",
    "eye",
    "fill",
    "fill_",
    "full",
    "full_like",
    "linspace",
    "new_full",
    "new_ones",
    "new_zeros",
    "normal_",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "uniform_",
    "zero",
    "zero_",
    "zeros",
    "zeros_like",
)
NOTHING = (
    "_assert_async",
    "_assert_tensor_metadata",
    "_local_scalar_dense",
    "_resize_output_",
    "as_strided_",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "is_same_size",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "set_",
    "squeeze_",
    "swapaxes_",
    "sym_constrain_range_for_size",
    "t_",
    "transpose_",
    "unsqueeze_",
)
GATHERS = ("embedding", "gather", "index", "index_select", "masked_select", "take")

MEMORY: dict[str, Formula] = {
    **{f"aten.{name}": _copy for name in COPIES},
    **{f"aten.{name}": _fill for name in FILLS},
    **{f"aten.{name}": _nothing for name in NOTHING},
    **{f"aten.{name}": _gather for name in GATHERS},
    "aten.copy_": _overwrite,
    "aten.index_put_": _scatter,
    "aten._index_put_impl_": _scatter,
    "aten.scatter_": _scatter,
    "aten.masked_scatter_": _scatter,
    "aten.index_copy_": _scatter,
    "aten.index_fill_": _fill,
}
"""Formulas by op name."""
