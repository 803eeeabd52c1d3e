"""What somebody means by a model with a size, or by a file."""

from __future__ import annotations

import json

import pytest

from irene.analyse.subject import is_saved_tree, read_subject, tree_of
from irene.errors import UsageError
from irene.spec import RunSpec
from irene.trace.tracer import trace

from ..made_up import tree_of_own


@pytest.mark.parametrize(
    ("text", "model", "run", "on"),
    [
        ("gpt2", "gpt2", {"batch_size": 1}, "pc1"),
        ("gpt2@b16s256", "gpt2", {"batch_size": 16, "seq_len": 256}, "pc1"),
        ("gpt2@b16,s256", "gpt2", {"batch_size": 16, "seq_len": 256}, "pc1"),
        (
            "a/b@decode,c512,fp16,sdpa",
            "a/b",
            {
                "batch_size": 1,
                "phase": "decode",
                "context_len": 512,
                "dtype": "fp16",
                "attention": "sdpa",
            },
            "pc1",
        ),
        ("t5@s8d4", "t5", {"batch_size": 1, "seq_len": 8, "decoder_len": 4}, "pc1"),
        ("gpt2@on=lab.json", "gpt2", {"batch_size": 1}, "lab.json"),
    ],
)  # fmt: skip
def test_sizes_after_the_model(text, model, run, on):
    subject = read_subject(text, RunSpec(batch_size=1))
    assert (subject.on, subject.is_tree) == (on, False)
    assert subject.run == RunSpec(model, **run)
    assert all(subject.run.given(name) for name in run)


@pytest.mark.parametrize("text", ["gpt2@x16", "gpt2@b", "gpt2@fp7", "gpt2@b16s"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(
        UsageError, match=r"cannot read .* after the @; write MODEL@b16"
    ):
        read_subject(text, RunSpec())


def test_a_saved_tree_and_a_config_are_told_apart(tmp_path):
    tree, config = tmp_path / "tree.json", tmp_path / "config.json"
    tree_of_own().save(tree)
    config.write_text(json.dumps({"model_type": "bert"}))
    assert read_subject(str(tree), RunSpec()).is_tree
    assert not read_subject(str(config), RunSpec()).is_tree
    assert tree_of(
        read_subject(str(tree), RunSpec())
    ).total().energy_j == pytest.approx(10)
    assert not is_saved_tree(str(tmp_path))
    config.write_bytes(b"\xff")
    assert not is_saved_tree(str(config))


def test_a_tree_without_energy_says_what_to_do(tmp_path):
    file = tmp_path / "tree.json"
    trace("bert-l2-h128", seq_len=8).save(file)
    with pytest.raises(UsageError, match=r"carries no energy.*irene predict"):
        tree_of(read_subject(str(file), RunSpec()))
