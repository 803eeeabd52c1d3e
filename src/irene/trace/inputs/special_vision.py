"""Models of images whose inputs follow no general rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.vision import (
    SIDE,
    channels,
    grid,
    images,
    size_of_images,
    videos,
)

__all__ = ["SPECIAL_VISION"]

Make = Callable[[InputMaker], dict[str, Any]]


def _pair(maker: InputMaker) -> dict[str, Any]:
    """Matching of keypoints: two images each."""
    return {"pixel_values": maker.floats(maker.batch, 2, 3, 256, 320)}


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


def _clip_of(name: str) -> Make:
    def make(maker: InputMaker) -> dict[str, Any]:
        return {name: videos(maker)}

    return make


def _sized(height: int, width: int) -> Make:
    """An image size that the config does not say."""

    def make(maker: InputMaker) -> dict[str, Any]:
        return {"pixel_values": maker.floats(maker.batch, 3, height, width)}

    return make


SPECIAL_VISION: dict[str, Make] = {
    "depth_pro": _sized(1536, 1536),
    "efficientloftr": _pair,
    "gemma4_vision": _with_places,
    "kimi_k25_vision": _square_patches,
    "lightglue": _pair,
    "minicpm_ocr_vision": _slices,
    "minicpmv4_7_vision": _slices,
    "oneformer": _task,
    "rf_detr": _sized(560, 560),  # whole windows of patches
    "seggpt": _prompted,
    "timesformer": _clip_of("pixel_values"),
    "videomae": _clip_of("pixel_values"),
    "vivit": _clip_of("pixel_values"),
}
"""All inputs, by model type."""
