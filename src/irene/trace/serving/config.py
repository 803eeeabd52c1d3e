"""From the fields of a config to a decoder, without torch or transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from irene.errors import ConfigError
from irene.trace.serving.decoder import (
    Attention,
    Decoder,
    FeedForward,
    Latent,
    Layer,
    Norms,
)
from irene.trace.serving.families import FAMILIES, Family
from irene.trace.serving.hybrids import PATTERN, checked_size, has_space, with_spaces
from irene.trace.serving.published import (
    published_type,
    quantizes_attention,
    stored_notes,
)

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
SHARED = (
    "n_shared_experts", "num_shared_experts", "num_shared_expert",
    "moe_num_shared_experts",
)  # fmt: skip
TOPK = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k")
FIRST_DENSE = ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
NOT_ATTENTION = (
    "mamba", "ssm", "linear_", "rwkv", "conv_", "conv1d", "recurrent", "lru_", "xlstm",
)  # fmt: skip
"""Words in names of fields of models that are not, or not only, attention."""
UNGATED = ("relu2", "xielu")
"""Activations of feed-forward layers that mostly have no gate."""
USUAL_PATTERN = 6
"""Gemma 3: every sixth layer sees everything."""


OF_THE_WHOLE = ("quantization_config", "tie_word_embeddings")
"""What a config with a text part may say of it outside of that part."""
SHOWN = (
    "the part that writes alone: what the model is shown or hears is part of its "
    "prompt, as so many tokens"
)


def read_decoder(config: Mapping[str, Any]) -> Decoder:
    """Read what an engine would of a config: its text part, if it has one.

    Raises:
        ConfigError: It is not the config of a decoder whose layers are attention and
            feed-forward.
    """
    if isinstance(config.get("text_config"), Mapping):
        whole = {name: config[name] for name in OF_THE_WHOLE if name in config}
        inner = {"model_type": _text_type(config), **whole, **config["text_config"]}
        found = read_decoder(inner)
        return replace(found, notes=(*found.notes, SHOWN))
    config = _by_class(config)
    family, notes = _family(config)
    fields = _Fields(config, family)
    is_double = "zero_expert_num" in config
    layers = 2 * fields.size("num_layers") if is_double else 0
    if not layers and fields.get("num_hidden_layers") is None:
        layers = len(config.get("layers_block_type") or ())
    layers = layers or fields.size("num_hidden_layers")
    hidden = fields.size("hidden_size")
    attention, feeds = _attention(fields, hidden), _feeds(fields, hidden, layers)
    seen = _windows(fields.usual(), layers, family.slides)
    if len(seen) != layers:
        raise ConfigError(f"layer_types lists {len(seen)} of {layers} layers")
    no_rope = _layers_without_rope(config, layers)
    made = [
        Layer(
            replace(attention, window=seen[i], rotary=attention.rotary and not off),
            feeds[i],
        )
        for i, off in enumerate(no_rope)
    ]
    made = with_spaces(fields.usual(), hidden, made)
    width = int(config.get("word_embed_proj_dim") or hidden)
    published = published_type(config, family, hidden)
    has_experts = any(each.experts for each in feeds)
    only_experts = has_experts and not quantizes_attention(config)
    return Decoder(
        family=str(config["model_type"]),
        class_name=family.class_name,
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        layers=tuple(made),
        tied=bool(config.get("tie_word_embeddings", family.tied)),
        norms=_norms(config, family),
        names=family.names,
        embedding_width=width if width != hidden else 0,
        positions=_positions(fields),
        head_bias=family.head_bias,
        weight_type=published,
        quantizes_all=family.quantizes_all and not only_experts,
        side_width=fields.number("hidden_size_per_layer_input"),
        side_vocab=fields.number("vocab_size_per_layer_input"),
        notes=notes + stored_notes(config, published),
    )


def _text_type(config: Mapping[str, Any]) -> str:
    outer = str(config.get("model_type", ""))
    return outer if outer in FAMILIES else f"{outer}_text"


def _by_class(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config under the usual name: Kimi K2 is a DeepSeek V3 by its class."""
    if config.get("model_type") in FAMILIES:
        return config
    called = _class_name(config)
    known = (name for name, each in FAMILIES.items() if each.class_name == called)
    return {**config, "model_type": next(known, config.get("model_type"))}


def _family(config: Mapping[str, Any]) -> tuple[Family, tuple[str, ...]]:
    """The family of a config, and a note where Llama stands in for it."""
    kind = config.get("model_type")
    # A model that sees writes as its sibling that does not.
    for name in (str(kind), str(kind).replace("_vl", "").removesuffix("_text")):
        if name in FAMILIES:
            return FAMILIES[name], ()
    if not isinstance(kind, str):
        raise ConfigError("the config has no model_type")
    is_other = any(word in name for name in config for word in NOT_ATTENTION)
    types = [str(each) for each in config.get("layer_types") or ()]
    plain = [t for t in types if t.endswith("attention") and "linear" not in t]
    is_other |= len(plain) < len(types)
    is_other &= not has_space(config)
    is_other |= bool(config.get("is_encoder_decoder"))
    if "rms_norm_eps" not in config or "hidden_size" not in config or is_other:
        raise ConfigError(
            f"a model of type {kind!r} is not read as a decoder of attention and "
            "feed-forward layers"
        )
    note = f"extrapolation: {kind} is unknown to serving, read as a Llama of its sizes"
    slides = "all" if config.get("sliding_window") else "none"
    gated = config.get("hidden_act") not in UNGATED
    return Family(_class_name(config), slides=slides, gated=gated), (note,)


