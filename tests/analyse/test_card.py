"""Cards: what they say can be read again, and measured is never called predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData

from irene.analyse.card import card_of
from irene.analyse.costs import CostTerms
from irene.cli import build_parser, main
from irene.errors import UsageError
from irene.predict.api import predict
from irene.show.cards import card_label, card_regulation, card_yaml
from irene.tree import ModelTree

TERMS = CostTerms(region="FR", pue=1.5)


@pytest.fixture(scope="module")
def tree() -> ModelTree:
    return predict("llama-3.2-1b", on="h100", phase="decode", batch_size=4)


def test_the_metadata_is_that_of_a_hugging_face_card(tree: ModelTree) -> None:
    card = card_of(tree, TERMS)
    read = ModelCard(f"{card_yaml(card)}\n# A model\n").data.to_dict()
    assert read == ModelCardData(**card.metadata()).to_dict()
    told = read["co2_eq_emissions"]
    grams = card.per_sequence.joules / 3.6e6 * 1e6 * TERMS.place.gco2e_per_kwh * 1.5
    assert told["emissions"] == pytest.approx(grams, rel=1e-5)
    assert "predicted" in told["source"]
    assert "H100" in told["hardware_used"]
    assert "France" in told["geographical_location"]


def test_the_command_gives_the_same_energy_again(tree: ModelTree) -> None:
    card = card_of(tree)
    _, name, *words = card.command.split()
    options = build_parser(name).parse_args(words)
    again = predict(
        options.model, on=options.on, phase=options.phase, batch_size=options.batch_size
    )
    assert card_of(again).energy == card.energy


def test_what_was_measured_says_so(tree: ModelTree) -> None:
    document = tree.fold().to_json().replace('"predicted"', '"measured"')
    measured = card_of(ModelTree.from_json(document))
    forms = [card_yaml(measured), card_label(measured), card_regulation(measured)]
    for form in forms[:2]:
        assert "measured" in form
        assert "predicted" not in form.replace("predicted for", "")
    assert "consumption, measured" in forms[2]
    assert "consumption, estimated" in card_regulation(card_of(tree))


def test_the_label_is_an_svg_with_everything(tree: ModelTree) -> None:
    card = card_of(tree, date="2026-01-02")
    root = ElementTree.fromstring(card_label(card))
    text = " ".join(root.itertext())
    for part in ("per token", "per sequence", "2026-01-02", "irene predict", "H100"):
        assert part in text


def test_a_long_command_is_on_the_label_to_its_end(tree: ModelTree) -> None:
    card = replace(card_of(tree), command=f"irene predict {'a b' * 99} --on 'my pc'")
    root = ElementTree.fromstring(card_label(card))
    rows = [text for text in root.itertext() if text.strip()]
    assert card.command in " ".join(rows)
    assert max(map(len, rows)) <= 82


def test_a_tree_without_energy_has_no_card(tree: ModelTree) -> None:
    from irene.trace.serving.tree import serving_tree

    with pytest.raises(UsageError, match="predict it first"):
        card_of(serving_tree("llama-3.2-1b", phase="decode"))


def test_the_front_matter_is_yaml(tree: ModelTree) -> None:
    parts = card_yaml(card_of(tree)).split("---\n")
    assert list(yaml.safe_load(parts[1])) == ["co2_eq_emissions"]


@pytest.mark.parametrize(
    ("run", "units"),
    [
        ({"prompt_len": 75, "output_len": 50}, ("output token", "request")),
        ({"phase": "decode"}, ("token", "sequence")),
    ],
)
def test_energies_are_of_what_the_run_has(run: Any, units: tuple[str, ...]) -> None:
    card = card_of(predict("llama-3.2-1b", on="h100", batch_size=4, **run))
    for form in (card_label(card), card_regulation(card)):
        for unit in units:
            assert f") per {unit}" in form


def test_images_have_no_tokens() -> None:
    told = card_regulation(card_of(predict("vit-base-patch16-224", on="pc1")))
    assert ") per input" in told
    assert "token" not in told


def test_a_file_that_is_a_picture_is_a_label(tmp_path: Path) -> None:
    label = tmp_path / "energy.svg"
    assert main(["card", "bert-base-uncased", "-b", "8", "--out", str(label)]) == 0
    assert ElementTree.parse(label).getroot().tag.endswith("svg")
