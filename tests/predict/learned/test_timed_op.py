"""Ops by their sizes; weights that a run touches: of modules called again, once."""

import numpy as np
import pytest
from transformers import AlbertConfig, BertConfig

import irene
from irene.predict.machines.learned.timed_op import timed_op, timed_work
from irene.tree import Signature

SMALL = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 5,
    "num_attention_heads": 2, "vocab_size": 50, "max_position_embeddings": 16,
}  # fmt: skip


@pytest.mark.parametrize("config", [AlbertConfig(**SMALL), BertConfig(**SMALL)])
def test_a_folded_tree_touches_what_the_whole_one_does(config):
    tree = irene.trace(config, batch_size=2, seq_len=8)
    whole, folded = timed_work(tree), timed_work(tree.fold())
    assert len(folded.counts) < len(whole.counts)
    assert folded.footprint_mib == pytest.approx(whole.footprint_mib, rel=1e-12)
    assert np.allclose(folded.counts[0], whole.counts[0])


def _convolution(channels, out_side, groups=1):
    weight = (channels, channels // groups, 3, 3)
    shapes = Signature(
        ((2, channels, 28, 28), weight), ((2, channels, out_side, out_side),), "fp32"
    )
    return timed_op("aten.convolution", "Conv2d", shapes, 1 << 20, 10**9)


def test_convolutions_that_skip_places_are_told_apart():
    every, some = _convolution(64, 28), _convolution(64, 14)
    assert (every.kind, some.kind) == ("conv", "conv")
    assert some.layout > every.layout
    assert _convolution(64, 26).layout == every.layout  # no padding skips nothing
    assert _convolution(64, 28, groups=64).kind == "depthwise"


@pytest.mark.parametrize(("channels", "work"), [(64, 1), (72, (80 / 72) ** 2)])
def test_vectors_that_are_begun_count_whole(channels, work):
    assert _convolution(channels, 28).gflop == pytest.approx(work)
    product = Signature(((8, 64), (64, channels)), ((8, channels),), "fp32")
    found = timed_op("aten.mm", "Linear", product, 1 << 20, 10**9)
    assert found.gflop == pytest.approx(work**0.5)
    assert found.layout == 0


@pytest.mark.parametrize(("keys", "is_ragged"), [(64, False), (50, True)])
def test_attention_over_keys_that_fill_no_vector_is_told_apart(keys, is_ragged):
    query, key = (2, 4, 8, 32), (2, 4, keys, 32)
    scores = Signature(((8, 8, 32), (8, 32, keys)), ((8, 8, keys),), "fp32")
    assert (timed_op("aten.bmm", "matmul", scores, 1, 1).layout > 0) == is_ragged
    fused = Signature((query, key, key), (query,), "fp32")
    masked = Signature((*fused.inputs, (2, 1, 8, keys)), (query,), "fp32")
    name = "scaled_dot_product_attention"
    plain, with_mask = (timed_op(name, name, s, 1, 1).layout for s in (fused, masked))
    assert (plain > 1) == is_ragged
    assert with_mask == plain + 1
