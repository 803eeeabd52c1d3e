"""Models of images and text whose inputs follow no general rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.vision import channels, images, size_of_images, videos

__all__ = ["ALSO_MULTIMODAL", "SPECIAL_MULTIMODAL"]

Make = Callable[[InputMaker], dict[str, Any]]

FRAMES = 4
"""Frames of a video that InstructBLIP takes."""


def _several(maker: InputMaker) -> dict[str, Any]:
    """Idefics: one image, and which tokens may look at it."""
    pixels = maker.floats(maker.batch, 1, channels(maker), *size_of_images(maker))
    return {
        "input_ids": maker.tokens(maker.batch, maker.length),
        "pixel_values": pixels,
        "image_attention_mask": maker.mask(maker.batch, maker.length, 1),
    }


def _regions(maker: InputMaker) -> dict[str, Any]:
    """LXMERT: features and boxes of 36 regions that a detector found."""
    config = maker.config
    return {
        "visual_feats": maker.floats(maker.batch, 36, config.visual_feat_dim),
        "visual_pos": maker.floats(maker.batch, 36, config.visual_pos_dim),
    }


def _text_and_clip(maker: InputMaker) -> dict[str, Any]:
    ids = maker.tokens(maker.batch, maker.length)
    return {"input_ids": ids, "pixel_values": videos(maker)}


def _grounding(maker: InputMaker) -> dict[str, Any]:
    """TVP: a clip whose images are padded to one size."""
    config = maker.config
    size = config.max_img_size
    shape = (maker.batch, config.num_frames, 3, size, size)
    ids = maker.tokens(maker.batch, maker.length)
    return {
        "input_ids": ids,
        "pixel_values": maker.floats(*shape),
        "attention_mask": maker.mask(maker.batch, maker.length),
    }


def _tiles(maker: InputMaker) -> dict[str, Any]:
    """Mllama: one image of one tile, which every token may look at."""
    tiles = maker.config.vision_config.max_num_tiles
    size = size_of_images(maker)
    batch, length = maker.batch, maker.length
    return {
        "input_ids": maker.tokens(batch, length),
        "pixel_values": maker.floats(batch, 1, tiles, channels(maker), *size),
        "aspect_ratio_ids": maker.mask(batch, 1),
        "aspect_ratio_mask": maker.mask(batch, 1, tiles),
        "cross_attention_mask": maker.mask(batch, length, 1, tiles),
    }


def _kosmos(maker: InputMaker) -> dict[str, Any]:
    """Kosmos-2: the places of the image's queries are given as a mask."""
    queries = maker.config.latent_query_num
    ids = maker.tokens(maker.batch, queries + maker.length)
    where = torch.zeros(maker.batch, queries + maker.length, dtype=torch.long)
    where[:, :queries] = 1
    return images(maker) | {
        "input_ids": ids,
        "image_embeds_position_mask": maker.whole(where),
    }


def _words(maker: InputMaker) -> dict[str, Any]:
    """SAM 3: what to find, in at most as many words as its text part can take."""
    limit = maker.find(("max_position_embeddings",), "text", 32)
    return {"input_ids": maker.tokens(maker.batch, min(maker.length, limit))}


def _robot(maker: InputMaker) -> dict[str, Any]:
    """PI0: what a camera sees, the order in words, the state and the actions."""
    config = maker.config
    width = config.dit_config.hidden_size
    pixels = maker.floats(maker.batch, 1, channels(maker), *size_of_images(maker))
    ids = maker.tokens(maker.batch, maker.length)
    return {
        "input_ids": ids,
        "pixel_values": pixels,
        "pixel_attention_mask": maker.mask(maker.batch, 1, dtype=torch.bool),
        "action_embeds": maker.floats(maker.batch, config.chunk_size + 1, width),
    }


def _asked_image(maker: InputMaker) -> dict[str, Any]:
    """BLIP-2 and InstructBLIP: the image as learned queries before the text."""
    config = maker.config
    queries = config.num_query_tokens
    pixels = images(maker)["pixel_values"]
    inputs: dict[str, Any] = {}
    if maker.model_type == "instructblipvideo":
        queries *= FRAMES
        pixels = maker.floats(maker.batch, FRAMES, *pixels.shape[1:])
    if "qformer_input_ids" in maker.accepts:
        vocab = config.qformer_config.vocab_size
        inputs["qformer_input_ids"] = maker.tokens(maker.batch, maker.length, vocab)
    token = maker.find(("image_token_index", "image_token_id", "video_token_index"))
    ids = torch.full((maker.batch, queries + maker.length), maker.vocab // 2)
    ids[:, :queries] = token
    inputs |= {"pixel_values": pixels, "input_ids": maker.whole(ids)}
    if "decoder_input_ids" in maker.accepts:
        inputs["decoder_input_ids"] = maker.tokens(maker.batch, maker.decoder_length)
    return inputs


SPECIAL_MULTIMODAL: dict[str, Make] = {
    "blip-2": _asked_image,
    "idefics": _several,
    "instructblip": _asked_image,
    "instructblipvideo": _asked_image,
    "kosmos-2": _kosmos,
    "mllama": _tiles,
    "pi0": _robot,
    "tvp": _grounding,
    "xclip": _text_and_clip,
}
"""All inputs, by model type."""

ALSO_MULTIMODAL: dict[str, Make] = {
    "lxmert": _regions,
    "sam3": _words,
    "sam3_lite_text": _words,
    "sam3_lite_text_text_model": _words,
}
"""What comes beside the usual inputs, by model type."""
