"""How long an input a model can take, and a run that keeps to it."""

from __future__ import annotations

from typing import Any

from torch import nn

from irene.errors import SpecError
from irene.spec import RunSpec

__all__ = ["fit_positions", "position_limit", "reads_tokens"]

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


def fit_positions(model: nn.Module, spec: RunSpec) -> RunSpec:
    """The run, at most as long as the model's positions reach.

    A length that nobody gave is cut to what there is.

    Raises:
        SpecError: A length that was given goes beyond it.
    """
    limit = position_limit(model)
    if limit is None or not reads_tokens(model):
        return spec
    decodes = spec.phase == "decode"
    length = spec.seq_len
    if getattr(model.config, "is_encoder_decoder", False) and spec.decoder_len:
        length = max(length, spec.decoder_len)
    wanted = (spec.context_len or 0) + (1 if decodes else length)
    if wanted <= limit:
        return spec
    if decodes and not (spec.given("context_len") or spec.given("seq_len")):
        return spec.chosen_as(seq_len=limit - 1, context_len=limit - 1)
    room = limit - (spec.context_len or 0)
    if (
        not decodes
        and length == spec.seq_len
        and not spec.given("seq_len")
        and room > 0
    ):
        return spec.chosen_as(seq_len=room)
    raise SpecError(
        f"{spec.model} takes at most {limit:,} positions, asked for {wanted:,}: "
        "choose a shorter sequence (or context)"
    )


def reads_tokens(model: nn.Module) -> bool:
    """Whether the length of a run means anything to a model."""
    main = getattr(model, "main_input_name", "input_ids")
    return main == "input_ids" or hasattr(model.config, "max_target_positions")
