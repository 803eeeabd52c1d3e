"""What is predicted beside a server that runs."""

import math

import pytest

import irene
from irene.account.served.token_energy import Interval, split
from irene.analyse.served import Expecting, verdict
from irene.errors import UsageError
from irene.spec import RunSpec
from irene.tree.generation import generation_of

RUN = RunSpec("llama-3.1-8b", phase="generate")
SEEN = Interval(60.0, 18_000.0, 40_000.0, 0.0, 24_000.0, 80.0, 8.2, 0.0)
"""500 in and 300 out for each of 80 requests, eight at a time."""


def test_the_prediction_is_that_of_predict():
    found = Expecting(RUN, "h100", "vLLM").expected(SEEN)
    alone = generation_of(
        irene.predict(
            "llama-3.1-8b", on="h100", batch_size=8, prompt_len=500, output_len=300,
            engine="vllm",
        )
    )  # fmt: skip
    assert found.j_per_output_token == alone.j_per_output_token
    assert found.run == {"batch_size": 8, "prompt_len": 500, "output_len": 300}
    costs = found.costs
    assert costs.prompt_j * 500 == pytest.approx(alone.prefill_j_per_request)
    assert costs.output_j * 300 == pytest.approx(alone.decode_j_per_request)
    assert 0 < costs.prompt_j < costs.output_j
    parts = split(SEEN, costs)
    assert parts.prompt_j + parts.output_j == pytest.approx(SEEN.energy_j, rel=1e-9)


def test_a_cached_token_costs_less_than_a_computed_one():
    cached = Interval(60.0, 18_000.0, 20_000.0, 60_000.0, 24_000.0, 80.0, 8.0, 0.0)
    found = Expecting(RUN, "h100", "vLLM").expected(cached)
    assert found.run["cached_prompt"] == pytest.approx(0.75)
    assert 0 <= found.costs.cached_j < 0.5 * found.costs.prompt_j
    again = Interval(60.0, 18_000.0, 80.0, 80_000.0, 24_000.0, 80.0, 8.0, 0.0)
    nearly = Expecting(RUN, "h100", "vLLM").expected(again)
    assert nearly.run["cached_prompt"] < 1  # the last token is always computed


def test_words_say_how_far_and_why():
    found = Expecting(RUN, "h100", "vLLM").expected(SEEN)
    token_j = found.j_per_output_token.value

    def told(factor: float, **changed: float) -> str:
        values = {name: getattr(SEEN, name) for name in Interval.__slots__}
        values |= {"energy_j": factor * token_j * SEEN.output_tokens, **changed}
        return verdict(Interval(**values), found)

    above = told(1.38)
    assert above.startswith("38 % above what is predicted: streams too few, 32 at a")
    assert told(1.0).startswith("as predicted (+0 %): streams too few")
    assert told(0.5).startswith("50 % below what is predicted; 32 at a time would")
    assert told(1.38, waiting=3.0) == "38 % above what is predicted"
    assert told(0.5, waiting=1.0) == "50 % below what is predicted"
    assert "the server waits, 0.3 requests" in told(2.0, running=0.3)
    assert told(1.0, output_tokens=0.0) == "no tokens yet"


def test_lengths_that_are_not_counted_can_be_given():
    uncounted = Interval(60.0, 9e3, 4e4, 0.0, 24e3, math.nan, 8.0, 0.0)
    assert Expecting(RUN, "h100", "llama.cpp").expected(uncounted) is None
    given = RunSpec("llama-3.1-8b", prompt_len=500, output_len=300)
    assert Expecting(given, "h100", "vLLM").expected(uncounted).run["output_len"] == 300


def test_machines_that_serve_nothing_are_refused():
    with pytest.raises(UsageError, match="serves no language models"):
        Expecting(RUN, "pc1", "vLLM")