def _class_name(config: Mapping[str, Any]) -> str:
    return str((config.get("architectures") or ["DecoderForCausalLM"])[0])


class _Fields:
    """Fields of a config under the names that most families use."""

    def __init__(self, config: Mapping[str, Any], family: Family) -> None:
        self.config = config
        self.family = family

    def get(self, name: str, default: Any = None) -> Any:
        own = self.family.aliases.get(name, name)
        value = self.config.get(own)
        value = self.config.get(name) if value is None else value
        return default if value is None else value

    def size(self, name: str) -> int:
        return checked_size(self.get(name), self.family.aliases.get(name, name))

    def number(self, *names: str) -> int:
        """The first of fields that is given; of a list by layer its first, 0: none."""
        for name in names:
            value = self.get(name)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, int | float) and value:
                return int(value)
        return 0

    def usual(self) -> dict[str, Any]:
        """All fields, those with names of their own also under the usual ones."""
        renamed = {name: self.get(name) for name in self.family.aliases}
        return {**self.config, **renamed}


def _attention(fields: _Fields, hidden: int) -> Attention:
    config, family = fields.config, fields.family
    heads = fields.size("num_attention_heads")
    head_dim = int(fields.get("head_dim") or hidden // heads)
    bias = config.get("attention_bias", config.get("bias"))
    qkv_bias = config.get("use_qkv_bias", config.get("qkv_bias", bias))
    out_bias = family.out_bias if family.qkv_bias else bool(bias)
    out_bias = bool(config.get("attention_out_bias", out_bias))
    return Attention(
        heads=heads,
        kv_heads=_kv_heads(fields, heads),
        head_dim=head_dim,
        qkv_bias=family.qkv_bias if qkv_bias is None else bool(qkv_bias),
        out_bias=family.out_bias if bias is None else out_bias,
        qk_norm=_qk_norm(config, family),
        rotary=bool(config.get("use_mem_rope", family.rotary))
        and not config.get("alibi", False),
        sinks=config["model_type"] == "gpt_oss",
        latent=_latent(config),
        is_gated=bool(config.get("attn_output_gate", family.gated_attention)),
    )


def _kv_heads(fields: _Fields, heads: int) -> int:
    config = fields.config
    if config["model_type"] == "falcon" and not config.get("new_decoder_architecture"):
        return 1 if config.get("multi_query", True) else heads
    if config["model_type"] == "gpt_bigcode":
        return 1 if config.get("multi_query", True) else heads
    given = config.get("num_kv_heads", config.get("num_key_value_heads"))
    return int(given or heads)


def _qk_norm(config: Mapping[str, Any], family: Family) -> str:
    told = config.get("use_qk_norm", config.get("qk_layernorm"))
    if told is None:
        return family.qk_norm
    return (family.qk_norm or "full") if told else ""


def _latent(config: Mapping[str, Any]) -> Latent | None:
    if not config.get("kv_lora_rank"):
        return None
    return Latent(
        query_rank=int(config.get("q_lora_rank") or 0),
        rank=int(config["kv_lora_rank"]),
        nope_dim=int(config.get("qk_nope_head_dim") or 128),
        rope_dim=int(config.get("qk_rope_head_dim") or 64),
        value_dim=int(config.get("v_head_dim") or 128),
    )


def _feeds(fields: _Fields, hidden: int, layers: int) -> list[FeedForward]:
    config, family = fields.config, fields.family
    act = str(fields.get("hidden_act") or config.get("hidden_activation") or "")
    beside = fields.number("shared_intermediate_size")
    dense = FeedForward(
        inter=beside or _inter(fields, hidden),
        gated=family.gated,
        bias=bool(config.get("mlp_bias", config.get("bias", family.feed_bias))),
        activation=act or family.activation,
    )
    experts = fields.number(*EXPERTS) if config.get("is_moe", True) else 0
    if not experts:
        return [dense] * layers
    inter = fields.number("moe_intermediate_size") or _inter(fields, hidden)
    gated = fields.number("shared_expert_intermediate_size")
    # LongCat: experts beside the first of two dense parts; some of them do nothing.
    idle = fields.number("zero_expert_num")
    topk = round((fields.number(*TOPK) or 1) * experts / (experts + idle))
    # Llama 4 names the width of its dense layers; one expert more is for every token.
    wide = fields.number("intermediate_size_mlp")
    common = fields.number(*SHARED) or int(bool(wide))
    shared = gated or beside or fields.number("moe_shared_expert_intermediate_size")
    dense = replace(dense, inter=wide or dense.inter)
    sparse = replace(
        dense,
        inter=inter,
        experts=experts,
        topk=topk,
        shared_inter=shared or (dense.inter if idle else inter * common),
        shared_gate=bool(gated),
        router_bias=config["model_type"] in ("gpt_oss", "deepseek_v3"),
        idle=idle,
    )
    return [sparse if has else dense for has in _sparse_layers(fields, layers)]


def _windows(config: Mapping[str, Any], layers: int, slides: str) -> list[int]:
    """The window of every layer, 0 for one that sees everything; `slides` by habit."""
    if slides == "chunks":
        # A token sees its chunk; layers without rotary positions see everything.
        chunk = int(config.get("attention_chunk_size") or 0)
        return [0 if off else chunk for off in _layers_without_rope(config, layers)]
    window = config.get("sliding_window") or 0
    if "use_sliding_window" in config:
        if not config["use_sliding_window"]:
            return [0] * layers
        slides = "late"
    kinds = config.get("layer_types") or _listed_types(config)
    if kinds:
        return [window if "sliding" in str(k) else 0 for k in kinds[:layers]]
    pattern = int(config.get("sliding_window_pattern") or USUAL_PATTERN)
    habits: Mapping[str, Callable[[int], bool]] = {
        "none": lambda i: False,
        "all": lambda i: True,
        "even": lambda i: i % 2 == 0,
        "late": lambda i: i >= int(config.get("max_window_layers", layers)),
        "pattern": lambda i: (i + 1) % pattern != 0,
    }
    has_window = habits[slides]
    return [window if window and has_window(i) else 0 for i in range(layers)]


def _listed_types(config: Mapping[str, Any]) -> list[str]:
    """GPT-Neo: `[[["global", "local"], 12]]` is twelve times both, in this order."""
    listed = config.get("attention_types") or ()
    words = [word for kinds, times in listed for word in list(kinds) * int(times)]
    return ["sliding" if word == "local" else "full" for word in words]


def _sparse_layers(fields: _Fields, layers: int) -> list[bool]:
    """Whether each layer of a model with experts has them."""
    config = fields.config
    if config.get("moe_layers"):
        return [i in config["moe_layers"] for i in range(layers)]
    kinds = config.get(PATTERN) or config.get("layers_block_type") or ()
    if {"E", "moe"} & {*kinds}:
        return [kind in ("E", "moe") for kind in kinds]
    listed = config.get("mlp_layer_types") or config.get("moe_layer_freq")
    if isinstance(listed, list):
        return [each not in ("dense", 0) for each in listed[:layers]]
    if "zero_expert_num" in config:
        return [i % 2 == 0 for i in range(layers)]
    if config.get("expert_layer_period"):
        every, place = (config[f"expert_layer_{n}"] for n in ("period", "offset"))
        return [i % every == place for i in range(layers)]
    dense = set(config.get("mlp_only_layers") or ())
    first = fields.number(*FIRST_DENSE)
    # These count from one: the last of every `step` layers has experts.
    last = ("decoder_sparse_step", "interleave_moe_layer_step")
    offset = int(any(name in config for name in last))
    step = fields.number(*last, "moe_layer_freq", "moe_layer_interval") or 1
    return [
        i >= first and i not in dense and (i + offset) % step == 0
        for i in range(layers)
    ]


def _inter(fields: _Fields, hidden: int) -> int:
    given = fields.number("intermediate_size")
    if given and fields.get("block_auto_adjust_ff_dim"):
        # LFM2: two thirds of it, in whole multiples.
        many = fields.size("block_multiple_of")
        given = int(fields.get("block_ffn_dim_multiplier", 1.0) * int(2 * given / 3))
        return many * -(-given // many)
    return given or hidden * int(fields.get("expansion_ratio", 4))


def _layers_without_rope(config: Mapping[str, Any], layers: int) -> list[bool]:
    """SmolLM3, Llama 4 and others: every n-th layer has no rotary positions."""
    listed = config.get("no_rope_layers")
    if listed:
        # 1 where there are rotary positions.
        return [not has for has in listed[:layers]]
    usual = 4 if config["model_type"] == "llama4_text" else 0
    every = int(config.get("no_rope_layer_interval") or usual)
    return [bool(every) and (i + 1) % every == 0 for i in range(layers)]


def _norms(config: Mapping[str, Any], family: Family) -> Norms:
    """The family's norms, with what a config can change in them."""
    norms, kind = family.norms, config["model_type"]
    if kind == "falcon":
        if config.get("new_decoder_architecture"):
            return replace(norms, before_attention="ln_attn", before_feed="ln_mlp")
        if not config.get("parallel_attn", True):
            return replace(norms, before_feed="post_attention_layernorm")
    if kind == "stablelm" and config.get("use_parallel_residual"):
        return replace(norms, before_feed="")
    if kind == "opt" and not config.get("do_layer_norm_before", True):
        return replace(norms, final="")
    return norms


def _positions(fields: _Fields) -> int:
    beyond = fields.family.learned_positions
    if beyond is None:
        return 0
    return int(fields.get("max_position_embeddings", 0)) + beyond
