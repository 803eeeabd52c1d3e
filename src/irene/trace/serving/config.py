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
    StateSpace,
)
from irene.trace.serving.families import FAMILIES, Family

__all__ = ["read_decoder"]

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
NOT_ATTENTION = ("mamba", "ssm", "linear_", "rwkv", "conv_", "recurrent", "xlstm")
"""Words in names of fields of models that are not, or not only, attention."""
PUBLISHED_IN_FP8 = 7168
"""Width of DeepSeek V3, R1 and Kimi K2, whose weights are published in fp8 blocks."""
PATTERN = "hybrid_override_pattern"
"""Field of hybrids: M state space, * attention, - feed-forward, E experts."""
PACKED = {"MXFP4": "mxfp4", "NVFP4": "fp4"}
"""Types of GGUF files that engines also multiply as such."""
ALIKE = 0.15
"""Bits by which weights of a file may differ from a rule that holds on average."""
STATE_TYPE = "mamba_ssm_cache_dtype"
USUAL_PATTERN = 6
"""Gemma 3: every sixth layer sees everything."""


def read_decoder(config: Mapping[str, Any]) -> Decoder:
    """Read what a serving engine would read from a config.

    Args:
        config: Fields of a config.json; of a model that also sees or hears, the text
            part is read.

    Raises:
        ConfigError: It is not the config of a decoder whose layers are attention and
            feed-forward.
    """
    if isinstance(config.get("text_config"), Mapping):
        inner = {"model_type": _text_type(config), **config["text_config"]}
        return read_decoder(inner)
    family, notes = _family(config)
    fields = _Fields(config, family)
    layers = fields.size("num_hidden_layers")
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
    if config.get(PATTERN):
        kinds = zip(_kinds(config, layers), made, strict=True)
        made = [_one_kind(fields, kind, both) for kind, both in kinds]
    width = int(config.get("word_embed_proj_dim") or hidden)
    published = _published_type(config, family, hidden)
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
        quantizes_all=family.quantizes_all,
        notes=notes + _stored(config, published),
    )


def _kinds(config: Mapping[str, Any], layers: int) -> str:
    """A letter for every layer of a hybrid."""
    kinds = str(config[PATTERN])
    if len(kinds) != layers or set(kinds) - set("M*-E"):
        raise ConfigError(
            f"{PATTERN} is {kinds!r}: a letter of M, *, - and E for each of {layers} "
            "layers is expected"
        )
    return kinds


def _one_kind(fields: _Fields, kind: str, both: Layer) -> Layer:
    """The layer of a hybrid: state space, attention, dense or experts."""
    if kind == "*":
        return Layer(attention=both.attention)
    if kind in "-E":
        return Layer(feed=both.feed)
    return Layer(
        space=StateSpace(
            heads=fields.size("mamba_num_heads"),
            head_dim=fields.size("mamba_head_dim"),
            state=fields.size("ssm_state_size"),
            groups=fields.size("n_groups"),
            kernel=int(fields.get("conv_kernel", 4)),
            number_bytes=4 if "32" in fields.get(STATE_TYPE, "float32") else 2,
        )
    )


def _text_type(config: Mapping[str, Any]) -> str:
    outer = str(config.get("model_type", ""))
    return outer if outer in FAMILIES else f"{outer}_text"


def _family(config: Mapping[str, Any]) -> tuple[Family, tuple[str, ...]]:
    """The family of a config, and a note where Llama stands in for it."""
    kind = config.get("model_type")
    if kind in FAMILIES:
        return FAMILIES[str(kind)], ()
    if not isinstance(kind, str):
        raise ConfigError("the config has no model_type")
    is_other = any(word in name for name in config for word in NOT_ATTENTION)
    types = [str(each) for each in config.get("layer_types") or ()]
    is_other |= any(not each.endswith("attention") for each in types)
    is_other |= any("linear" in each for each in types)
    is_other |= bool(config.get("is_encoder_decoder"))
    if "rms_norm_eps" not in config or "hidden_size" not in config or is_other:
        raise ConfigError(
            f"a model of type {kind!r} is not read as a decoder of attention and "
            "feed-forward layers"
        )
    note = f"extrapolation: {kind} is unknown to serving, read as a Llama of its sizes"
    slides = "all" if config.get("sliding_window") else "none"
    return Family(_class_name(config), slides=slides), (note,)


