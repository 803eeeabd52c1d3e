from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.energy import Difference, Energy, SharedError, difference
from irene.errors import FormatError, SpecError
from irene.hardware import Hardware
from irene.saved import read_values
from irene.spec import RunSpec


def test_spec_survives_a_round_trip():
    spec = RunSpec("gpt2", 4, 256, context_len=7, phase="prefill", dtype="bf16")
    assert RunSpec.from_dict(spec.to_dict()) == spec


def test_specs_have_the_same_digest_only_when_equal():
    spec = RunSpec("gpt2", batch_size=4)
    assert spec.digest == RunSpec("gpt2", batch_size=4).digest
    others = [
        RunSpec("gpt2", batch_size=5),
        RunSpec("gpt2", batch_size=4, dtype="fp16"),
        RunSpec("gpt2", batch_size=4, config_digest="0123"),
        RunSpec("gpt2", batch_size=4, phase="prefill"),
    ]
    assert len({spec.digest, *(other.digest for other in others)}) == 5


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": -3}, "batch_size must be at least 1, got -3"),
        ({"seq_len": 0}, "seq_len must be at least 1"),
        ({"seq_len": 1.5}, "seq_len must be a whole number"),
        ({"batch_size": True}, "batch_size must be a whole number"),
        ({"decoder_len": 0}, "decoder_len must be at least 1"),
        ({"dtype": "int3"}, "dtype must be one of fp32, fp16, bf16"),
        ({"attention": "magic"}, "attention must be one of eager, sdpa"),
        ({"phase": "sleep"}, "phase must be one of forward"),
        ({"context_len": 3}, "needs a KV cache"),
        ({"context_len": -1, "phase": "decode"}, "context_len must be at least 0"),
    ],
)
def test_impossible_specs_are_refused_with_the_value(fields, said):
    with pytest.raises(SpecError, match=said):
        RunSpec("gpt2", **fields)


def test_decode_reads_one_token_against_its_sequence():
    spec = RunSpec("gpt2", batch_size=3, seq_len=100, phase="decode")
    assert (spec.context_len, spec.tokens) == (100, 3)
    assert RunSpec("gpt2", batch_size=3, seq_len=100).tokens == 300


def test_foreign_fields_are_a_format_error():
    with pytest.raises(FormatError, match="not a run spec"):
        RunSpec.from_dict({"model": "gpt2", "colour": "red"})
    with pytest.raises(FormatError, match="not a hardware description"):
        Hardware.from_dict({"nam": "pc1"})


def test_hardware_survives_a_round_trip():
    hardware = Hardware("pc1", "wall", "GTX 1080 Ti", "pc1/1")
    assert Hardware.from_dict(hardware.to_dict()) == hardware


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e6))
def test_scaled_energy_keeps_its_interval(low, width, above, factor):
    energy = Energy(low + width, low, low + width + above, "measured", "a meter")
    scaled = energy.scaled(factor)
    assert scaled.low <= scaled.joules <= scaled.high
    assert math.isclose(scaled.joules, energy.joules * factor)
    assert scaled.source == "measured"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((2.0, 3.0, 4.0, "measured"), "outside its own interval"),
        ((2.0, 1.0, 1.5, "measured"), "outside its own interval"),
        ((math.nan, 1.0, 2.0, "measured"), "finite"),
        ((math.inf, 1.0, math.inf, "measured"), "finite"),
        ((1.0, 1.0, 1.0, "guessed"), "not one of measured, predicted, estimated"),
    ],
)
def test_energy_that_says_nothing_is_refused(values, said):
    with pytest.raises(ValueError, match=said):
        Energy(*values, "a meter")


def test_negative_scaling_is_refused():
    with pytest.raises(ValueError, match="negative"):
        Energy(1.0, 1.0, 1.0, "measured", "a meter").scaled(-1)


def test_fields_that_joined_later_leave_old_hashes_as_they_were() -> None:
    assert RunSpec("bert-base-uncased", batch_size=1).digest == "e5045d50d91e1e50"
    decode = RunSpec("gpt2", 8, 64, phase="decode", dtype="bf16")
    assert decode.digest == "20e3e94aac887170"
    assert "tensor_parallel" not in decode.to_dict()


def test_a_generation_fills_in_its_lengths_and_has_a_hash_of_its_own() -> None:
    spec = RunSpec("m", 4, phase="generate", prompt_len=700, output_len=300)
    assert (spec.seq_len, spec.tokens) == (700, 4 * 300)
    assert RunSpec.from_dict(spec.to_dict()) == spec
    assert RunSpec("m", 4, 700, phase="generate", output_len=300) == spec
    assert replace(spec, tensor_parallel=2).digest != spec.digest
    for wrong in (
        {"prompt_len": 0, "phase": "generate"},
        {"output_len": 5, "phase": "forward"},
        {"quantization": "fp3"},
        {"cache_dtype": "int1"},
        {"tensor_parallel": 0},
    ):
        with pytest.raises(SpecError):
            RunSpec("m", **wrong)


