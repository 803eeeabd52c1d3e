from __future__ import annotations

import re
from pathlib import Path

import pytest

from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.models import build, resolve
from irene.trace.serving import read_decoder

NAMES = list(catalogue.entries())
PAPER = (
    "bert-base-uncased",
    "roberta-base",
    "distilbert-base-uncased",
    "gpt2",
    "distilgpt2",
    "openai-gpt",
)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_the_published_ones(name):
    entry = catalogue.entries()[name]
    resolved = resolve(name, DEFAULT_LIMITS, entry.params_class)
    model = build(resolved, RunSpec(name))
    built = sum(p.numel() for p in model.parameters()) + entry.params_not_built
    assert built == pytest.approx(entry.params, rel=0.005)


@pytest.mark.parametrize("name", NAMES)
def test_entries_say_where_they_come_from(name):
    entry = catalogue.entries()[name]
    assert entry.source.startswith("https://")
    assert len(entry.params_source) > 5
    assert "TODO" not in entry.params_source
    assert re.fullmatch(r"[a-z0-9.+-]+", entry.name)
    assert (Path(catalogue.__file__).parent / f"{name}.json").is_file()
    assert entry.active_params is None or entry.active_params < entry.params


def test_the_models_of_the_paper_are_base_models():
    assert all(catalogue.entries()[name].auto_class == "AutoModel" for name in PAPER)


def test_the_24_miniatures_are_there_and_alike():
    names = [
        f"bert-l{layers}-h{hidden}"
        for layers in (2, 4, 6, 8, 10, 12)
        for hidden in (128, 256, 512, 768)
    ]
    assert {catalogue.entries()[name].auto_class for name in names} == {"AutoModel"}


def test_names_aliases_and_hub_ids_lead_to_the_same_entry():
    for name in ("llama-3.1-8b", "meta-llama/Llama-3.1-8B", "LLAMA-3.1-8B"):
        assert catalogue.find(name).name == "llama-3.1-8b"
    assert catalogue.find("bert-tiny").name == "bert-l2-h128"
    assert catalogue.find("no-such-model") is None


def test_a_model_published_in_fp8_is_found_by_that_name():
    blocks = catalogue.find("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8")
    assert blocks.params == catalogue.find("qwen3-235b-a22b").params
    assert blocks.config["quantization_config"]["weight_block_size"] == [128, 128]
    plain = catalogue.find("meta-llama/Llama-3.1-405B-Instruct-FP8")
    assert "weight_block_size" not in plain.config["quantization_config"]
    assert catalogue.find("deepseek-ai/DeepSeek-R1-0528").name == "deepseek-v3"


@pytest.mark.parametrize(
    ("name", "plain", "kind"),
    [
        ("Qwen/Qwen3-14B-AWQ", "qwen3-14b", "int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen2.5-7b", "fp8"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "llama-3.1-70b", "fp8"),
        ("nvidia/DeepSeek-R1-0528-NVFP4", "deepseek-v3", "fp4"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct-FP8", "qwen3-next-80b-a3b", "fp8_block"),
        ("zai-org/GLM-4.5-Air-FP8", "glm-4.5-air", "fp8"),
        ("RedHatAI/Qwen3-8B-quantized.w4a16", "qwen3-8b", "int4"),
        ("unsloth/Llama-3.3-70B-Instruct-bnb-4bit", "llama-3.3-70b", "int4"),
    ],
)
def test_quantised_models_are_found_whoever_publishes_them(name, plain, kind):
    found = catalogue.find(name)
    assert found.params == catalogue.entries()[plain].params
    assert read_decoder(found.config).weight_type == kind
    assert catalogue.find("no-such-model-AWQ") is None
    assert catalogue.find("bert-base-uncased-FP8") is None


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout-17b-16e"),
        ("ibm-granite/granite-4.0-h-small-base", "granite-4.0-h-small"),
        ("qwen3-4b-thinking-2507", "qwen3-4b"),
        ("deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct", "deepseek-v2-lite"),
        ("01-ai/Yi-1.5-34B-Chat", "yi-34b"),
    ],
)
def test_models_tuned_from_one_have_its_shapes(name, plain):
    assert catalogue.find(name).name == plain
    assert catalogue.find("resnet-50-chat") is None  # no decoder


def test_what_is_stored_otherwise_is_read_so():
    names = ("minimax-m2", "kimi-k2-thinking", "kimi-k2")
    read = [read_decoder(catalogue.find(name).config) for name in names]
    assert [each.weight_type for each in read] == ["fp8_block", "int4", "fp8_block"]
    assert [each.quantizes_all for each in read] == [True, False, True]


def test_no_two_models_answer_to_one_hub_id():
    ids = [entry.hub_id.lower() for entry in catalogue.entries().values()]
    aliases = [a.lower() for e in catalogue.entries().values() for a in e.aliases]
    assert len({*ids}) == len(ids)
    assert len({*aliases}) == len(aliases)


def test_search_wants_every_word():
    names = [entry.name for entry in catalogue.search("llama 70b")]
    assert "llama-3.1-70b" in names
    assert all("70b" in name for name in names)
    assert len(catalogue.search("")) == len(NAMES)


def test_a_misspelt_name_has_neighbours():
    assert "bert-base-uncased" in catalogue.nearest("bert-base-uncasd")
    assert catalogue.nearest("zzzzqqqq") == []
    assert catalogue.nearest("llama3")[:3] == [
        "llama-3-8b",
        "llama-3-70b",
        "llama-3.1-8b",
    ]
