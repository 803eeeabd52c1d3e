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


def test_a_hybrid_is_served_with_a_wide_interval(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(NANO))
    energy = predict(config, on="h100", **RUN).energy_of(0)  # type: ignore[arg-type]
    assert energy is not None
    assert energy.high / energy.joules > 1.3
    with pytest.raises(ConfigError, match="hybrid_override_pattern"):
        read_decoder({**NANO, "hybrid_override_pattern": "M-X"})


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        ("qwen3_next", ("GatedDeltaNet", "Attention")),
        ("qwen3_5_moe_text", ("GatedDeltaNet", "Attention")),
        ("granitemoehybrid", ("Mamba2",)),
        ("bamba", ("Mamba2",)),
        ("falcon_h1", ("Mamba2", "Attention")),
    ],
)
def test_hybrids_are_read_by_their_fields(kind: str, kinds: tuple[str, ...]) -> None:
    config, expected = built(kind)
    tree = serving_tree(config, phase="decode", context_len=100)
    assert tree.root.params == expected
    assert set(kinds) == {n.op for n in tree.root.walk()} & {
        "GatedDeltaNet", "Mamba2", "Attention",
    }  # fmt: skip
    assert not [note for note in tree.notes if "unknown to serving" in note]


def test_every_so_many_layers_may_be_attention() -> None:
    config, expected = built("qwen3_next")
    told = {**config, "layer_types": None, "full_attention_interval": 4}
    assert serving_tree(told, phase="decode", context_len=9).root.params == expected