def _class_name(config: Mapping[str, Any]) -> str:
    named = config.get("architectures") or ["DecoderForCausalLM"]
    return str(named[0])


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
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            own = self.family.aliases.get(name, name)
            raise ConfigError(f"the config's {own} is {value!r}, not a size")
        return value

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
    return Attention(
        heads=heads,
        kv_heads=_kv_heads(fields, heads),
        head_dim=head_dim,
        qkv_bias=family.qkv_bias if qkv_bias is None else bool(qkv_bias),
        out_bias=family.out_bias if bias is None else out_bias,
        qk_norm=_qk_norm(config, family),
        rotary=family.rotary and not config.get("alibi", False),
        sinks=config["model_type"] == "gpt_oss",
        latent=_latent(config),
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
    if family.qk_norm == "plain":
        return "plain" if config.get("use_qk_norm", True) else ""
    if config.get("use_qk_norm") or config.get("qk_layernorm"):
        return "full"
    return family.qk_norm


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
    dense = FeedForward(
        inter=_inter(fields, hidden),
        gated=family.gated,
        bias=bool(config.get("mlp_bias", config.get("bias", family.feed_bias))),
        activation=act or family.activation,
    )
    experts = next((int(config[name]) for name in EXPERTS if config.get(name)), 0)
    if not experts:
        return [dense] * layers
    inter = int(config.get("moe_intermediate_size") or dense.inter)
    shared = int(config.get("shared_expert_intermediate_size") or 0)
    # Llama 4 names the width of its dense layers; one expert more is for every token.
    wide = int(config.get("intermediate_size_mlp") or 0)
    common = int(config.get("n_shared_experts") or bool(wide))
    dense = replace(dense, inter=wide or dense.inter)
    sparse = replace(
        dense,
        inter=inter,
        experts=experts,
        topk=int(config.get("num_experts_per_tok") or config.get("moe_topk") or 1),
        shared_inter=shared or inter * common,
        shared_gate=bool(shared),
        router_bias=config["model_type"] in ("gpt_oss", "deepseek_v3"),
    )
    return [sparse if has else dense for has in _sparse_layers(config, layers)]


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


def _sparse_layers(config: Mapping[str, Any], layers: int) -> list[bool]:
    """Whether each layer of a model with experts has them."""
    if config.get("moe_layers"):
        return [i in config["moe_layers"] for i in range(layers)]
    dense = set(config.get("mlp_only_layers") or ())
    first = int(config.get("first_k_dense_replace") or 0)
    # These count from one: the last of every `step` layers has experts.
    last = ("decoder_sparse_step", "interleave_moe_layer_step")
    offset = int(any(name in config for name in last))
    named = (config.get(name) for name in (*last, "moe_layer_freq"))
    step = int(next((each for each in named if each), 1))
    return [
        i >= first and i not in dense and (i + offset) % step == 0
        for i in range(layers)
    ]


def _inter(fields: _Fields, hidden: int) -> int:
    given = fields.get("intermediate_size")
    return int(given or hidden * int(fields.get("expansion_ratio", 4)))


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


def _published_type(config: Mapping[str, Any], family: Family, hidden: int) -> str:
    """How linear weights are published."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        is_fp8 = family.weight_type == "fp8_block" and hidden != PUBLISHED_IN_FP8
        return "" if is_fp8 else family.weight_type
    method = str(given.get("quant_method", "")).lower()
    algorithm = str(given.get("quant_algo", "")).lower()
    if method == "gguf":
        stored = str(given.get("quant_type", ""))
        return PACKED.get(stored) or str(given.get("mix", ""))
    if method == "fp8":
        return "fp8_block" if given.get("weight_block_size") else "fp8"
    if method == "compressed-tensors":
        return _compressed_type(given)
    for word, kind in (("mxfp4", "mxfp4"), ("nvfp4", "fp4"), ("fp8", "fp8")):
        if word in (method, algorithm):
            return kind
    bits = given.get("bits") or given.get("w_bit")
    return "int4" if bits == 4 or method in ("awq", "gptq") else ""


def _stored(config: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """A note where weights are stored in a way that only something near stands for."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping) or given.get("quant_method") != "gguf":
        return ()
    off = float(given.get("bits_apart", 0.0))
    told = f"weights stored as {', '.join(given.get('weights', ()))}: {kind}"
    if off < ALIKE:
        return (told,)
    return (f"extrapolation: {told} is the nearest known, {off:.2g} bits apart",)


def _compressed_type(given: Mapping[str, Any]) -> str:
    """How `compressed-tensors` stores weights: type and bits of its first group."""
    groups = given.get("config_groups") or {}
    found = (group.get("weights") or {} for group in groups.values())
    weights = next(found, {})
    is_float, bits = weights.get("type") == "float", weights.get("num_bits")
    if bits == 8 and is_float:
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    if bits == 4:
        return "fp4" if is_float else "int4"
    return ""
