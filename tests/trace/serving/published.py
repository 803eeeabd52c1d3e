"""Models as transformers builds them, beside which configs are read."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

__all__ = ["built"]

LAYERS = 4


def built(kind: str, **fields: Any) -> tuple[dict[str, Any], int]:
    """Fields of a config of a kind with few layers, and its model's parameters."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        config = AutoConfig.for_model(kind, num_hidden_layers=LAYERS, **fields)
        model = AutoModelForCausalLM.from_config(config)
    return config.to_dict(), sum(each.numel() for each in model.parameters())
