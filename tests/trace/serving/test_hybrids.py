"""Hybrids of state spaces and attention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irene import predict
from irene.errors import ConfigError
from irene.trace.serving import read_decoder, serving_tree
from tests.trace.serving.published import built

NANO = {
    "model_type": "nemotron_h", "hidden_size": 4480, "intermediate_size": 15680,
    "num_hidden_layers": 56, "vocab_size": 131072, "num_attention_heads": 40,
    "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 128,
    "mamba_head_dim": 80, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
    "mlp_hidden_act": "relu2", "tie_word_embeddings": False,
    "hybrid_override_pattern":
        "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
}  # fmt: skip
"""Fields of NVIDIA-Nemotron-Nano-9B-v2, from its hub page; 8,888,227,328 parameters."""
RUN = {"batch_size": 8, "prompt_len": 200, "output_len": 100}


def test_a_hybrid_has_the_parameters_that_were_published() -> None:
    tree = serving_tree(NANO, phase="decode")
    assert tree.root.params == pytest.approx(8_888_227_328, rel=0.002)
    kinds = [layer.space is not None for layer in read_decoder(NANO).layers]
    assert sum(kinds) == 27


def test_states_do_not_grow_with_the_context() -> None:
    def bytes_of(op: str, context: int) -> int:
        tree = serving_tree(NANO, phase="decode", context_len=context)
        nodes = [node for node in tree.nodes("ml") if node.op == op]
        return sum(node.bytes_read for node in nodes)

    assert bytes_of("state_update", 100) == bytes_of("state_update", 10_000)
    long, short = (bytes_of("generation_attention", n) for n in (10_000, 100))
    assert long > 50 * short


def test_a_prompt_moves_the_state_of_every_chunk() -> None:
    """Four times 10,240 channels of 128 numbers in fp32, once in 128 tokens."""
    tree = serving_tree(NANO, phase="prefill", batch_size=1, seq_len=1024)
    scans = [node for node in tree.nodes("ml") if node.op == "chunk_scan"]
    kept = 2 * 10_240 * 128 * 4 // 128
    assert scans[0].bytes_read == 1024 * (kept + 2 * (10_240 + 2 * 8 * 128 + 128))
    assert scans[0].bytes_written == 1024 * (kept + 2 * 10_240)


def test_a_scan_of_a_prompt_takes_as_long_as_on_b200() -> None:
    """Nemotron 3 Nano's scan of two prompts of 4,096 tokens, measured: 0.367 ms."""
    layout = {**NANO, "hidden_size": 2688, "mamba_num_heads": 64, "mamba_head_dim": 64}
    tree = serving_tree(layout, phase="prefill", batch_size=2, seq_len=4096)
    told = predict(tree, on="b200")
    scan = next(node for node in told.nodes("ml") if node.op == "chunk_scan")
    assert 1e3 * scan.features["time_s"] == pytest.approx(0.367, rel=0.15)


def test_a_hybrid_is_served_with_a_wide_interval(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(NANO))
    energy = predict(config, on="h100", **RUN).energy_of(0)  # type: ignore[arg-type]
    assert energy is not None
    assert energy.high / energy.joules > 1.3
    with pytest.raises(ConfigError, match="hybrid_override_pattern"):
        read_decoder({**NANO, "hybrid_override_pattern": "M-X"})


SPACES_AND_ATTENTION = (
    "GatedDeltaNet", "Mamba2", "KimiDeltaAttention", "LightningAttention", "Mamba",
    "ShortConv", "Attention",
)  # fmt: skip
SOME_ATTENTION = {
    "jamba": {"attn_layer_period": 4, "attn_layer_offset": 2},
    "lfm2": {"full_attn_idxs": [2]},
    "zamba": {"attn_layer_period": 1, "attn_layer_offset": 0},
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid", "hybrid", "hybrid"],
        "num_mem_blocks": 2,
        "use_shared_attention_adapter": True,
        "use_mem_rope": True,
    },
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"]},
}
"""Fields with which one of few layers is attention."""


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        ("qwen3_next", ("GatedDeltaNet", "Attention")),
        ("qwen3_5_moe_text", ("GatedDeltaNet", "Attention")),
        ("granitemoehybrid", ("Mamba2",)),
        ("bamba", ("Mamba2",)),
        ("falcon_h1", ("Mamba2", "Attention")),
        ("kimi_linear", ("KimiDeltaAttention",)),
        ("minimax", ("LightningAttention", "Attention")),
        ("jamba", ("Mamba", "Attention")),
        ("nemotron_h", ("Mamba2", "Attention")),
        ("lfm2", ("ShortConv", "Attention")),
        ("lfm2_moe", ("ShortConv", "Attention")),
        ("zamba", ("Mamba", "Attention")),
        ("zamba2", ("Mamba2", "Attention")),
    ],
)
def test_hybrids_are_read_by_their_fields(kind: str, kinds: tuple[str, ...]) -> None:
    config, expected = built(kind, **SOME_ATTENTION.get(kind, {}))
    tree = serving_tree(config, phase="decode", context_len=100)
    assert tree.root.params == expected
    assert set(kinds) == {n.op for n in tree.root.walk()} & {*SPACES_AND_ATTENTION}
    assert not [note for note in tree.notes if "unknown to serving" in note]


