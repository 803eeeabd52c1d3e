"""A run knows what was given, and is resolved once for a machine."""

from __future__ import annotations

import inspect
import pydoc
import re
import typing
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import irene
from irene.errors import SpecError, UsageError
from irene.parameters import parameters_of
from irene.predict.machines.finding import find_machine
from irene.spec import RunOptions, RunSpec

OPTIONS = {
    each.name: st.sampled_from(each.choices)
    if each.choices
    else st.integers(1, 1000)
    if each.kind is int
    else st.just("BertModel")
    for each in parameters_of(RunSpec)
    if each.name != "model"
}


def test_keyword_arguments_are_the_fields_of_a_run() -> None:
    fields = {each.name for each in parameters_of(RunSpec)} - {"model"}
    assert set(RunOptions.__annotations__) == fields
    assert set(inspect.signature(irene.predict).parameters) >= fields
    assert set(inspect.signature(irene.trace).parameters) >= fields
    assert set(inspect.signature(irene.cost).parameters) >= fields


def test_what_was_given_is_told_from_what_was_chosen() -> None:
    spec = RunSpec("gpt2", batch_size=8, dtype="fp32")
    assert spec.given("batch_size")
    assert spec.given("dtype")
    assert not spec.given("seq_len")
    assert spec == RunSpec("gpt2")
    assert spec.digest == RunSpec("gpt2").digest
    assert RunSpec.from_dict(spec.to_dict()).chosen == spec.chosen


@pytest.mark.parametrize(
    ("on", "dtype", "attention"), [("pc1", "fp32", "eager"), ("b200", "bf16", "sdpa")]
)
def test_a_machine_chooses_what_was_left_open_alone(on, dtype, attention) -> None:
    machine = find_machine(on)
    resolved = RunSpec("gpt2").resolved(machine)
    assert (resolved.dtype, resolved.attention) == (dtype, attention)
    assert {"dtype", "attention"} <= set(resolved.chosen)
    told = RunSpec("gpt2", dtype="fp16", attention="eager").resolved(machine)
    assert (told.dtype, told.attention) == ("fp16", "eager")


@given(st.fixed_dictionaries({}, optional=OPTIONS))
def test_no_value_that_was_given_is_ever_replaced(options) -> None:
    try:
        spec = RunSpec.asked("gpt2", options).resolved(find_machine("h100"))
    except SpecError:
        return
    for name, value in options.items():
        if name == "seq_len" and spec.phase == "generate":
            continue  # the prompt says the same
        assert getattr(spec, name) == value
        assert spec.given(name)
    assert RunSpec.from_dict(spec.to_dict()) == spec


def test_a_change_counts_as_given_and_what_followed_is_found_anew() -> None:
    spec = RunSpec("gpt2", phase="decode", seq_len=64)
    assert spec.context_len == 64
    assert spec.changed(seq_len=32).context_len == 32
    assert spec.changed(context_len=7).given("context_len")
    assert spec.changed(dtype="bf16").given("dtype")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch": 8}, "no option 'batch'; did you mean batch_size?"),
        ({"sequence_length": 8}, "no option 'sequence_length'; did you mean seq_len?"),
        ({"hardware": "pc1"}, "no option 'hardware'; did you mean on?"),
        ({"precision": "bf16"}, "no option 'precision'; did you mean dtype?"),
        ({"attn": "sdpa"}, "no option 'attn'; did you mean attention?"),
        ({"colour": 1}, "no option 'colour'; there are batch_size, seq_len"),
        ({"batch_size": "many"}, "batch_size must be a whole number, got 'many'"),
        ({"dtype": "fp8"}, "got 'fp8', which is for quantization or cache_dtype"),
        ({"context_len": 5}, "needs a KV cache"),
    ],
)
def test_wrong_names_and_values_are_told_with_the_right_ones(options, said) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        irene.predict("gpt2", **options)


