"""Reduced configs: the architectures of the paper, and others not collected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irene.trace import catalogue

__all__ = ["COLLECTED", "NEW", "write_configs"]

COLLECTED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert": (
        "bert-base-uncased",
        {
            "hidden_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
    ),
    "roberta": (
        "roberta-base",
        {
            "hidden_size": 384,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "intermediate_size": 1536,
        },
    ),
    "distilbert": (
        "distilbert-base-uncased",
        {"dim": 512, "n_layers": 2, "n_heads": 8, "hidden_dim": 2048},
    ),
    "gpt2": ("gpt2", {"n_embd": 256, "n_layer": 4, "n_head": 4}),
    "distilgpt2": ("distilgpt2", {"n_embd": 512, "n_layer": 2, "n_head": 8}),
    "openai-gpt": ("openai-gpt", {"n_embd": 384, "n_layer": 3, "n_head": 6}),
}
"""Name, model of the catalogue, and what is changed: learned from."""

NEW: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "albert": (
        "albert-base-v2",
        {
            "hidden_size": 384,
            "num_hidden_layers": 4,
            "num_attention_heads": 6,
            "intermediate_size": 1536,
        },
    ),
    "electra": ("electra-small-discriminator", {"num_hidden_layers": 4}),
    "opt": (
        "opt-125m",
        {
            "hidden_size": 512,
            "word_embed_proj_dim": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "ffn_dim": 2048,
        },
    ),
    "mpnet": (
        "mpnet-base",
        {
            "hidden_size": 320,
            "num_hidden_layers": 3,
            "num_attention_heads": 5,
            "intermediate_size": 1280,
        },
    ),
}
"""Architectures that are never learned from: the exam."""


def write_configs(folder: Path) -> None:
    """Write a config.json of each model.

    Args:
        folder: Where to; made if need be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, (base, changes) in {**COLLECTED, **NEW}.items():
        entry = catalogue.find(base)
        assert entry is not None, base
        config = {**entry.config, **changes}
        (folder / f"{name}.json").write_text(json.dumps(config, indent=1) + "\n")
