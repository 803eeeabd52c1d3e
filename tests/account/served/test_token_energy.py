"""Energy per token and whose it was, against engines of which all is known."""

import math
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.account.served.server_counts import ServerCounts
from irene.account.served.token_energy import (
    Interval,
    TokenCosts,
    added_up,
    observed_costs,
    shared,
    split,
)

from .made_server import MadeEngine

ENERGIES = st.floats(0, 1e9)
WEIGHTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=50).filter(any)
COUNTS = st.floats(0, 1e7)
NONE = ServerCounts("made", "m", 0, 0, 0, 0, 0, 0)


@given(ENERGIES, WEIGHTS)
def test_parts_add_up_to_the_whole(energy_j, weights):
    parts = shared(energy_j, weights)
    assert math.fsum(parts) == pytest.approx(energy_j, rel=1e-9, abs=1e-12)
    assert all(part >= -1e-9 * energy_j for part in parts)
    largest = max(weights)
    assert parts[weights.index(largest)] == pytest.approx(
        energy_j * largest / math.fsum(weights), rel=1e-6, abs=1e-9
    )


@given(ENERGIES, COUNTS, COUNTS, COUNTS)
def test_no_joule_of_an_interval_is_lost(energy_j, prompt, cached, output):
    row = Interval(1.0, energy_j, prompt, cached, output, 1.0, 1.0, 0.0)
    parts = astuple(split(row, TokenCosts(0.8, 0.02, 0.3, "predicted")))
    assert math.fsum(parts) == pytest.approx(energy_j, rel=1e-9, abs=1e-12)
    idle = split(
        Interval(1.0, energy_j, 0, 0, 0, 0, 0, 0), TokenCosts(1, 1, 1, "observed")
    )
    assert idle.idle_j == energy_j


@pytest.mark.parametrize("seed", range(8))
def test_a_known_engine_is_seen_within_three_percent(seed):
    engine = MadeEngine(seed)
    looks = engine.intervals(300, 50, noise=0.02)
    seen = added_up(looks)
    true_j = engine.energy_j
    assert seen.seconds == pytest.approx(300.0)
    for found, true in (
        (seen.energy_j, true_j), (seen.power_w, true_j / 300),
        (seen.j_per_output_token, true_j / engine.output),
        (seen.j_per_token, true_j / (engine.prompt + engine.cached + engine.output)),
        (seen.j_per_request, true_j / engine.requests),
    ):  # fmt: skip
        assert found == pytest.approx(true, rel=0.03)
    costs = observed_costs(looks)
    assert costs is not None
    true_costs = TokenCosts(engine.PROMPT_J, engine.CACHED_J, engine.OUTPUT_J, "known")
    found, true = split(seen, costs), split(seen, true_costs)
    assert found.prompt_j == pytest.approx(true.prompt_j, rel=0.03)
    assert found.output_j == pytest.approx(true.output_j, abs=0.03 * seen.energy_j)
    assert found.cached_j == pytest.approx(true.cached_j, abs=0.03 * seen.energy_j)


def test_kinds_that_come_in_step_are_not_told_apart():
    rows = [
        Interval(1.0, 100.0 + n, 10.0 * n, 0.0, 20.0 * n, 1.0, 1.0, 0.0)
        for n in range(40)
    ]
    assert observed_costs(rows) is None
    assert observed_costs(rows[:3]) is None


def test_a_server_that_began_anew_counts_from_zero():
    before = ServerCounts("made", "m", 1000, 100, 500, 10, 4, 0)
    after = ServerCounts("made", "m", 30, 0, 20, 1, 2, 0)
    found = Interval.between(before, after, 2.0, 50.0)
    assert (found.prompt_tokens, found.output_tokens, found.requests) == (30, 20, 1)
    assert found.running == 3.0


def test_what_is_not_counted_is_not_known():
    silent = ServerCounts("Ollama", "m")
    found = Interval.between(silent, silent, 2.0, 50.0)
    assert found.power_w == 25.0
    assert found.to_dict()["j_per_output_token"] is None
    unmetered = Interval.between(NONE, NONE, 2.0, math.nan)
    assert unmetered.to_dict()["power_w"] is None
    assert Interval.between(NONE, NONE, 2.0, 9.0).to_dict()["j_per_request"] is None
