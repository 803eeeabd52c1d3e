"""Hybrids: which layers are attention, and what the others are, by fields of a config.

Sizes of a state space have several names, and so have the places of attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from irene.errors import ConfigError
from irene.trace.serving.decoder import Attention, Layer, Shared, StateSpace

PATTERN = "hybrid_override_pattern"
"""Field of hybrids: M state space, * attention, - feed-forward, E experts."""
KINDS = {
    "linear_attention": "M", "mamba": "M", "conv": "M", "moe": "E", "mlp": "-",
}  # fmt: skip
"""Kinds of layers in words, in lists of hybrids; all others are attention."""
SPACES: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "Mamba2": (
        {"heads": "mamba_num_heads", "head_dim": "mamba_head_dim",
         "state": "ssm_state_size", "groups": "n_groups", "kernel": "conv_kernel"},
        {"heads": "mamba_n_heads", "head_dim": "mamba_d_head", "state": "mamba_d_state",
         "groups": "mamba_n_groups", "kernel": "mamba_d_conv"},
        {"heads": "n_mamba_heads", "head_dim": "mamba_headdim",
         "state": "mamba_d_state", "groups": "mamba_ngroups",
         "kernel": "mamba_d_conv"},
    ),
    "GatedDeltaNet": (
        {"heads": "linear_num_value_heads", "head_dim": "linear_value_head_dim",
         "state": "linear_key_head_dim", "groups": "linear_num_key_heads",
         "kernel": "linear_conv_kernel_dim"},
    ),
    "KimiDeltaAttention": (
        {"heads": "linear_num_heads", "head_dim": "linear_head_dim",
         "state": "linear_head_dim", "groups": "linear_num_heads",
         "kernel": "linear_conv_kernel_dim"},
    ),
}  # fmt: skip
"""Names that configs have for the sizes of a state space, by its rule."""
NESTED = {
    "linear_head_dim": "head_dim", "linear_num_heads": "num_heads",
    "linear_conv_kernel_dim": "short_conv_kernel_size",
}  # fmt: skip
"""The same in `linear_attn_config`, as Kimi-Linear is published."""
LIGHTNING = ("minimax", "minimax_text_01")
"""Types of models whose linear attention has the heads of the other."""
SHARING = "n_mamba_heads"
"""Field of hybrids whose layers share their attention, as Zamba."""
STATE_TYPE = "mamba_ssm_cache_dtype"


def has_space(config: Mapping[str, Any]) -> bool:
    """Whether a config has the sizes of a state space."""
    sizes = [names["heads"] for several in SPACES.values() for names in several]
    return any(map(_flat(config).get, (*sizes, "mamba_dt_rank", "conv_L_cache")))


def with_spaces(
    given: Mapping[str, Any], hidden: int, layers: Sequence[Layer]
) -> list[Layer]:
    """Layers with what a hybrid has instead of, or beside, attention."""
    config = _flat(given)
    space = _space(config, hidden)
    if space is None:
        return list(layers)
    kinds = _kinds(config, len(layers))
    is_split = bool(set("E-S") & set(kinds))
    shared = _shared(config, kinds)
    wide = int(config.get("attention_hidden_size") or 2 * hidden)
    return [
        Layer(
            attention=_entered(both, wide if own else 0) if kind in "*PS" else None,
            feed=both.feed if kind in "E-S" or not is_split else None,
            space=space if kind in "MPS" else None,
            shared=own,
        )
        for kind, both, own in zip(kinds, layers, shared, strict=True)
    ]


def _entered(both: Layer, width: int) -> Attention | None:
    """Attention that is given so much, 0: the stream."""
    return both.attention and replace(both.attention, entered=width)


def _shared(config: Mapping[str, Any], kinds: str) -> list[Shared | None]:
    """What each layer has in common with others: every n-th of them the same."""
    blocks, rank = (int(config.get(n) or 0) for n in ("num_mem_blocks", "adapter_rank"))
    has_adapters = bool(config.get("use_shared_attention_adapter"))
    return [
        Shared(kinds[:i].count("S") < max(blocks, 1), has_adapters * rank, rank)
        if kind == "S"
        else None
        for i, kind in enumerate(kinds)
    ]


def _flat(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """With what is in a part of its own."""
    inner = config.get("linear_attn_config")
    if not isinstance(inner, Mapping):
        return config
    told = {name: inner.get(own) for name, own in NESTED.items()}
    places = [place - 1 for place in inner.get("full_attn_layers") or ()]
    return {**config, **told, "attn_layer_indices": places}


def _kinds(config: Mapping[str, Any], layers: int) -> str:
    """A letter for every layer of a hybrid.

    P: attention beside a state space; S: before it, shared by layers.
    """
    shares = bool(config.get(SHARING))
    listed = config.get("layers_block_type") or config.get("layer_types")
    kinds = str(config.get(PATTERN) or "")
    if not kinds and listed:
        words = {**KINDS, "hybrid": "S" if shares else "P"}
        kinds = "".join(words.get(str(word), "*") for word in listed)
    elif not kinds and (places := _places(config, layers)) is not None:
        seen = "S" if shares else "*"
        kinds = "".join(seen if i in places else "M" for i in range(layers))
    kinds = kinds or "P" * layers
    if len(kinds) != layers or set(kinds) - set("M*-EPS"):
        raise ConfigError(
            f"{PATTERN} is {kinds!r}: a letter of M, *, - and E for each of {layers} "
            "layers is expected"
        )
    return kinds


def _places(config: Mapping[str, Any], layers: int) -> set[int] | None:
    """Which layers are attention, None where no field says so."""
    if listed := config.get("attn_type_list"):
        return {i for i, is_attention in enumerate(listed) if is_attention}
    for name in ("attn_layer_indices", "full_attn_idxs", "hybrid_layer_ids"):
        if name in config:
            return set(config[name] or ())
    if every := config.get("attn_layer_period"):
        # Zamba begins to count after three layers, of which the third has it.
        first = 3 if config.get(SHARING) else 0
        first += int(config.get("attn_layer_offset", 0))
        return {*range(first, layers, every), *((2,) if config.get(SHARING) else ())}
    if every := config.get("full_attention_interval"):
        return set(range(every - 1, layers, every))
    return None


def _space(config: Mapping[str, Any], hidden: int) -> StateSpace | None:
    """The state space of a hybrid."""
    is_first = not config.get("mamba_headdim")
    if is_first and (rank := config.get("mamba_dt_rank")):
        channels = _size(config, "mamba_expand") * hidden
        state, kernel = (_size(config, f"mamba_d_{n}") for n in ("state", "conv"))
        rank = -(-hidden // 16) if rank == "auto" else int(rank)
        has_norm = not config.get(SHARING)
        return StateSpace(
            channels, 1, state, 1, kernel, "Mamba", rank=rank, has_norm=has_norm
        )
    for rule, several in SPACES.items():
        for names in several:
            if config.get(names["heads"]):
                sizes = {size: _size(config, name) for size, name in names.items()}
                is_fp32 = "32" in (config.get(STATE_TYPE) or "float32")
                return StateSpace(
                    **sizes,
                    rule=rule,
                    number_bytes=4 if is_fp32 else 2,
                    rank=sizes["head_dim"] if rule == "KimiDeltaAttention" else 0,
                    has_norm=bool(config.get("mamba_rms_norm", True)),
                )
    if config.get("conv_L_cache"):
        return StateSpace(hidden, 1, 0, 1, _size(config, "conv_L_cache"), "ShortConv")
    if config["model_type"] in LIGHTNING:
        heads = _size(config, "num_attention_heads")
        width = int(config.get("head_dim") or hidden // heads)
        return StateSpace(heads, width, width, heads, 0, "LightningAttention")
    return None


def _size(config: Mapping[str, Any], name: str) -> int:
    return checked_size(config.get(name), name)


def checked_size(value: Any, name: str) -> int:
    """What a config says of a size.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"the config's {name} is {value!r}, not a size")
    return value
