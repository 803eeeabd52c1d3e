"""What the fields of a config do not say: names, norms and biases, family by family.

A family that is not listed is taken for a Llama: RMS norms before attention and
feed-forward, gated SiLU, rotary positions, no biases. `irene.trace.serving.config` says
so where that is a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from irene.trace.serving.decoder import Names, Norms

LAYER_NORM = Norms("layer_norm", 2)
FOUR_NORMS = Norms(
    before_feed="pre_feedforward_layernorm",
    after_attention="post_attention_layernorm",
    after_feed="post_feedforward_layernorm",
)
NORMS_AFTER = Norms(
    before_attention="",
    before_feed="",
    after_attention="post_attention_layernorm",
    after_feed="post_feedforward_layernorm",
)
GPT2_NAMES = Names(
    layers="transformer.h", attention="attn", qkv="c_attn", out="c_proj",
    up="c_fc", down="c_proj", embedding="transformer.wte", positions="transformer.wpe",
)  # fmt: skip
GPT2_NORMS = Norms(
    "layer_norm", 2, before_attention="ln_1", before_feed="ln_2",
    final="transformer.ln_f",
)  # fmt: skip
BLOOM_NAMES = Names(
    layers="transformer.h", attention="self_attention", qkv="query_key_value",
    out="dense", up="dense_h_to_4h", down="dense_4h_to_h",
    embedding="transformer.word_embeddings",
)  # fmt: skip

LFM2_NAMES = Names(out="out_proj", feed="feed_forward", down="w2")
LFM2_NORMS = Norms(
    before_attention="operator_norm", before_feed="ffn_norm",
    final="model.embedding_norm",
)  # fmt: skip
LFM2_FIELDS = {"intermediate_size": "block_ff_dim"}
ZAMBA_NAMES = Names(feed="feed_forward")
ZAMBA_NORMS = Norms(before_feed="pre_ff_layernorm", final="model.final_layernorm")
ZAMBA_FIELDS = {"head_dim": "attention_head_dim"}


@dataclass(frozen=True, slots=True)
class Family:
    """How models of one `model_type` differ from a Llama.

    Attributes:
        class_name: Class of the whole model.
        names: What its parts are called.
        norms: Its norms.
        qkv_bias: Whether queries, keys and values have biases.
        out_bias: Whether attention's output has one.
        feed_bias: Whether the feed-forward matrices have biases.
        gated: Whether the feed-forward part has a gate.
        gated_attention: Whether attention has one, where the config does not say.
        activation: Its activation, where the config does not say.
        qk_norm: Norm of queries and keys, as in `Attention`.
        rotary: Whether positions are rotated in.
        learned_positions: Rows of the table of positions beyond those of the config;
            None: no table.
        head_bias: Whether the output has a bias.
        tied: Whether output and embedding share weights, where the config is silent.
        slides: Which layers have a window, where the config lists none: `all`, `even`
            (the 1st, 3rd, …), `pattern` (all but every n-th), `chunks` (those with
            rotary positions), `none`.
        weight_type: How its linear weights are published.
        quantizes_all: Whether that is all linear layers, or only the experts.
        aliases: Names of config fields that are its own: usual name -> its name.
    """

    class_name: str
    names: Names = field(default_factory=Names)
    norms: Norms = field(default_factory=Norms)
    qkv_bias: bool = False
    out_bias: bool = False
    feed_bias: bool = False
    gated: bool = True
    gated_attention: bool = False
    activation: str = "silu"
    qk_norm: str = ""
    rotary: bool = True
    learned_positions: int | None = None
    head_bias: bool = False
    tied: bool = False
    slides: str = "none"
    weight_type: str = ""
    quantizes_all: bool = True
    aliases: Mapping[str, str] = field(default_factory=dict)


GPT2_FIELDS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "hidden_act": "activation_function",
}

FAMILIES: Mapping[str, Family] = {
    "llama": Family("LlamaForCausalLM"),
    "llama4_text": Family(
        "Llama4ForCausalLM", Names(feed="feed_forward", router="router"),
        qk_norm="plain", slides="chunks",
    ),
    "mistral": Family("MistralForCausalLM", slides="all"),
    "ministral": Family("MinistralForCausalLM", slides="all"),
    "mixtral": Family(
        "MixtralForCausalLM", Names(feed="block_sparse_moe"), slides="all"
    ),
    "qwen2": Family("Qwen2ForCausalLM", qkv_bias=True),
    "qwen2_moe": Family("Qwen2MoeForCausalLM", qkv_bias=True),
    "qwen3": Family("Qwen3ForCausalLM", qk_norm="head"),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", qk_norm="head"),
    "qwen3_next": Family("Qwen3NextForCausalLM", qk_norm="head", gated_attention=True),
    "qwen3_5_text": Family("Qwen3_5ForCausalLM", qk_norm="head", gated_attention=True),
    "qwen3_5_moe_text": Family(
        "Qwen3_5MoeForCausalLM", qk_norm="head", gated_attention=True
    ),
    "gemma": Family("GemmaForCausalLM", activation="gelu_tanh", tied=True),
    "gemma2": Family(
        "Gemma2ForCausalLM", norms=FOUR_NORMS, activation="gelu_tanh", tied=True,
        slides="even",
    ),
    "gemma3_text": Family(
        "Gemma3ForCausalLM", norms=FOUR_NORMS, activation="gelu_tanh", qk_norm="head",
        tied=True, slides="pattern",
    ),
    "gemma3n_text": Family(
        "Gemma3nForCausalLM", norms=FOUR_NORMS, activation="gelu_tanh", qk_norm="head",
        tied=True,
    ),
    "gemma4_text": Family(
        "Gemma4ForCausalLM", norms=FOUR_NORMS, activation="gelu_tanh", qk_norm="head",
        tied=True,
    ),
    "phi3": Family("Phi3ForCausalLM", slides="all"),
    "phi": Family(
        "PhiForCausalLM", Names(out="dense", up="fc1", down="fc2"),
        Norms("layer_norm", 2, before_feed="", final="model.final_layernorm"),
        qkv_bias=True, out_bias=True, feed_bias=True, gated=False, head_bias=True,
        activation="gelu_new",
    ),
    "olmo": Family("OlmoForCausalLM", norms=Norms("layer_norm", 0)),
    "olmo2": Family(
        "Olmo2ForCausalLM",
        norms=NORMS_AFTER, qk_norm="full",
    ),
    "olmoe": Family("OlmoeForCausalLM", qk_norm="full"),
    "olmo3": Family("Olmo3ForCausalLM", norms=NORMS_AFTER, qk_norm="full"),
    "exaone4": Family("Exaone4ForCausalLM", norms=NORMS_AFTER, qk_norm="head"),
    "granite": Family("GraniteForCausalLM"),
    "granitemoe": Family("GraniteMoeForCausalLM"),
    "granitemoeshared": Family("GraniteMoeSharedForCausalLM"),
    "granitemoehybrid": Family("GraniteMoeHybridForCausalLM"),
    "bamba": Family("BambaForCausalLM"),
    "jamba": Family("JambaForCausalLM", Names(feed="feed_forward"), rotary=False),
    "lfm2": Family("Lfm2ForCausalLM", LFM2_NAMES, LFM2_NORMS, qk_norm="head",
                   tied=True, aliases=LFM2_FIELDS),
    "lfm2_moe": Family("Lfm2MoeForCausalLM", LFM2_NAMES, LFM2_NORMS, qk_norm="head",
                       tied=True),
    "zamba": Family("ZambaForCausalLM", ZAMBA_NAMES, ZAMBA_NORMS, activation="gelu",
                    rotary=False, tied=True, aliases=ZAMBA_FIELDS),
    "zamba2": Family("Zamba2ForCausalLM", ZAMBA_NAMES, ZAMBA_NORMS, activation="gelu",
                     rotary=False, tied=True, aliases=ZAMBA_FIELDS),
    "kimi_linear": Family(
        "KimiLinearForCausalLM", Names(shared="shared_experts"), rotary=False
    ),
    "longcat_flash": Family(
        "LongcatFlashForCausalLM", Names(router="router", shared="mlps"),
        aliases={"intermediate_size": "ffn_hidden_size",
                 "moe_intermediate_size": "expert_ffn_hidden_size"},
    ),
    "minimax": Family("MiniMaxForCausalLM"),
    "minimax_text_01": Family("MiniMaxText01ForCausalLM"),
    "falcon_h1": Family("FalconH1ForCausalLM"),
    "ernie4_5": Family("Ernie4_5ForCausalLM"),
    "ernie4_5_moe": Family("Ernie4_5_MoeForCausalLM"),
    "hunyuan_v1_dense": Family("HunYuanDenseV1ForCausalLM", qk_norm="head"),
    "hunyuan_v1_moe": Family("HunYuanMoEV1ForCausalLM", qk_norm="head"),
    "minimax_m2": Family("MiniMaxM2ForCausalLM", qk_norm="full"),
    "seed_oss": Family("SeedOssForCausalLM", qkv_bias=True),
    "apertus": Family("ApertusForCausalLM", qk_norm="head", gated=False),
    "arcee": Family("ArceeForCausalLM", gated=False),
    "bitnet": Family("BitNetForCausalLM"),
    "ministral3": Family("Ministral3ForCausalLM"),
    "smollm3": Family("SmolLM3ForCausalLM", tied=True),
    "glm4": Family(
        "Glm4ForCausalLM", qkv_bias=True,
        norms=Norms(after_attention="post_self_attn_layernorm",
                    after_feed="post_mlp_layernorm"),
    ),
    "glm4_moe": Family(
        "Glm4MoeForCausalLM", Names(shared="shared_experts"), qkv_bias=True,
        qk_norm="head",
    ),
    "dots1": Family("Dots1ForCausalLM", Names(shared="shared_experts"), qk_norm="head"),
    "glm": Family(
        "GlmForCausalLM", qkv_bias=True,
        aliases={"intermediate_size": "ffn_hidden_size"},
    ),
    "cohere": Family(
        "CohereForCausalLM", norms=Norms("layer_norm", 1, before_feed=""), tied=True
    ),
    "cohere2": Family(
        "Cohere2ForCausalLM", norms=Norms("layer_norm", 1, before_feed=""), tied=True,
        slides="pattern",
    ),
    "stablelm": Family("StableLmForCausalLM", norms=LAYER_NORM),
    "nemotron": Family("NemotronForCausalLM", norms=LAYER_NORM, gated=False),
    "starcoder2": Family(
        "Starcoder2ForCausalLM", Names(up="c_fc", down="c_proj"), LAYER_NORM,
        qkv_bias=True, out_bias=True, feed_bias=True, gated=False, slides="all",
        activation="gelu_tanh", tied=True,
    ),
    "gpt_oss": Family(
        "GptOssForCausalLM", Names(router="router"), qkv_bias=True, out_bias=True,
        feed_bias=True, slides="even", weight_type="mxfp4", quantizes_all=False,
    ),
    "deepseek_v2": Family("DeepseekV2ForCausalLM", Names(shared="shared_experts")),
    "deepseek_v3": Family(
        "DeepseekV3ForCausalLM", Names(shared="shared_experts"),
        weight_type="fp8_block",
    ),
    "nemotron_h": Family(
        "NemotronHForCausalLM",
        Names(layers="backbone.layers", attention="mixer", feed="mixer", up="up_proj",
              embedding="backbone.embeddings"),
        Norms(before_attention="norm", before_feed="norm", final="backbone.norm_f"),
        gated=False, activation="relu2", rotary=False,
        aliases={"hidden_act": "mlp_hidden_act"},
    ),
    "falcon": Family(
        "FalconForCausalLM", BLOOM_NAMES,
        Norms("layer_norm", 2, before_feed="", final="transformer.ln_f"),
        gated=False, activation="gelu", tied=True,
        aliases={"intermediate_size": "ffn_hidden_size", "hidden_act": "activation"},
    ),
    "bloom": Family(
        "BloomForCausalLM", BLOOM_NAMES,
        Norms("layer_norm", 2, embedding="transformer.word_embeddings_layernorm",
              final="transformer.ln_f"),
        qkv_bias=True, out_bias=True, feed_bias=True, gated=False, activation="gelu",
        rotary=False, tied=True, aliases=GPT2_FIELDS | {"hidden_size": "hidden_size"},
    ),
    "mpt": Family(
        "MptForCausalLM",
        Names(layers="transformer.blocks", attention="attn", qkv="Wqkv",
              out="out_proj", feed="ffn", up="up_proj", embedding="transformer.wte"),
        Norms("layer_norm", 1, before_attention="norm_1", before_feed="norm_2",
              final="transformer.norm_f"),
        gated=False, activation="gelu", rotary=False, tied=True,
        aliases={"hidden_size": "d_model", "num_hidden_layers": "n_layers",
                 "num_attention_heads": "n_heads"},
    ),
    "gpt2": Family(
        "GPT2LMHeadModel", GPT2_NAMES, GPT2_NORMS, qkv_bias=True, out_bias=True,
        feed_bias=True, gated=False, activation="gelu_new", rotary=False,
        learned_positions=0, tied=True, aliases=GPT2_FIELDS,
    ),
    "gpt_bigcode": Family(
        "GPTBigCodeForCausalLM", GPT2_NAMES, GPT2_NORMS, qkv_bias=True, out_bias=True,
        feed_bias=True, gated=False, activation="gelu", rotary=False,
        learned_positions=0, tied=True, aliases=GPT2_FIELDS,
    ),
    "gptj": Family(
        "GPTJForCausalLM",
        Names(layers="transformer.h", attention="attn", out="out_proj", up="fc_in",
              down="fc_out", embedding="transformer.wte"),
        Norms("layer_norm", 2, before_attention="ln_1", before_feed="",
              final="transformer.ln_f"),
        feed_bias=True, gated=False, activation="gelu_new", head_bias=True,
        aliases=GPT2_FIELDS,
    ),
    "gpt_neo": Family(
        "GPTNeoForCausalLM",
        Names(layers="transformer.h", attention="attn.attention", out="out_proj",
              up="c_fc", down="c_proj", embedding="transformer.wte",
              positions="transformer.wpe"),
        GPT2_NORMS, out_bias=True, feed_bias=True, gated=False,
        activation="gelu_new", rotary=False, learned_positions=0, tied=True,
        aliases={"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads",
                 "hidden_act": "activation_function", "sliding_window": "window_size"},
    ),
    "gpt_neox": Family(
        "GPTNeoXForCausalLM",
        Names(layers="gpt_neox.layers", attention="attention", qkv="query_key_value",
              out="dense", up="dense_h_to_4h", down="dense_4h_to_h",
              embedding="gpt_neox.embed_in", head="embed_out"),
        Norms("layer_norm", 2, final="gpt_neox.final_layer_norm"),
        qkv_bias=True, out_bias=True, feed_bias=True, gated=False, activation="gelu",
    ),
    "opt": Family(
        "OPTForCausalLM",
        Names(layers="model.decoder.layers", out="out_proj", feed="", up="fc1",
              down="fc2", embedding="model.decoder.embed_tokens",
              positions="model.decoder.embed_positions"),
        Norms("layer_norm", 2, before_attention="self_attn_layer_norm",
              before_feed="final_layer_norm", final="model.decoder.final_layer_norm"),
        qkv_bias=True, out_bias=True, feed_bias=True, gated=False, activation="relu",
        rotary=False, learned_positions=2, tied=True,
        aliases={"intermediate_size": "ffn_dim", "hidden_act": "activation_function"},
    ),
}  # fmt: skip
