"""Weights that a run touches: of modules that are called again, once."""

import numpy as np
import pytest
from transformers import AlbertConfig, BertConfig

import irene
from irene.predict.machines.learned.timed_op import timed_work

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
