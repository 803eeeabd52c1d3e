"""A dense, a sliding-window and an MoE model against numbers worked out by hand."""

from __future__ import annotations

import pytest

from irene.trace.serving import serving_tree
from irene.tree import ModelTree

BF16 = 2


def one_layer(tree: ModelTree, index: int = 0) -> dict[str, tuple[int, int, int]]:
    """FLOPs, bytes read and bytes written of the primitives of a layer, by name."""
    path = f"model.layers.{index}"
    return {
        node.path.removeprefix(f"{path}."): (
            node.flops,
            node.bytes_read,
            node.bytes_written,
        )
        for node in tree.find(path).walk()
        if node.kind == "ml"
    }


def test_llama_decode_by_hand() -> None:
    # Llama 3.1 8B: width 4096, 32 heads of 128, 8 of them for keys and values, inner
    # width 14336, vocabulary 128256, 32 layers. 64 streams, each one token after 1024.
    #
    # qkv_proj: n = (32 + 2·8)·128 = 6144, k = 4096
    #   FLOPs  2·64·6144·4096                      =   3 221 225 472
    #   read   weights 6144·4096·2 = 50 331 648, activations 64·4096·2 = 524 288
    #   write  64·6144·2                           =         786 432
    # attn: per stream 32 heads × 1024 cached tokens × 128, twice (Q·K, A·V)
    #   FLOPs  4·64·32·1024·128                    =   1 073 741 824
    #   read   cache 64·1024·8·128·2 (K, V)·2 B    =     268 435 456
    #          queries 64·32·128·2                 =         524 288
    # gate_up_proj: n = 28672; down_proj: n = 4096, k = 14336
    tree = serving_tree(
        "llama-3.1-8b", batch_size=64, phase="decode", context_len=1024
    ).unfold()
    activations = 64 * 4096 * BF16
    assert one_layer(tree) == {
        "input_layernorm": (4 * 64 * 4096, 2 * activations, 2 * activations),
        "self_attn.qkv_proj": (3_221_225_472, 50_331_648 + 524_288, 786_432),
        # 32 + 8 heads of 128 are turned: 64·40·128 numbers, 3 FLOPs each
        "self_attn.rotary_emb": (983_040, 655_360, 655_360),
        # 2·8·128 numbers per token go to the cache
        "self_attn.cache_write": (0, 262_144, 262_144),
        "self_attn.attn": (1_073_741_824, 268_435_456 + 524_288, 524_288),
        "self_attn.o_proj": (2_147_483_648, 33_554_432 + 524_288, 524_288),
        "post_attention_layernorm": (4 * 64 * 4096, 2 * activations, 2 * activations),
        "mlp.gate_up_proj": (15_032_385_536, 234_881_024 + 524_288, 3_670_016),
        "mlp.act_fn": (5 * 64 * 14336, 3_670_016, 1_835_008),
        "mlp.down_proj": (7_516_192_768, 117_440_512 + 1_835_008, 524_288),
    }
    # The output: 2·64·128256·4096 FLOPs, 1.05 GB of weights.
    head = tree.find("lm_head")
    assert head.flops == 67_243_081_728
    assert head.bytes_read == 128_256 * 4096 * 2 + activations
    # 8.03 G parameters, as published.
    assert tree.root.params == 8_030_261_248
    # All weights are read once in a step, but for the rows of the embedding that no
    # token looks up: 15.0 GB; the cache is 32 × 268 MB.
    read = sum(
        node.bytes_read for node in tree.nodes("ml") if node.op in ("linear", "lm_head")
    )
    weights = 2 * (8_030_261_248 - 128_256 * 4096 - (2 * 32 + 1) * 4096)
    moved = 32 * (2 * 524_288 + 524_288 + 1_835_008) + 524_288
    assert read == weights + moved


def test_llama_prefill_by_hand() -> None:
    # Two prompts of 100 tokens: 200 tokens through the products; every token sees
    # itself and those before it: 100·101/2 = 5050 pairs per prompt and head.
    tree = serving_tree("llama-3.1-8b", batch_size=2, seq_len=100, phase="prefill")
    layer = one_layer(tree)
    assert layer["self_attn.qkv_proj"][0] == 2 * 200 * 6144 * 4096
    assert layer["self_attn.attn"] == (
        4 * 2 * 32 * 5050 * 128,
        2 * (100 * 32 * 128 * BF16 + 100 * 8 * 128 * 2 * BF16),
        2 * 100 * 32 * 128 * BF16,
    )
    # Only the last token of each prompt goes through the output.
    assert tree.find("lm_head").inputs[0] == (2, 4096)


