"""Serving engines: what the host adds, and an interval where nobody says which."""

from __future__ import annotations

import pytest

from irene import predict
from irene.errors import IreneError
from irene.predict.machines.gpu.engines import engines, engines_of
from irene.tree import ModelTree
from irene.tree.generation import generation_of

RUN = {"batch_size": 64, "prompt_len": 100, "output_len": 300, "on": "h100"}


def served(engine: str | None, **run: object) -> ModelTree:
    return predict("llama-3.2-1b", engine=engine, **{**RUN, **run})  # type: ignore[arg-type]


def test_the_engine_is_always_said() -> None:
    for engine, words in ((None, "vLLM 0.11"), ("vllm-2024", "2024")):
        notes = [note for note in served(engine).notes if note.startswith("engine: ")]
        assert len(notes) == 1
        assert words in notes[0]
    assert all(
        each.description in " ".join(served("unknown").notes)
        for each in engines().values()
    )


def test_an_older_engine_takes_longer_and_more() -> None:
    today, older = served(None), served("vllm-2024")
    shared = served("vllm-2024", tensor_parallel=2)
    found = [generation_of(tree) for tree in (today, older, shared)]
    now, then, both = (each for each in found if each is not None)
    assert then.tbt_s.value - now.tbt_s.value == pytest.approx(
        sum(engines()["vllm-2024"].waits(64.0, 16.0, 1.0)[:1]), rel=0.02
    )
    assert then.j_per_request.value > 1.2 * now.j_per_request.value
    assert both.tbt_s.value > then.tbt_s.value
    assert 129 < then.j_per_second.value < now.j_per_second.value


def test_an_unknown_engine_has_an_interval_that_holds_all() -> None:
    said = served("unknown").energy_of(0)
    assert said is not None
    for name in engines():
        one = served(name).energy_of(0)
        assert one is not None
        assert said.low <= one.low
        assert one.high <= said.high


def test_the_time_of_a_step_is_kept_whatever_the_engine() -> None:
    for engine in ("vllm", "vllm-2024", "unknown"):
        found = generation_of(served(engine, step_ms=50.0))
        assert found is not None
        assert found.tbt_s.value == pytest.approx(0.05, rel=0.01)


def test_unknown_names_and_other_machines_are_refused() -> None:
    assert len(engines_of("unknown")) == len(engines())
    with pytest.raises(IreneError, match="vllm-2024"):
        engines_of("tgi")
    with pytest.raises(IreneError, match="engine"):
        predict("bert-base-uncased", engine="vllm", on="pc1")
