"""Language models that read images or sound through placeholder tokens.

The prompt is one image (or sound) and then `seq_len` tokens of text. How many
placeholders an image takes is asked of the model itself.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch

from irene.trace.costs.call import tensors_in
from irene.trace.inputs.audio import features
from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.vision import grid, images, patches, size_of_images
from irene.trace.values import carrying_values

__all__ = ["pictures", "with_media"]

logger = logging.getLogger(__name__)

IMAGE_TOKENS = ("image_token_id", "image_token_index", "media_placeholder_token_id")
AUDIO_TOKENS = ("audio_token_id", "audio_token_index")


def with_media(maker: InputMaker, inputs: dict[str, Any]) -> dict[str, Any]:
    """Add an image and a sound to the tokens of a model that reads them."""
    if not _starts_a_prompt(maker):
        return inputs
    for kind, make, tokens in (
        ("image", pictures, IMAGE_TOKENS),
        ("audio", _sounds, AUDIO_TOKENS),
    ):
        token = maker.find(tokens, default=-1)
        if token >= 0 and hasattr(maker.model, f"get_{kind}_features"):
            inputs = _with(maker, inputs, kind, make, token)
    return inputs


def _starts_a_prompt(maker: InputMaker) -> bool:
    """Media stand at the start: what continues from a KV cache is text."""
    return maker.spec.phase != "decode" and not maker.spec.context_len


def _with(
    maker: InputMaker,
    inputs: dict[str, Any],
    kind: str,
    make: Callable[[InputMaker], dict[str, Any]],
    token: int,
) -> dict[str, Any]:
    """Add one kind of media, if the model can take what is made for it."""
    try:
        media = make(maker)
        count = _positions(maker, kind, media)
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError) as error:
        logger.info("%s: text without %s: %s", maker.model_type, kind, error)
        return inputs
    return inputs | media | _with_placeholders(maker, inputs, kind, token, count)


def _positions(maker: InputMaker, kind: str, media: dict[str, Any]) -> int:
    """Positions that the media of one sequence take, from the model's own code."""
    extract = getattr(maker.model, f"get_{kind}_features")
    known = inspect.signature(extract).parameters
    given = {name: value for name, value in media.items() if name in known}
    with torch.no_grad(), carrying_values():
        out = extract(**given)
    found = tensors_in((getattr(out, "pooler_output", out),))
    return sum(tensor[..., 0].numel() for tensor in found) // maker.batch


def _with_placeholders(
    maker: InputMaker, inputs: dict[str, Any], kind: str, token: int, count: int
) -> dict[str, Any]:
    ids = inputs["input_ids"]
    placeholders = torch.full((maker.batch, count), token)
    with carrying_values():
        joined = torch.cat([maker.whole(placeholders), ids], 1)
    added: dict[str, Any] = {"input_ids": joined}
    if "mm_token_type_ids" in maker.accepts:
        types = torch.zeros(joined.shape, dtype=torch.long, device="cpu")
        types[:, :count] = 1 if kind == "image" else 3
        added["mm_token_type_ids"] = maker.whole(types)
    return added


def pictures(maker: InputMaker) -> dict[str, Any]:
    """One image for each sequence, in the form that the model takes."""
    accepts = maker.accepts
    if "image_grid_thw" in accepts:
        return {"pixel_values": patches(maker), "image_grid_thw": grid(maker)}
    made = images(maker)
    pixels = made["pixel_values"]
    if "pixel_attention_mask" in accepts and "spatial_shapes" not in accepts:
        # Images of zeros are padding: the content must be known to be something else.
        made["pixel_values"] = maker.ones(maker.batch, 1, *pixels.shape[1:])
    if "image_sizes" in accepts:
        made["image_sizes"] = maker.whole([size_of_images(maker)] * maker.batch)
    return made


def _sounds(maker: InputMaker) -> dict[str, Any]:
    return {k: v for k, v in features(maker).items() if k != "decoder_input_ids"}
