"""Images and videos: pixels, or patches cut from them."""

from __future__ import annotations

from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker, image_size

__all__ = ["channels", "grid", "images", "patches", "size_of_images", "videos"]

CHANNELS = ("num_channels", "in_channels", "in_chans", "input_channels")
PATCH_LAYERS = ("patch_embed", "embeddings.patch")
SIDE = 16
"""Patches along each side of an image that comes as patches."""


def size_of_images(maker: InputMaker) -> tuple[int, int]:
    """Height and width of an image in pixels; 224 where the config does not say."""
    for config in maker.configs("vision"):
        if (size := image_size(config)) is not None:
            return size
    return 224, 224


def channels(maker: InputMaker) -> int:
    """Channels of an image."""
    return maker.find(CHANNELS, "vision", 3)


def images(maker: InputMaker) -> dict[str, Any]:
    """One image for each sequence."""
    if "spatial_shapes" in maker.accepts:
        return _padded_patches(maker)
    size = size_of_images(maker)
    pixels = maker.floats(maker.batch, channels(maker), *size)
    return {"pixel_values": pixels}


def videos(maker: InputMaker) -> torch.Tensor:
    """One clip for each sequence: [batch, frames, channels, height, width]."""
    frames = maker.find(("num_frames", "frames_per_clip"), "vision", 8)
    return maker.floats(maker.batch, frames, channels(maker), *size_of_images(maker))


def _padded_patches(maker: InputMaker) -> dict[str, Any]:
    """Patches in rows of equal length, with a mask and the sides of each image."""
    side = int(maker.find(("num_patches",), "vision", SIDE**2) ** 0.5)
    width = maker.first_width(PATCH_LAYERS)
    return {
        "pixel_values": maker.floats(maker.batch, side**2, width),
        "pixel_attention_mask": maker.mask(maker.batch, side**2),
        "spatial_shapes": maker.whole([[side, side]] * maker.batch),
    }


def grid(maker: InputMaker) -> torch.Tensor:
    """Frames, rows and columns of patches of every image: [batch, 3]."""
    merge = maker.find(("spatial_merge_size", "merge_size"), "vision", 2)
    side = max(SIDE // merge, 1) * merge
    return maker.whole([[1, side, side]] * maker.batch)


def patches(maker: InputMaker) -> torch.Tensor:
    """The patches of all images, one after the other: [patches, numbers in one]."""
    merge = maker.find(("spatial_merge_size", "merge_size"), "vision", 2)
    side = max(SIDE // merge, 1) * merge
    width = maker.first_width(PATCH_LAYERS)
    if not width:
        patch = maker.find(("patch_size",), "vision", 14)
        frames = maker.find(("temporal_patch_size",), "vision", 1)
        width = channels(maker) * frames * patch * patch
    return maker.floats(maker.batch * side * side, width)
