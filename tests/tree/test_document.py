from __future__ import annotations

import json

import numpy as np
import pytest

from irene.errors import FormatError, UsageError
from irene.human import human
from irene.tree import ModelTree, load
from irene.tree.builder import TreeBuilder
from irene.tree.columns import EnergyColumns

from .test_model_tree import small_tree


def test_the_document_says_what_it_is():
    document = json.loads(small_tree().to_json())
    assert document["schema"] == "irene.tree/1"
    assert document["tree"]["op"] == "Model"
    assert document["tree"]["children"][0]["path"] == "layer.0"
    assert document["energy_j"] is None


def test_a_saved_tree_is_loaded_again(tmp_path):
    tree = small_tree().fold()
    tree.save(tmp_path / "tree.json")
    assert load(tmp_path / "tree.json") == tree
    assert [file.name for file in tmp_path.iterdir()] == ["tree.json"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "tree.json"
    small_tree().save(target)
    before = target.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        small_tree().fold().save(target)
    assert target.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["tree.json"]


def test_saving_into_a_missing_folder_is_said(tmp_path):
    with pytest.raises(UsageError, match="No such file or directory"):
        small_tree().save(tmp_path / "no" / "tree.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not an object"),
        ("{}", "schema is None"),
        ('{"schema": "irene.tree/2"}', "a newer file needs a newer irene"),
        ('{"schema": "irene.tree/1"}', "corrupt tree: KeyError: 'tree'"),
        ('{"schema": "irene.tree/1", "tree": {"path": 3}}', "corrupt tree"),
    ],
)
def test_what_is_not_a_tree_is_said_to_be_none(text, said, tmp_path):
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(FormatError, match=said) as caught:
        load(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        load(tmp_path / "nothing.json")


@pytest.mark.parametrize("cut", range(0, 2000, 97))
def test_a_truncated_tree_is_never_half_read(cut):
    text = small_tree().to_json()
    from irene.tree import ModelTree

    with pytest.raises(FormatError):
        ModelTree.from_json(text[: min(cut, len(text) - 1)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (999.96, "1.00 k"),
        (1234, "1.23 k"),
        (178_787_450_880, "178.8 G"),
        (9_999_999, "10.0 M"),
        (5e21, "5000.0 E"),
    ],
)
def test_numbers_are_readable(value, text):
    assert human(value) == text


def test_names_that_look_like_places_for_values_are_names():
    builder = TreeBuilder()
    top = builder.add(-1, "", "model", "100 % %s")
    for number in range(2):
        builder.add(top, f"%d.{number}", "ml", "%(op)s", flops=7 + number)
    tree = builder.build(notes=["50 %"])
    document = json.loads(tree.to_json())["tree"]
    assert document["op"] == "100 % %s"
    assert [each["path"] for each in document["children"]] == ["%d.0", "%d.1"]
    assert [each["flops"] for each in document["children"]] == [7, 8]
    assert ModelTree.from_json(tree.to_json()) == tree


def test_trees_of_one_structure_have_documents_of_their_own():
    tree = small_tree()
    known = np.arange(1.0, len(tree) + 1)
    source = np.zeros(len(tree), dtype=np.uint8)
    one, half = (
        tree.with_energy(EnergyColumns(j, j, j, source, "test"))
        for j in (known, np.where(known > 2, np.nan, known))
    )
    for each in (one, half, tree, one.with_features({"power_w": known})):
        assert ModelTree.from_json(each.to_json()) == each
    assert "energy_j" in json.loads(one.to_json())["tree"]["children"][1]
    assert "energy_j" not in json.loads(half.to_json())["tree"]["children"][1]
