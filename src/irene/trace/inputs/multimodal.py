"""Language models that read images or sound through placeholder tokens.

The prompt is one image (or sound) and then `seq_len` tokens of text. How many
placeholders an image takes, and in which form, is asked of the model itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from irene.trace.costs.call import tensors_in
from irene.trace.inputs.audio import features
from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.vision import (
    channels,
    grid,
    images,
    patches,
    size_of_images,
)
from irene.trace.values import carrying_values

__all__ = ["Inputs", "with_media"]

IMAGE_TOKENS = ("image_token_id", "image_token_index", "media_placeholder_token_id")
AUDIO_TOKENS = ("audio_token_id", "audio_token_index")
TILES = (2, 3, 5)
"""Numbers of tiles that a model may cut its image into."""


class Inputs(dict[str, Any]):
    """Keyword arguments for a model.

    Attributes:
        notes: What a reader of the result should know about them.
    """

    def __init__(self, inputs: Mapping[str, Any], notes: tuple[str, ...] = ()) -> None:
        super().__init__(inputs)
        self.notes = notes


def with_media(maker: InputMaker, tokens: dict[str, Any]) -> Inputs:
    """Add an image and a sound to the tokens of a model that reads them."""
    inputs = Inputs(tokens)
    if not _starts_a_prompt(maker):
        return inputs
    for kind, make, fields in (
        ("image", _pictures, IMAGE_TOKENS),
        ("audio", _sounds, AUDIO_TOKENS),
    ):
        token = maker.find(fields, default=-1)
        if token >= 0 and hasattr(maker.model, f"get_{kind}_features"):
            inputs = _with(maker, inputs, kind, make, token)
    return inputs


def _starts_a_prompt(maker: InputMaker) -> bool:
    """Media stand at the start: what continues from a KV cache is text."""
    return maker.spec.phase != "decode" and not maker.spec.context_len


def _with(
    maker: InputMaker,
    inputs: Inputs,
    kind: str,
    make: Callable[[InputMaker], Iterator[dict[str, Any]]],
    token: int,
) -> Inputs:
    """Add one kind of media in the first form that the model takes, if any."""
    problem = ""
    for media in make(maker):
        try:
            count = _positions(maker, kind, media)
        except Exception as error:  # noqa: BLE001  any code of the model may refuse it
            problem = problem or " ".join(str(error).split())[:120]
            continue
        placed = _with_placeholders(maker, inputs, kind, token, count)
        return Inputs(inputs | media | placed, inputs.notes)
    note = f"text alone, without {kind}, of which the model refused ours: {problem}"
    return Inputs(inputs, (*inputs.notes, note))


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


def _pictures(maker: InputMaker) -> Iterator[dict[str, Any]]:
    """One image for each sequence, in the forms that models take."""
    accepts = maker.accepts
    if "image_grid_thw" in accepts:
        yield from _pictures_in_patches(maker)
        return
    made = images(maker)
    pixels = made["pixel_values"]
    if "high_res_pixel_values" in accepts:
        large = maker.floats(*pixels.shape[:2], 1024, 1024)
        made["high_res_pixel_values"] = large
    if "pixel_attention_mask" in accepts and "spatial_shapes" not in accepts:
        # Images of zeros are padding: the content must be known to be something else.
        made["pixel_values"] = maker.ones(maker.batch, 1, *pixels.shape[1:])
    yield made
    if "image_sizes" in accepts:
        sizes = maker.whole([size_of_images(maker)] * maker.batch)
        yield made | {"image_sizes": sizes}
        for tiles in TILES:
            tiled = maker.floats(maker.batch, tiles, *pixels.shape[1:])
            yield made | {"pixel_values": tiled, "image_sizes": sizes}


def _pictures_in_patches(maker: InputMaker) -> Iterator[dict[str, Any]]:
    made = {"pixel_values": patches(maker), "image_grid_thw": grid(maker)}
    if "image_merge_sizes" in maker.accepts:
        made["image_merge_sizes"] = maker.whole([2] * maker.batch)
    yield made
    side = maker.find(("patch_size",), "vision", 14)
    count = made["pixel_values"].shape[0]
    yield made | {"pixel_values": maker.floats(count, channels(maker), side, side)}


def _sounds(maker: InputMaker) -> Iterator[dict[str, Any]]:
    """One sound for each sequence."""
    made = {k: v for k, v in features(maker).items() if k != "decoder_input_ids"}
    if "feature_attention_mask" in maker.accepts:
        frames = max(made["input_features"].shape[1:])
        made["feature_attention_mask"] = maker.mask(maker.batch, frames)
    yield made
