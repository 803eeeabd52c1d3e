"""Serving trees: every family, every phase, and what stays equal between them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irene.errors import ConfigError, LimitError, SpecError
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.serving import read_decoder, serving_tree
from irene.trace.serving.step import steps_of
from irene.trace.serving.writer import attended_pairs
from irene.tree import ModelTree
from tests.trace.serving.published import built

DECODERS = [
    entry
    for entry in catalogue.entries().values()
    if entry.kind == "decoder" and entry.name != "openai-gpt"
]


@pytest.mark.parametrize("entry", DECODERS, ids=lambda entry: entry.name)
def test_parameters_are_the_published_ones(entry: catalogue.Entry) -> None:
    tree = serving_tree(entry.name, phase="decode", context_len=64)
    rounded = 0.005  # some publish three digits
    assert tree.root.params == pytest.approx(entry.params, rel=rounded)


def test_active_parameters_of_a_mixture_decide_its_flops() -> None:
    entry = catalogue.find("qwen3-235b-a22b")
    assert entry is not None
    assert entry.active_params is not None
    tree = serving_tree(entry.name, batch_size=1, phase="decode", context_len=1)
    per_token = tree.total().flops / 2
    embedding = 151_936 * 4096  # looked up, not multiplied
    assert per_token == pytest.approx(entry.active_params - embedding, rel=0.02)


def test_needs_no_torch() -> None:
    code = (
        "import sys; from irene.trace.serving import serving_tree; "
        "serving_tree('gemma-2-9b', phase='generate', prompt_len=9, output_len=9); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
def test_survives_folding_and_json(phase: str) -> None:
    tree = serving_tree("gpt-oss-20b", batch_size=4, phase=phase)
    assert ModelTree.from_json(tree.to_json()) == tree
    assert tree.unfold().fold() == tree
    assert tree.unfold().total() == tree.total()


def test_generation_is_its_steps() -> None:
    sizes = {"batch_size": 32, "prompt_len": 700, "output_len": 400}
    tree = serving_tree("llama-3.1-8b", phase="generate", **sizes)
    prefill, decode = tree.root.children
    assert (prefill.name, decode.name) == ("prefill", "decode")
    assert prefill.flops + decode.flops == tree.root.flops
    one = serving_tree("llama-3.1-8b", batch_size=1, phase="prefill", seq_len=700)
    # The head runs once for a prompt; the products are those of 32 prompts.
    assert prefill.flops == pytest.approx(32 * one.total().flops, rel=1e-6)
    # Weights are read by the decoding beside which prompts are read.
    assert prefill.bytes_read / 32 < one.total().bytes_read - 2 * 7e9
    step = serving_tree(
        "llama-3.1-8b", phase="decode", batch_size=32, context_len=700 + 380
    )
    tokens = 399 / 400  # all but the first are decoded
    assert decode.flops == pytest.approx(400 * step.total().flops * tokens, rel=0.01)


def test_a_single_stream_reads_weights_for_its_prompt() -> None:
    tree = serving_tree("llama-3.1-8b", phase="generate", prompt_len=9, output_len=1)
    (prefill,) = tree.root.children
    assert prefill.bytes_read > 2 * 7e9


def test_ranks_share_layers_and_talk() -> None:
    sizes = {"batch_size": 1, "context_len": 512}
    alone = serving_tree("llama-3.1-70b", phase="decode", **sizes)
    shared = serving_tree("llama-3.1-70b", phase="decode", tensor_parallel=4, **sizes)
    reduce = shared.find("model.layers.0.mlp.all_reduce")
    assert reduce.op == "all_reduce"
    assert reduce.inputs == ((1, 8192), (4,))
    assert reduce.bytes_written == 4 * 8192 * 2
    heads = shared.find("model.layers.0.self_attn.attn").inputs[0][2]
    assert heads == 64 // 4
    assert shared.root.params == alone.root.params
    assert shared.total().flops == pytest.approx(alone.total().flops, rel=0.01)
    assert not [node for node in alone.nodes("ml") if node.op == "all_reduce"]


@given(new=st.integers(1, 60), past=st.integers(0, 60), window=st.integers(0, 80))
@settings(max_examples=60)
def test_pairs_are_those_one_would_count(new: int, past: int, window: int) -> None:
    seen = [past + i + 1 for i in range(new)]
    counted = sum(min(each, window) if window else each for each in seen)
    assert attended_pairs(new, past, window) == counted


@given(
    batch=st.integers(1, 3000),
    prompt=st.integers(1, 40_000),
    output=st.integers(1, 5000),
)
@settings(max_examples=80)
def test_all_tokens_of_a_round_are_in_its_steps(
    batch: int, prompt: int, output: int
) -> None:
    spec = RunSpec("m", batch, phase="generate", prompt_len=prompt, output_len=output)
    prefill, *decode = steps_of(spec)
    assert prefill.runs * prefill.tokens == pytest.approx(batch * prompt)
    decoded = sum(step.runs * step.tokens for step in decode)
    # Whole sequences in a step: half a sequence is rounded away at most.
    assert abs(decoded - batch * (output - 1)) <= output / 2 + 1
    assert prefill.beside < batch


def test_the_usual_mean_context_and_the_one_given() -> None:
    run = {"batch_size": 8, "phase": "generate", "prompt_len": 100, "output_len": 200}
    usual = serving_tree("gpt2", **run).find("decode.transformer.h.0.attn.attn")
    given_ = serving_tree("gpt2", context_len=150, **run)
    assert usual.inputs[1][1] == 100 + 190
    assert given_.find("decode.transformer.h.0.attn.attn").inputs[1][1] == 150


def test_a_family_nobody_listed_is_read_as_a_llama_and_says_so() -> None:
    config = dict(catalogue.entries()["llama-3.1-8b"].config, model_type="novel")
    tree = serving_tree(config, phase="decode", context_len=8)
    assert tree.root.params == 8_030_261_248
    assert any("novel is unknown" in note for note in tree.notes)


@pytest.mark.parametrize(
    "name", ["bert-base-uncased", "t5-base", "vit-base-patch16-224"]
)
def test_what_is_no_decoder_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not read as a decoder"):
        serving_tree(name, phase="decode", context_len=8)


def test_impossible_servings_are_refused() -> None:
    with pytest.raises(SpecError, match="no serving"):
        serving_tree("gpt2", phase="train")
    with pytest.raises(SpecError, match="heads"):
        serving_tree("gpt2", phase="decode", tensor_parallel=64)
    with pytest.raises(LimitError, match="1,024 positions"):
        serving_tree("gpt2", phase="generate", prompt_len=1000, output_len=500)


def test_published_quantisation_is_read() -> None:
    config = dict(catalogue.entries()["qwen3-8b"].config)
    for given_, kind in (
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "gptq"}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "fp8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
    ):
        decoder = read_decoder({**config, "quantization_config": given_})
        assert decoder.weight_type == kind
        in_eight = "bits" in given_ and given_["bits"] == 8
        assert any("in int8" in note for note in decoder.notes) == in_eight
    assert read_decoder(config).weight_type == ""


@pytest.mark.parametrize(
    ("given_", "kind", "note"),
    [
        ({"quant_method": "fbgemm_fp8"}, "fp8", ""),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL"}, "fp8", ""),
        ({"quant_method": "torchao", "quant_type": {"default": {
            "_type": "Float8DynamicActivationFloat8WeightConfig"}}}, "fp8", ""),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, "int4", ""),
        ({"quant_method": "hqq", "bits": 3}, "int4", "of 3 bits, read as int4"),
        ({"quant_method": "hqq", "bits": 6}, "fp8", "of 6 bits, read as fp8"),
        ({"quant_method": "aqlm"}, "", "by aqlm, in a way not known"),
    ],
)  # fmt: skip
def test_no_quantisation_is_passed_over_in_silence(
    given_: dict[str, object], kind: str, note: str
) -> None:
    config = dict(catalogue.entries()["qwen3-8b"].config)
    decoder = read_decoder({**config, "quantization_config": given_})
    assert decoder.weight_type == kind
    assert [note in told for told in decoder.notes] == [True] * bool(note)


def test_a_model_under_a_name_of_its_own_is_known_by_its_class() -> None:
    config = catalogue.entries()["kimi-k2"].config
    own = {
        **config, "model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]
    }  # fmt: skip
    decoder = read_decoder(own)
    assert decoder.layers == read_decoder(config).layers
    assert (decoder.weight_type, decoder.notes) == ("fp8_block", ())


def test_what_a_config_says_of_the_whole_holds_for_its_text_part() -> None:
    text = dict(catalogue.entries()["qwen3-30b-a3b"].config)
    alone = read_decoder(text)
    stored = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    seeing = read_decoder(
        {
            "model_type": "qwen3_vl_moe",
            "quantization_config": stored,
            "text_config": {**text, "model_type": "qwen3_vl_moe_text"},
        }
    )
    assert (seeing.weight_type, alone.weight_type) == ("fp8_block", "")
    assert seeing.layers == alone.layers
    (note,) = seeing.notes
    assert "part of its prompt" in note


def test_the_text_part_of_a_model_that_sees() -> None:
    text = {
        k: v
        for k, v in catalogue.entries()["gemma-3-4b-text"].config.items()
        if k != "model_type"
    }
    seeing = {"model_type": "gemma3", "text_config": text, "vision_config": {}}
    assert read_decoder(json.loads(json.dumps(seeing))).family == "gemma3_text"


def test_latent_attention_keeps_one_small_vector_per_token() -> None:
    tree = serving_tree("deepseek-v3", batch_size=4, phase="decode", context_len=1000)
    attention = tree.find("model.layers.0.self_attn.attn")
    assert attention.op == "latent_attention"
    cache = 4 * 1000 * (512 + 64) * 2
    assert attention.bytes_read == cache + 4 * 128 * 576 * 2
    dense, sparse = (n for n in tree.nodes("module") if n.op == "deepseek_v3.layer")
    assert (dense.count, sparse.count) == (3, 58)


LLAMA4 = {
    "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "vocab_size": 202048,
    "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
    "num_experts_per_tok": 1, "attention_chunk_size": 8192, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("experts", "every", "params"),
    [(16, 1, 107_769_861_120), (128, 2, 400_711_848_960)],
)
def test_llama_4_has_experts_in_some_layers_and_one_for_all(
    experts: int, every: int, params: int
) -> None:
    """Scout and Maverick: 109 and 402 G with their eyes, these are the text parts."""
    own = {"num_local_experts": experts, "interleave_moe_layer_step": every}
    inner = {**LLAMA4, **own}
    decoder = read_decoder({"model_type": "llama4", "text_config": inner})
    feeds = [layer.feed for layer in decoder.layers]
    assert [bool(feed.experts) for feed in feeds] == [
        (i + 1) % every == 0 for i in range(48)
    ]
    assert (feeds[-1].inter, feeds[-1].shared_inter) == (8192, 8192)
    assert every == 1 or feeds[0].inter == 16384
    tree = serving_tree(inner, phase="decode")
    assert tree.root.params == params
    # Every fourth layer sees everything and has no positions.
    windows = [layer.attention.window for layer in decoder.layers[:4]]
    assert windows == [8192, 8192, 8192, 0]
    assert [layer.attention.rotary for layer in decoder.layers[2:4]] == [True, False]


@pytest.mark.parametrize(
    ("weights", "kind"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, "fp8"),
        ({"num_bits": 8, "type": "float", "strategy": "block"}, "fp8_block"),
        ({"num_bits": 4, "type": "int", "strategy": "group"}, "int4"),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "fp8"),
        ({"num_bits": 4, "type": "float", "strategy": "tensor_group"}, "fp4"),
    ],
)
def test_compressed_tensors_say_how_weights_are_stored(
    weights: dict[str, object], kind: str
) -> None:
    given = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights}},
    }
    entry = catalogue.entries()["llama-3.1-8b"]
    decoder = read_decoder({**entry.config, "quantization_config": given})
    assert decoder.weight_type == kind


def test_cohere_2_is_a_decoder_whose_layers_slide() -> None:
    """Command R7B: three layers with a window, one without; 8,028,033,024 weights."""
    config = {
        "model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "vocab_size": 256000, "sliding_window": 4096,
        "sliding_window_pattern": 4, "layer_norm_eps": 1e-5,
    }  # fmt: skip
    decoder = read_decoder(config)
    assert [layer.attention.window for layer in decoder.layers[:4]] == [4096] * 3 + [0]
    assert serving_tree(config, phase="decode").root.params == 8_028_033_024


def test_blocks_of_fp8_may_be_asked_for() -> None:
    tree = serving_tree("llama-3.1-8b", phase="decode", quantization="fp8_block")
    kinds = {node.dtype for node in tree.nodes("ml") if node.op == "linear"}
    assert kinds == {"fp8_block"}


@pytest.mark.parametrize(
    "kind",
    [
        "apertus", "arcee", "bitnet", "ernie4_5", "ernie4_5_moe", "exaone4", "glm4",
        "glm4_moe", "granitemoe", "granitemoeshared", "minimax_m2", "ministral3",
        "nanochat", "olmo3", "seed_oss",
    ],
)  # fmt: skip
def test_families_have_the_parameters_that_transformers_builds(kind: str) -> None:
    config, expected = built(kind)
    params = serving_tree(config, phase="decode", context_len=16).root.params
    assert params == pytest.approx(expected, rel=1e-4)


def test_what_layers_are_told_of_a_token_beside_the_stream_is_counted() -> None:
    config, expected = built("gemma3n_text", intermediate_size=[16384] * 4,
                             activation_sparsity_pattern=[0.0] * 4,
                             num_kv_shared_layers=0)  # fmt: skip
    tree = serving_tree(config, phase="decode", context_len=16)
    assert tree.root.params == pytest.approx(expected, rel=0.03)
    table = next(
        n for n in tree.root.walk() if n.path.endswith("embed_tokens_per_layer")
    )
    assert table.params == 262_144 * 256 * 4
    assert table.bytes_read < 1e5


def test_numbers_may_be_listed_by_layer() -> None:
    layers = 4
    config = {
        "model_type": "hunyuan_v1_moe", "hidden_size": 4096, "vocab_size": 128167,
        "num_hidden_layers": layers, "num_attention_heads": 32, "head_dim": 128,
        "num_key_value_heads": 8, "intermediate_size": 3072, "rms_norm_eps": 1e-5,
        "num_experts": 64, "moe_intermediate_size": [3072] * layers,
        "moe_topk": [8] * layers, "num_shared_expert": [1] * layers,
        "tie_word_embeddings": True,
    }  # fmt: skip
    feed = read_decoder(config).layers[0].feed
    assert feed is not None
    assert (feed.experts, feed.topk, feed.inter, feed.shared_inter) == (
        64, 8, 3072, 3072,
    )  # fmt: skip


def test_layers_that_are_neither_attention_nor_known_are_refused() -> None:
    config, _ = built("recurrent_gemma")
    with pytest.raises(ConfigError, match="not read as a decoder"):
        read_decoder(config)


def test_a_step_has_room_for_so_many_tokens_of_prompts() -> None:
    """8,192: four prompts of 2,000; what needs more steps than answers has its own."""
    run = {"phase": "generate", "batch_size": 64, "prompt_len": 2000}
    few = steps_of(RunSpec.asked("x", {**run, "output_len": 2}))
    assert (few[0].sequences, few[0].runs) == (4, 16)
    assert few[0].alone == pytest.approx(64 * 2000 / 8192 - 2 + 1 / 64)
    many = steps_of(RunSpec.asked("x", {**run, "output_len": 99}))
    assert (many[0].sequences, many[0].alone) == (1, 1 / 64)
