from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.energy import Energy
from irene.errors import FormatError, SpecError
from irene.hardware import Hardware
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
    assert RunSpec("bert-base-uncased").digest == "e5045d50d91e1e50"
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
