"""Language models that read images or sound through placeholder tokens.

The prompt is one image (or sound) and then `seq_len` tokens of text. How many
placeholders an image takes, and in which form, is asked of the model itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from irene.trace.costs.call import tensors_in
from irene.trace.inputs.audio import features
from irene.trace.inputs.maker import InputMaker, Make
from irene.trace.inputs.sequences import decoder_tokens
from irene.trace.inputs.vision import (
    channels,
    grid,
    images,
    patches,
    pixels,
    size_of_images,
    videos,
)
from irene.trace.values import carrying_values

IMAGE_TOKENS = ("image_token_id", "image_token_index", "media_placeholder_token_id")
AUDIO_TOKENS = ("audio_token_id", "audio_token_index")
TILES = (2, 3, 5)
"""Numbers of tiles that a model may cut its image into."""
FRAMES = 4
"""Frames of a video that InstructBLIP takes."""


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
            # Numbers are sizes of this run, the reason is the same at all.
            problem = problem or re.sub(r"\d+", "…", " ".join(str(error).split()))[:120]
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
    shape = made["pixel_values"].shape[1:]
    if "high_res_pixel_values" in accepts:
        made["high_res_pixel_values"] = maker.floats(shape[0], 1024, 1024)
    if "pixel_attention_mask" in accepts and "spatial_shapes" not in accepts:
        # Images of zeros are padding: the content must be known to be something else.
        made["pixel_values"] = maker.ones(1, *shape)
    yield made
    if "image_sizes" in accepts:
        sizes = maker.whole([size_of_images(maker)] * maker.batch)
        yield made | {"image_sizes": sizes}
        for tiles in TILES:
            tiled = maker.floats(tiles, *shape)
            yield made | {"pixel_values": tiled, "image_sizes": sizes}


def _pictures_in_patches(maker: InputMaker) -> Iterator[dict[str, Any]]:
    made = {"pixel_values": patches(maker), "image_grid_thw": grid(maker)}
    if "image_merge_sizes" in maker.accepts:
        made["image_merge_sizes"] = maker.whole([2] * maker.batch)
    yield made
    side = maker.find(("patch_size",), "vision", 14)
    count = made["pixel_values"].shape[0]
    yield made | {"pixel_values": maker.numbers(count, channels(maker), side, side)}


def _sounds(maker: InputMaker) -> Iterator[dict[str, Any]]:
    """One sound for each sequence."""
    made = {k: v for k, v in features(maker).items() if k != "decoder_input_ids"}
    if "feature_attention_mask" in maker.accepts:
        frames = max(made["input_features"].shape[1:])
        made["feature_attention_mask"] = maker.mask(frames)
    yield made


def _several(maker: InputMaker) -> dict[str, Any]:
    """Idefics: one image, and which tokens may look at it."""
    return maker.with_tokens(
        pixel_values=pixels(maker, 1),
        image_attention_mask=maker.mask(maker.length, 1),
    )


def _regions(maker: InputMaker) -> dict[str, Any]:
    """LXMERT: features and boxes of 36 regions that a detector found."""
    config = maker.config
    return {
        "visual_feats": maker.floats(36, config.visual_feat_dim),
        "visual_pos": maker.floats(36, config.visual_pos_dim),
    }


def _grounding(maker: InputMaker) -> dict[str, Any]:
    """TVP: a clip whose images are padded to one size."""
    size = maker.config.max_img_size
    return maker.with_tokens(
        pixel_values=maker.floats(maker.config.num_frames, 3, size, size),
        attention_mask=maker.mask(maker.length),
    )


def _tiles(maker: InputMaker) -> dict[str, Any]:
    """Mllama: one image of one tile, which every token may look at."""
    tiles = maker.config.vision_config.max_num_tiles
    return maker.with_tokens(
        pixel_values=pixels(maker, 1, tiles),
        aspect_ratio_ids=maker.mask(1),
        aspect_ratio_mask=maker.mask(1, tiles),
        cross_attention_mask=maker.mask(maker.length, 1, tiles),
    )


def _kosmos(maker: InputMaker) -> dict[str, Any]:
    """Kosmos-2: the places of the image's queries are given as a mask."""
    queries = maker.config.latent_query_num
    where = torch.zeros(maker.batch, queries + maker.length, dtype=torch.long)
    where[:, :queries] = 1
    return images(maker) | {
        "input_ids": maker.tokens(queries + maker.length),
        "image_embeds_position_mask": maker.whole(where),
    }


def _words(maker: InputMaker) -> dict[str, Any]:
    """SAM 3: what to find, in at most as many words as its text part can take."""
    limit = maker.find(("max_position_embeddings",), "text", 32)
    return {"input_ids": maker.tokens(min(maker.length, limit))}


def _robot(maker: InputMaker) -> dict[str, Any]:
    """PI0: what a camera sees, the order in words, the state and the actions."""
    config = maker.config
    return maker.with_tokens(
        pixel_values=pixels(maker, 1),
        pixel_attention_mask=maker.mask(1, dtype=torch.bool),
        action_embeds=maker.floats(
            config.chunk_size + 1, config.dit_config.hidden_size
        ),
    )


def _asked_image(maker: InputMaker) -> dict[str, Any]:
    """BLIP-2 and InstructBLIP: the image as learned queries before the text."""
    frames = FRAMES if maker.model_type == "instructblipvideo" else 0
    queries = maker.config.num_query_tokens * (frames or 1)
    token = maker.find(("image_token_index", "image_token_id", "video_token_index"))
    ids = torch.full((maker.batch, queries + maker.length), maker.vocab // 2)
    ids[:, :queries] = token
    inputs: dict[str, Any] = {
        "pixel_values": pixels(maker, frames) if frames else pixels(maker),
        "input_ids": maker.whole(ids),
    }
    if "qformer_input_ids" in maker.accepts:
        vocab = maker.config.qformer_config.vocab_size
        inputs["qformer_input_ids"] = maker.tokens(vocab=vocab)
    return inputs | decoder_tokens(maker)


SPECIAL_MULTIMODAL: dict[str, Make] = {
    "blip-2": _asked_image,
    "idefics": _several,
    "instructblip": _asked_image,
    "instructblipvideo": _asked_image,
    "kosmos-2": _kosmos,
    "mllama": _tiles,
    "pi0": _robot,
    "tvp": _grounding,
    "xclip": lambda maker: maker.with_tokens(pixel_values=videos(maker)),
}
"""All inputs of model types that follow no general rule."""

BESIDE_USUAL: dict[str, Make] = {
    "clvp": features,
    "lxmert": _regions,
    "sam3": _words,
    "sam3_lite_text": _words,
    "sam3_lite_text_text_model": _words,
}
"""What comes beside the usual inputs, by model type."""