def test_gemma_slides_by_hand() -> None:
    # Gemma 3 12B: 48 layers, every sixth sees everything, the others 1024 tokens. 16
    # heads of 256, 8 for keys and values. 8 streams, one token after 4000.
    #   sliding: 4·8·16·1024·256 = 134 217 728 FLOPs,
    #            cache 8·1024·8·256·2·2 = 67 108 864 B
    #   full:    4·8·16·4000·256 = 524 288 000 FLOPs,
    #            cache 8·4000·8·256·2·2 = 262 144 000 B
    #   queries 8·16·256·2 = 65 536 B
    tree = serving_tree(
        "gemma-3-12b-text", batch_size=8, phase="decode", context_len=4000
    )
    layers = [node for node in tree.nodes("module") if node.op == "gemma3_text.layer"]
    assert [layer.count for layer in layers] == [40, 8]
    assert [layer.members[:2] for layer in layers] == [
        ("layers.0", "layers.1"),
        ("layers.5", "layers.11"),
    ]
    sliding, full = one_layer(tree), one_layer(tree, 5)
    assert sliding["self_attn.attn"] == (134_217_728, 67_108_864 + 65_536, 65_536)
    assert full["self_attn.attn"] == (524_288_000, 262_144_000 + 65_536, 65_536)
    # Four norms in a layer and one on queries and keys.
    assert [name for name in sliding if "norm" in name] == [
        "input_layernorm",
        "self_attn.qk_norm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ]
    # In a prompt of 2000 tokens the first 1024 see what came before them, the rest
    # 1024 each: 1024·1025/2 + 976·1024 = 1 524 224 pairs.
    prompt = serving_tree(
        "gemma-3-12b-text", batch_size=1, seq_len=2000, phase="prefill"
    )
    assert one_layer(prompt)["self_attn.attn"][0] == 4 * 16 * 256 * 1_524_224


def test_qwen_moe_by_hand() -> None:
    # Qwen3 30B-A3B: width 2048, 128 experts of inner width 768, 8 per token. 16
    # streams: 128·(1 − (1 − 8/128)^16) = 128·(1 − 0.9375^16) = 82.42 experts are
    # touched, of 3·2048·768 = 4 718 592 weights each.
    #   FLOPs 2·16·8·4 718 592                     = 1 207 959 552
    #   read  82.42·4 718 592·2 B = 777.8 MB, and 16·2048 + 16·8·768 numbers
    #   write 16·8·(2·768 + 2048) numbers
    tree = serving_tree(
        "qwen3-30b-a3b", batch_size=16, phase="decode", context_len=1000
    )
    layer = one_layer(tree)
    assert list(layer) == [
        "input_layernorm",
        "self_attn.qkv_proj",
        "self_attn.qk_norm",
        "self_attn.rotary_emb",
        "self_attn.cache_write",
        "self_attn.attn",
        "self_attn.o_proj",
        "post_attention_layernorm",
        "mlp.gate",
        "mlp.experts",
    ]
    flops, read, written = layer["mlp.experts"]
    assert flops == 1_207_959_552
    touched = 128 * (1 - 0.9375**16)
    assert touched == pytest.approx(82.42, abs=0.01)
    weights = touched * 4_718_592 * 2
    assert read == pytest.approx(weights + 2 * (16 * 2048 + 16 * 8 * 768), rel=1e-9)
    assert written == 2 * 16 * 8 * (2 * 768 + 2048)
    assert layer["mlp.gate"][0] == 2 * 16 * 128 * 2048
    # 48 layers of 604 M experts, 18.9 M attention; 30.5 G in all, as published.
    assert tree.root.params == 30_532_122_624


def test_quantised_weights_by_hand() -> None:
    # fp8: a byte per weight. gpt-oss is published with experts in mxfp4: half a byte
    # and one byte of scale for 32 numbers.
    sizes = {"batch_size": 1, "context_len": 64}
    dense = serving_tree("llama-3.1-8b", phase="decode", quantization="fp8", **sizes)
    assert one_layer(dense)["mlp.down_proj"][1] == 4096 * 14336 + 14336 * BF16
    assert dense.find("lm_head").bytes_read == 128_256 * 4096 * 2 + 4096 * BF16
    oss = serving_tree("gpt-oss-20b", batch_size=4096, phase="decode", context_len=64)
    experts = oss.find("model.layers.0.mlp.experts")
    assert experts.dtype == "mxfp4"
    assert oss.find("model.layers.0.self_attn.qkv_proj").dtype == "bf16"
    # With 4096 tokens all 32 experts are touched: 32·3·2880·2880·17/32 bytes.
    weights = 32 * 3 * 2880 * 2880 * 17 // 32
    moved = 2 * (4096 * 2880 + 4096 * 4 * 2880)
    assert experts.bytes_read == pytest.approx(weights + moved, rel=1e-6)