def test_every_so_many_layers_may_be_attention() -> None:
    config, expected = built("qwen3_next")
    told = {**config, "layer_types": None, "full_attention_interval": 4}
    assert serving_tree(told, phase="decode", context_len=9).root.params == expected


MINIMAX = {
    "model_type": "minimax_text_01", "hidden_size": 6144, "intermediate_size": 9216,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 128, "num_local_experts": 32, "num_experts_per_tok": 2,
    "vocab_size": 200064, "attn_type_list": [*[0] * 7, 1] * 10, "rms_norm_eps": 1e-5,
}  # fmt: skip
"""MiniMax-Text-01: 456 billion parameters, 45.9 of them for a token."""
KIMI = {
    "model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216,
    "moe_intermediate_size": 1024, "num_hidden_layers": 27, "num_attention_heads": 32,
    "vocab_size": 163840, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts": 256,
    "num_experts_per_token": 8, "num_shared_experts": 1, "first_k_dense_replace": 1,
    "rms_norm_eps": 1e-5, "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128,
        "num_heads": 32, "short_conv_kernel_size": 4,
    },
}  # fmt: skip
"""Kimi-Linear-48B-A3B as it is published: 49.1 billion parameters."""
LONGCAT = {
    "model_type": "longcat_flash", "hidden_size": 6144, "num_layers": 28,
    "num_attention_heads": 64, "ffn_hidden_size": 12288, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512,
    "zero_expert_num": 256, "moe_topk": 12, "vocab_size": 131072, "rms_norm_eps": 1e-5,
}  # fmt: skip
"""LongCat-Flash: 560 billion parameters, of which a token passes some 27."""


@pytest.mark.parametrize(
    ("config", "billions", "attention"),
    [(MINIMAX, 456.1, 10), (KIMI, 49.1, 7), (LONGCAT, 560.7, 56)],
)
def test_models_are_read_as_they_are_published(
    config: dict[str, object], billions: float, attention: int
) -> None:
    tree = serving_tree(config, phase="decode", context_len=100)
    assert tree.root.params == pytest.approx(billions * 1e9, rel=1e-3)
    layers = read_decoder(config).layers
    assert sum(layer.attention is not None for layer in layers) == attention


def test_experts_that_do_nothing_are_asked_and_not_run() -> None:
    """Of 12 experts a token draws from 768, a third only gives it back."""
    first, second = read_decoder(LONGCAT).layers[:2]
    assert first.feed is not None
    assert second.feed is not None
    assert (first.feed.experts, first.feed.idle, first.feed.topk) == (512, 256, 8)
    assert first.feed.shared_inter == second.feed.inter == 12288
    assert not second.feed.experts


def test_a_hybrid_says_that_hardly_any_was_measured(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(KIMI))
    tree = predict(config, on="b200", **RUN)  # type: ignore[arg-type]
    assert any(
        note.startswith("extrapolation: layers of states") for note in tree.notes
    )


ZAMBA = {
    "model_type": "zamba2", "hidden_size": 3584, "intermediate_size": 14336,
    "num_hidden_layers": 81, "num_attention_heads": 32, "num_key_value_heads": 32,
    "attention_head_dim": 224, "vocab_size": 32000, "mamba_d_state": 64,
    "mamba_d_conv": 4, "mamba_ngroups": 2, "n_mamba_heads": 112, "mamba_headdim": 64,
    "num_mem_blocks": 2, "adapter_rank": 128, "use_mem_rope": True,
    "rms_norm_eps": 1e-5,
    "hybrid_layer_ids": [6, 11, 17, 23, 29, 35, 41, 47, 53, 59, 65, 71, 77],
}  # fmt: skip
"""Zamba2-7B: two blocks of attention and feed-forward, run by 13 of its layers."""


def test_what_layers_share_is_counted_once_and_run_by_each() -> None:
    tree = serving_tree(ZAMBA, phase="decode", batch_size=1, context_len=100)
    assert tree.root.params == 7_356_749_648
    own = [node for node in tree.nodes("ml") if node.op == "generation_attention"]
    assert sum(int(tree.multiplicity[node.row]) for node in own) == 13
    blocks = [node for node in tree.root.walk() if node.op == "SharedBlock"]
    assert [node.params > 0 for node in blocks].count(True) == 1  # two folded, eleven
    assert len({node.bytes_read for node in blocks}) == 1
