"""How long an input a model can take, and the check that a run keeps to it."""

from __future__ import annotations

from typing import Any

from torch import nn

from irene.errors import SpecError
from irene.spec import RunSpec

__all__ = ["check_positions", "position_limit"]

FIELDS = ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx")
RELATIVE = frozenset({"t5", "mt5", "umt5", "longt5", "switch_transformers", "xlnet"})
"""Model types whose positions are relative: their config's number is no limit."""


def position_limit(model: nn.Module) -> int | None:
    """Longest sequence the model's positions reach, or None if nothing bounds it."""
    config: Any = getattr(model, "config", None)
    if config is None or config.model_type in RELATIVE:
        return None
    for holder in (config, getattr(config, "text_config", None)):
        for field in FIELDS:
            value = getattr(holder, field, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value - _reserved(model, value)
    return None


def _reserved(model: nn.Module, positions: int) -> int:
    """Positions that are never reached: RoBERTa's start after the padding id."""
    for name, module in model.named_modules():
        if (
            isinstance(module, nn.Embedding)
            and "position" in name
            and module.num_embeddings == positions
            and module.padding_idx is not None
        ):
            return module.padding_idx + 1
    return 0


def check_positions(model: nn.Module, spec: RunSpec) -> None:
    """Refuse a run that is longer than the model's positions.

    Raises:
        SpecError: With the limit.
    """
    limit = position_limit(model)
    if limit is None or not _reads_tokens(model):
        return
    length = spec.seq_len
    if getattr(model.config, "is_encoder_decoder", False) and spec.decoder_len:
        length = max(length, spec.decoder_len)
    context = spec.context_len or 0
    wanted = context + (1 if spec.phase == "decode" else length)
    if wanted > limit:
        raise SpecError(
            f"{spec.model} takes at most {limit:,} positions, asked for {wanted:,}: "
            "choose a shorter sequence (or context)"
        )


def _reads_tokens(model: nn.Module) -> bool:
    main = getattr(model, "main_input_name", "input_ids")
    return main == "input_ids" or hasattr(model.config, "max_target_positions")