def test_a_question_tells_its_own_names_too() -> None:
    with pytest.raises(UsageError, match=r"'price'; did you mean price_per_kwh\?"):
        irene.cost("gpt2", price=0.3)
    with pytest.raises(UsageError, match=r"'machine'; did you mean on\?"):
        irene.report("gpt2", machine="h100")


def test_servings_are_refused_where_nothing_is_served() -> None:
    for options in ({"prompt_len": 8}, {"quantization": "fp8"}, {"phase": "generate"}):
        with pytest.raises(UsageError, match=r"data-centre GPUs .* not for pc1"):
            irene.predict("gpt2", **options)


def test_an_encoder_asked_to_generate_says_what_to_ask_instead() -> None:
    with pytest.raises(UsageError, match=r"phase generate .* 'bert' .* phase forward"):
        irene.predict("bert-base-uncased", on="h100", prompt_len=8)
    with pytest.raises(UsageError, match=r"not for pc1: ask for phase forward"):
        irene.predict("bert-base-uncased", on="pc1", phase="generate")


def test_who_asks_for_an_engine_without_a_serving_is_told_which_phases_have_one() -> (
    None
):
    with pytest.raises(UsageError, match="ask for phase prefill, decode or generate"):
        irene.predict("gpt2", on="h100", engine="vllm")


def test_engines_fuse_attention_and_say_so() -> None:
    tree = irene.predict("gpt2", on="h100", phase="decode")
    assert tree.spec.attention == "sdpa"
    with pytest.raises(UsageError, match=r"fuse attention|no serving"):
        irene.predict("gpt2", on="h100", prompt_len=8, attention="eager")
    traced = irene.predict("gpt2", on="h100", phase="decode", attention="eager")
    assert traced.spec.attention == "eager"


def test_a_length_that_nobody_gave_is_cut_to_the_positions_there_are() -> None:
    tree = irene.trace("clip-vit-base-patch32")
    assert tree.spec.seq_len == 77
    assert not tree.spec.given("seq_len")
    with pytest.raises(SpecError, match="at most 77 positions"):
        irene.trace("clip-vit-base-patch32", seq_len=128)


def test_a_length_that_means_nothing_is_told() -> None:
    tree = irene.trace("vit-tiny-patch16-224", seq_len=64)
    assert any("seq_len means nothing" in note for note in tree.notes)
    assert not irene.trace("vit-tiny-patch16-224").notes
    for read in (irene.trace, irene.predict):  # traced, and from a template
        tree = read("bert-l2-h128", seq_len=8, decoder_len=4)
        assert any("decoder_len means nothing" in note for note in tree.notes)


def test_a_module_of_one_s_own_is_predicted_with_its_inputs() -> None:
    module, inputs = torch.nn.Linear(8, 8), torch.zeros(4, 8)
    tree = irene.predict(module, inputs)
    assert tree.spec.batch_size == 4
    assert tree.total().energy_j > 0
    with pytest.raises(SpecError, match="dtype=bf16 was given, but this Linear has"):
        irene.predict(module, inputs, dtype="bf16")
    with pytest.raises(UsageError, match="write on='pc1'"):
        irene.predict(module, "pc1")
    with pytest.raises(UsageError, match=r"a model is a name, .* got int"):
        irene.predict(3)


def _help_of(name: str) -> str:
    return pydoc.plain(pydoc.render_doc(getattr(irene, name)))


def test_the_front_door_holds_functions_with_help() -> None:
    import irene.predict.api
    import irene.trace.tracer

    program = Path(__file__).parents[1] / "house" / "users_program.py"
    for name in irene.__all__:
        assert name in dir(irene)
        assert f"irene.{name}" in program.read_text(), "mypy does not see it"
        assert getattr(irene, name).__doc__, name
        if inspect.ismethod(getattr(irene, name)):  # a question
            shown = inspect.signature(getattr(irene, name)).parameters
            own = set(shown) - set(RunOptions.__annotations__)
            assert own <= set(re.findall(r"^ +\**(\w+): ", _help_of(name), re.M)), name
    assert inspect.isfunction(irene.predict)
    assert typing.get_type_hints(RunOptions)
    assert irene.analyse.compare is not None
