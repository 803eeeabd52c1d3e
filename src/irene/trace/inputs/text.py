"""Tokens, and what some models read beside them."""

from __future__ import annotations

from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker

__all__ = ["boxes", "decoder_tokens", "text"]


def text(maker: InputMaker) -> dict[str, Any]:
    """Token ids for the encoder and, where there is one, the decoder."""
    inputs: dict[str, Any] = {"input_ids": maker.tokens(maker.batch, maker.length)}
    inputs |= decoder_tokens(maker)
    if "bbox" in maker.accepts:
        inputs["bbox"] = boxes(maker)
    return inputs


def decoder_tokens(maker: InputMaker) -> dict[str, Any]:
    """Token ids of the decoder of an encoder-decoder model."""
    if "decoder_input_ids" not in maker.accepts:
        return {}
    return {"decoder_input_ids": maker.tokens(maker.batch, maker.decoder_length)}


def boxes(maker: InputMaker) -> torch.Tensor:
    """The place of every token on a page: [left, top, right, bottom]."""
    place = torch.tensor([10, 20, 30, 40])
    shape = (maker.batch, maker.length, 4)
    if maker.model_type in BOXES_AS_FRACTIONS:
        return maker.floats(*shape)
    return maker.whole(place.expand(shape).contiguous())


BOXES_AS_FRACTIONS = frozenset({"bros", "udop"})
"""Model types whose boxes are fractions of the page, not thousandths."""
