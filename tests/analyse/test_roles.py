"""Roles follow from words, place and work, whatever a model is called."""

from __future__ import annotations

import pytest

from irene.analyse.parts import group_by, parts_of

FAMILIES = (
    "bert-base-uncased",
    "roberta-base",
    "albert-base-v2",
    "distilbert-base-uncased",
    "gpt2",
)


def shares(tree):
    sums = group_by(parts_of(tree), lambda part: part.role)
    whole = sum(found.energy_j for found in sums.values())
    return {role: found.energy_j / whole for role, found in sums.items()}


def flops(tree, role):
    return sum(part.flops for part in parts_of(tree) if part.role == role)


@pytest.mark.parametrize("model", FAMILIES)
def test_the_families_of_the_paper_have_the_same_roles(predicted, model):
    found = shares(predicted(model))
    assert found["feed-forward"] > found["attention"] > 0.2
    assert found["norm"] > 0
    assert found["residual"] > 0
    assert found["embeddings"] > 0
    assert found.get("other", 0.0) < 0.02


@pytest.mark.parametrize("model", FAMILIES[1:])
def test_twelve_layers_of_width_768_do_the_same_products(predicted, model):
    """Per layer, attention and feed-forward of all five compute the same."""
    layers = 6 if model.startswith("distil") else 12
    for role in ("attention", "feed-forward"):
        ours = flops(predicted(model), role) / layers
        berts = flops(predicted("bert-base-uncased"), role) / 12
        assert ours == pytest.approx(berts, rel=0.02)


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("t5-small", {"attention": 0.1, "feed-forward": 0.1, "head": 0.05}),
        ("pythia-14m", {"attention": 0.05, "feed-forward": 0.05, "head": 0.05}),
        ("smollm2-135m", {"attention": 0.03, "feed-forward": 0.1, "head": 0.02}),
        ("vit-tiny-patch16-224", {"attention": 0.2, "feed-forward": 0.2}),
        ("mobilebert-uncased", {"attention": 0.1, "feed-forward": 0.2, "norm": 0.02}),
        ("fnet-base", {"attention": 0.01, "feed-forward": 0.5}),
        ("convnext-tiny-224", {"feed-forward": 0.5, "convolution": 0.01}),
    ],
)
def test_models_that_nobody_tuned_for(predicted, model, least):
    found = shares(predicted(model, batch_size=1))
    too_small = {
        r: found.get(r) for r, share in least.items() if found.get(r, 0) < share
    }
    assert too_small == {}
    assert found.get("other", 0.0) < 0.1


def test_parts_know_their_layer(predicted):
    parts = parts_of(predicted("distilgpt2"))
    assert {part.layer for part in parts} == {None, *range(1, 7)}
    assert all(p.layer is None for p in parts if p.role == "embeddings")


def test_what_holds_the_layers_is_not_an_embedding(predicted):
    """The host's share of a small run belongs to modules, the encoder's to none."""
    parts = {p.path: p.role for p in parts_of(predicted("bert-l2-h128", batch_size=1))}
    assert parts["encoder"] == "other"
    assert parts["embeddings.word_embeddings"] == "embeddings"
