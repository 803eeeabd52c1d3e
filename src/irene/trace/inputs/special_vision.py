"""Models of images whose inputs follow no general rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.vision import (
    PATCH_LAYERS,
    SIDE,
    channels,
    grid,
    images,
    size_of_images,
    videos,
)

__all__ = ["ALSO_VISION", "SPECIAL_VISION"]

Make = Callable[[InputMaker], dict[str, Any]]


def _pair(maker: InputMaker) -> dict[str, Any]:
    """Matching of keypoints: two images each."""
    return {"pixel_values": maker.floats(maker.batch, 2, 3, 480, 640)}


def _several(maker: InputMaker) -> dict[str, Any]:
    """Idefics: one image, and which tokens may look at it."""
    pixels = maker.floats(maker.batch, 1, channels(maker), *size_of_images(maker))
    return {
        "input_ids": maker.tokens(maker.batch, maker.length),
        "pixel_values": pixels,
        "image_attention_mask": maker.mask(maker.batch, maker.length, 1),
    }


def _square_patches(maker: InputMaker) -> dict[str, Any]:
    """Kimi: patches as small images."""
    size = maker.find(("patch_size",), "vision", 14)
    where = grid(maker)
    count = maker.batch * SIDE * SIDE
    return {"pixel_values": maker.floats(count, 3, size, size), "grid_thw": where}


def _slices(maker: InputMaker) -> dict[str, Any]:
    """MiniCPM-V: rows of patches of all images, and the sides of each."""
    size = maker.find(("patch_size",), "vision", 14)
    width = maker.batch * SIDE * SIDE * size
    return {
        "pixel_values": maker.floats(1, channels(maker), size, width),
        "target_sizes": maker.whole([[SIDE, SIDE]] * maker.batch),
    }


def _with_places(maker: InputMaker) -> dict[str, Any]:
    """Gemma 4: patches with the column and row of each."""
    side = 3 * maker.find(("pooling_kernel_size",), "vision", 3)
    width = maker.first_width(("patch_embedder",))
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    return {
        "pixel_values": maker.floats(maker.batch, side * side, width),
        "pixel_position_ids": maker.whole(places.repeat(maker.batch, 1, 1)),
    }


def _prompted(maker: InputMaker) -> dict[str, Any]:
    """SegGPT: an image, and another one with its mask as the example."""
    height, width = size_of_images(maker)
    pixels = maker.floats(maker.batch, channels(maker), height // 2, width)
    return {
        "pixel_values": pixels,
        "prompt_pixel_values": maker.floats(*pixels.shape),
        "prompt_masks": maker.floats(*pixels.shape),
    }


def _task(maker: InputMaker) -> dict[str, Any]:
    """OneFormer: the task in words beside the image."""
    tokens = maker.tokens(maker.batch, maker.config.task_seq_len)
    return images(maker) | {"task_inputs": tokens}


def _regions(maker: InputMaker) -> dict[str, Any]:
    """LXMERT: features and boxes of 36 regions that a detector found."""
    config = maker.config
    return {
        "visual_feats": maker.floats(maker.batch, 36, config.visual_feat_dim),
        "visual_pos": maker.floats(maker.batch, 36, config.visual_pos_dim),
    }


def _clip_of(name: str) -> Make:
    def make(maker: InputMaker) -> dict[str, Any]:
        return {name: videos(maker)}

    return make


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


def _asked_image(maker: InputMaker) -> dict[str, Any]:
    """BLIP-2 and InstructBLIP: the image as learned queries before the text."""
    config = maker.config
    queries = config.num_query_tokens
    inputs: dict[str, Any] = {}
    pixels = images(maker)["pixel_values"]
    if "qformer_input_ids" in maker.accepts:
        vocab = config.qformer_config.vocab_size
        inputs["qformer_input_ids"] = maker.tokens(maker.batch, maker.length, vocab)
    if maker.model_type == "instructblipvideo":
        frames = 4
        queries *= frames
        pixels = maker.floats(maker.batch, frames, *pixels.shape[1:])
        rows = maker.batch
        vocab = config.qformer_config.vocab_size
        inputs["qformer_input_ids"] = maker.tokens(rows, maker.length, vocab)
    token = maker.find(("image_token_index", "image_token_id", "video_token_index"))
    ids = torch.full((maker.batch, queries + maker.length), maker.vocab // 2)
    ids[:, :queries] = token
    inputs |= {"pixel_values": pixels, "input_ids": maker.whole(ids)}
    if "decoder_input_ids" in maker.accepts:
        inputs["decoder_input_ids"] = maker.tokens(maker.batch, maker.decoder_length)
    return inputs


def _words(maker: InputMaker) -> dict[str, Any]:
    """SAM 3: what to find, in at most as many words as its text part can take."""
    limit = maker.find(("max_position_embeddings",), "text", 32)
    return {"input_ids": maker.tokens(maker.batch, min(maker.length, limit))}


def _sized(height: int, width: int) -> Make:
    """An image size that the config does not say."""

    def make(maker: InputMaker) -> dict[str, Any]:
        return {"pixel_values": maker.floats(maker.batch, 3, height, width)}

    return make


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


SPECIAL_VISION: dict[str, Make] = {
    "blip-2": _asked_image,
    "depth_pro": _sized(1536, 1536),
    "efficientloftr": _pair,
    "gemma4_vision": _with_places,
    "idefics": _several,
    "instructblip": _asked_image,
    "instructblipvideo": _asked_image,
    "kimi_k25_vision": _square_patches,
    "kosmos-2": _kosmos,
    "lightglue": _pair,
    "minicpm_ocr_vision": _slices,
    "minicpmv4_7_vision": _slices,
    "oneformer": _task,
    "pi0": _robot,
    "rf_detr": _sized(560, 560),  # whole windows of patches
    "seggpt": _prompted,
    "timesformer": _clip_of("pixel_values"),
    "tvp": _grounding,
    "videomae": _clip_of("pixel_values"),
    "vivit": _clip_of("pixel_values"),
    "xclip": _text_and_clip,
}
"""All inputs, by model type."""

ALSO_VISION: dict[str, Make] = {
    "lxmert": _regions,
    "sam3": _words,
    "sam3_lite_text": _words,
    "sam3_lite_text_text_model": _words,
}
"""What comes beside the usual inputs, by model type."""
