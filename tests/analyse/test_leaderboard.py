"""All models in order, what cannot run left out, and what was asked kept."""

from __future__ import annotations

import json

import pytest

from irene.analyse import energy_cache, leaderboard
from irene.analyse.energy_cache import EnergyCache, default_cache
from irene.analyse.leaderboard import choose_entries, rank_models
from irene.errors import UsageError
from irene.predict.machines.memory_fit import MemoryFit
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.templates import keeping

SIZES = RunSpec(batch_size=2, seq_len=32)


def entries(*names):
    return [catalogue.find(name) for name in names]


def test_the_cheapest_comes_first():
    found = rank_models(entries("bert-l4-h256", "bert-l2-h128", "resnet-18"), SIZES)
    assert [each.model for each in found.models[:2]] == ["bert-l2-h128", "bert-l4-h256"]
    bert = found.models[0]
    assert bert.per_sequence_j == pytest.approx(bert.energy.joules / 2)
    assert bert.per_token_j == pytest.approx(bert.energy.joules / 64)
    image = next(each for each in found.models if each.model == "resnet-18")
    assert image.per_token_j is None
    assert (bert.accuracy, image.accuracy) == (83.2, None)  # of BERT-Tiny on SST-2
    document = json.loads(json.dumps(found.to_dict()))
    assert document["schema"] == "irene.leaderboard/1"
    assert [row["place"] for row in document["models"]] == [1, 2, 3]


def test_what_cannot_run_is_left_out_with_the_reason():
    found = rank_models(entries("bert-l2-h128", "gpt2"), SIZES.changed(seq_len=700))
    assert [each.model for each in found.models] == ["gpt2"]
    (left_out,) = found.left_out
    assert left_out.model == "bert-l2-h128"
    assert "at most 512 positions" in left_out.problem
    with pytest.raises(UsageError, match=r"none of the models can run: .*512"):
        rank_models(entries("bert-l2-h128"), SIZES.changed(seq_len=700))


def test_what_does_not_fit_is_left_out_unless_asked_for():
    run = RunSpec(batch_size=64, prompt_len=750, output_len=500, phase="generate")
    some = entries("llama-3.1-8b", "llama-3-70b")
    found = rank_models(some, run, "h100")
    assert [each.model for each in found.models] == ["llama-3.1-8b"]
    (left_out,) = found.left_out
    assert "do not fit into 1 × 80 GB" in left_out.problem
    assert "--tensor-parallel 4" in left_out.problem
    both = rank_models(some, run, "h100", with_unfit=True)
    assert [each.model for each in both.models] == ["llama-3.1-8b", "llama-3-70b"]
    assert [each.fits for each in both.models] == [True, False]


def test_whether_a_model_fits_is_not_read_off_the_words_of_its_notes(monkeypatch):
    run = RunSpec(batch_size=64, prompt_len=750, output_len=500, phase="generate")
    monkeypatch.setattr(MemoryFit, "notes", lambda self: ["other words"])
    found = rank_models(entries("llama-3.1-8b", "llama-3-70b"), run, "h100")
    assert [each.model for each in found.models] == ["llama-3.1-8b"]


def test_what_was_predicted_is_not_predicted_again(tmp_path, monkeypatch):
    cache = EnergyCache(tmp_path / "kept")
    some = entries("bert-l2-h128", "bert-l2-h256")
    first = rank_models(some, SIZES, cache=cache)

    def fail(*args, **options):
        raise AssertionError("asked again")

    monkeypatch.setattr(leaderboard, "predict_run", fail)
    assert rank_models(some, SIZES, cache=cache) == first
    with pytest.raises(AssertionError, match="asked again"):
        rank_models(some, SIZES.changed(batch_size=3), cache=cache)


def test_another_process_gives_the_same(monkeypatch):
    some = entries("bert-l2-h128")
    monkeypatch.setattr(leaderboard, "WORTH_PROCESSES", 0)
    assert rank_models(some, SIZES, jobs=2) == rank_models(some, SIZES)


def test_a_damaged_or_closed_cache_is_no_reason_to_stop(tmp_path):
    cache = EnergyCache(tmp_path)
    key = cache.key("a")
    cache.put(key, {"a": 1})
    assert cache.get(key) == {"a": 1}
    (tmp_path / key[:2] / f"{key}.json").write_text("{")
    assert cache.get(key) is None
    blocked = tmp_path / "file"
    blocked.write_text("")
    closed = EnergyCache(blocked / "below")
    closed.put(key, {"a": 1})
    assert closed.get(key) is None
    assert EnergyCache(None).get(key) is None


def test_the_cache_is_in_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache().folder == tmp_path / "irene" / "energies"


def test_filters():
    small = choose_entries(kind="encoder", most_params=5e6)
    assert "bert-l2-h128" in [entry.name for entry in small]
    assert all(entry.params <= 5e6 and entry.kind == "encoder" for entry in small)
    assert {entry.family for entry in choose_entries(family="gpt2")} == {"gpt2"}
    assert all("qwen" in e.family for e in choose_entries("qwen", least_params=1e9))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"family": "brt"}, "no family 'brt'; there are albert"),
        ({"kind": "encodr"}, "no kind 'encodr'; there are audio"),
        ({"words": "no such model"}, "no model passes these filters"),
        ({"most_params": 1}, "no model passes these filters"),
    ],
)
def test_wrong_filters_get_one_clear_message(chosen, said):
    with pytest.raises(UsageError, match=said):
        choose_entries(**chosen)


def test_answers_are_named_by_all_code(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping.resources, "files", lambda _: tmp_path)
    monkeypatch.setattr(energy_cache, "code_digest", keeping.code_digest.__wrapped__)
    before = energy_cache.program_identity()
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "energy.py").write_text("changed")
    assert energy_cache.program_identity() != before
