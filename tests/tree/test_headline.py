"""The words above a tree."""

from __future__ import annotations

import irene
from irene.tree.headline import run_words


def test_a_length_is_told_where_it_means_something() -> None:
    assert "length 128*" in run_words(irene.predict("gpt2"))
    assert "length" not in run_words(irene.predict("resnet-18"))
    assert "length 64" in run_words(irene.predict("resnet-18", seq_len=64))
