"""Which layers look at a window only, and which have experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["sparse_layers", "windows"]

USUAL_PATTERN = 6
"""Gemma 3: every sixth layer sees everything."""


def windows(config: Mapping[str, Any], layers: int, slides: str) -> list[int]:
    """The window of every layer; 0 for one that sees everything.

    Args:
        config: Fields of the config.
        layers: How many layers there are.
        slides: The family's habit, where the config lists nothing.
    """
    window = config.get("sliding_window") or 0
    if "use_sliding_window" in config:
        if not config["use_sliding_window"]:
            return [0] * layers
        slides = "late"
    kinds = config.get("layer_types") or _listed_types(config)
    if kinds:
        return [window if "sliding" in str(k) else 0 for k in kinds[:layers]]
    habits: Mapping[str, Callable[[int], bool]] = {
        "none": lambda i: False,
        "all": lambda i: True,
        "even": lambda i: i % 2 == 0,
        "late": lambda i: i >= int(config.get("max_window_layers", layers)),
        "pattern": lambda i: (i + 1) % _pattern(config) != 0,
    }
    has_window = habits[slides]
    return [window if window and has_window(i) else 0 for i in range(layers)]


def _pattern(config: Mapping[str, Any]) -> int:
    return int(config.get("sliding_window_pattern") or USUAL_PATTERN)


def _listed_types(config: Mapping[str, Any]) -> list[str]:
    """GPT-Neo: `[[["global", "local"], 12]]` is twelve times both, in this order."""
    listed = config.get("attention_types") or ()
    words = [word for kinds, times in listed for word in list(kinds) * int(times)]
    return ["sliding" if word == "local" else "full" for word in words]


def sparse_layers(config: Mapping[str, Any], layers: int) -> list[bool]:
    """Whether each layer has experts.

    Args:
        config: Fields of the config; that it has experts at all is known.
        layers: How many layers there are.
    """
    dense = set(config.get("mlp_only_layers") or ())
    first = int(config.get("first_k_dense_replace") or 0)
    step = int(config.get("decoder_sparse_step") or config.get("moe_layer_freq") or 1)
    offset = 1 if "decoder_sparse_step" in config else 0
    return [
        i >= first and i not in dense and (i + offset) % step == 0
        for i in range(layers)
    ]