def told(joules: float, width: float, *errors: SharedError) -> Energy:
    low, high = joules * math.exp(-width), joules * math.exp(width)
    return Energy(joules, low, high, "predicted", "a predictor", errors)


def test_what_two_energies_share_cancels():
    """Half-widths by hand: 0.1 shared, 0.1 at a distance, the rest of 0.2 alone."""
    near, far = {"batch": 0.06}, {"batch": 0.08, "model x": 0.01}
    one = told(10.0, 0.2, SharedError("rates", 0.1), SharedError("sizes", 0.1, near))
    two = told(5.0, 0.2, SharedError("rates", 0.1), SharedError("sizes", 0.1, far))
    found = difference(one, two)
    alike = math.exp(-0.03 / (2 * 0.1**2))
    half = math.sqrt(2 * 0.1**2 * (1 - alike) + 2 * (0.2**2 - 2 * 0.1**2))
    assert found.joules == -5.0
    assert found.ratio == 0.5
    assert found.ratio_high == pytest.approx(0.5 * math.exp(half))
    assert found.ratio_low == pytest.approx(0.5 * math.exp(-half))
    # In J the same, each width beside its own energy.
    own, widening = 0.2**2 - 2 * 0.1**2, math.sinh(0.2) / 0.2
    square = (10**2 + 5**2) * (0.1**2 + own) + 0.1**2 * (10 - 5) ** 2
    square -= 2 * alike * 10 * 5 * 0.1**2
    assert found.half_j == pytest.approx(widening * math.sqrt(square))
    assert found.is_real


def test_an_error_that_one_energy_has_stays():
    one = told(1.0, 0.5, SharedError("rates", 0.3), SharedError("beyond", 0.4))
    two = told(2.0, 0.3, SharedError("rates", 0.3))
    for pair in ((one, two), (two, one)):
        found = difference(*pair)
        assert math.log(found.ratio_high / found.ratio) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("joules", "half_j", "low", "high", "is_real"),
    [
        (1.0, 0.5, 1.1, 1.5, True),
        (-1.0, 0.5, 0.5, 0.9, True),
        (1.0, 1.5, 1.1, 1.5, False),
        (1.0, 0.5, 0.9, 1.5, False),
        (1.0, 0.5, 1.0, 1.5, False),
    ],
)
def test_a_difference_is_real_where_both_intervals_say_so(
    joules, half_j, low, high, is_real
):
    assert Difference(joules, half_j, 1.2, low, high).is_real == is_real


@given(st.floats(0.05, 1.0), st.floats(0.05, 1.0), st.floats(0.0, 0.001))
def test_near_places_differ_by_their_distance_however_wide_they_are(one, two, square):
    here = told(1.0, one, SharedError("sizes", one))
    there = told(2.0, two, SharedError("sizes", two, {"batch": square}))
    half = math.log(difference(here, there).ratio_high / 2)
    assert half**2 == pytest.approx((one - two) ** 2 + square, rel=0.2, abs=1e-9)


def test_energies_without_shared_errors_have_their_own():
    found = difference(told(10.0, 0.1), told(10.5, 0.1))
    assert found.half_j == pytest.approx(math.hypot(10, 10.5) * math.sinh(0.1))
    assert not found.is_real
    assert difference(Energy(0, 0, 0, "measured", ""), told(1, 0.1)).ratio is None


WIDTH = st.floats(0.001, 1.0)


@given(WIDTH, WIDTH, WIDTH, st.floats(0.1, 10.0), st.floats(0.0, 5.0))
def test_differences_keep_their_promises(shared, own, other, factor, far):
    one = told(1.0, math.hypot(shared, own), SharedError("a", shared, {"x": 0.0}))
    two = told(factor, math.hypot(shared, other), SharedError("a", shared, {"x": far}))
    assert difference(one, one) == Difference(0.0, 0.0, 1.0, 1.0, 1.0)
    there, back = difference(one, two), difference(two, one)
    assert there.half_j == pytest.approx(back.half_j)
    assert there.ratio_low == pytest.approx(1 / back.ratio_high)
    # never wider than two that share nothing, never narrower for being farther apart
    square_sum = math.hypot(shared, own, shared, other)
    half = math.log(there.ratio_high / there.ratio)
    assert half <= square_sum + 1e-9
    near = replace(two, errors=(SharedError("a", shared, {"x": far / 2}),))
    closer = difference(one, near)
    assert closer.ratio_high <= there.ratio_high * (1 + 1e-9)


def test_energies_survive_a_round_trip():
    energy = told(2.0, 0.1, SharedError("sizes", 0.05, {"batch": 3.0}))
    assert read_values(Energy, json.loads(json.dumps(asdict(energy)))) == energy
