"""Images and videos: pixels, or patches cut from them."""

from __future__ import annotations

from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker, Make

CHANNELS = ("num_channels", "in_channels", "in_chans", "input_channels")
PATCH_LAYERS = ("patch_embed", "embeddings.patch")
SIDE = 16
"""Patches along each side of an image that comes as patches."""


def size_of_images(maker: InputMaker) -> tuple[int, int]:
    """Height and width of an image in pixels; 224 where the config does not say."""
    sizes = (_image_size(config) for config in maker.configs("vision"))
    return next((size for size in sizes if size is not None), (224, 224))


def _image_size(config: Any) -> tuple[int, int] | None:
    """Height and width of a config's images, in pixels; None if it does not say."""
    size = getattr(config, "image_size", None) or getattr(config, "img_size", None)
    if isinstance(size, dict):
        size = [size.get("height"), size.get("width")]
    if isinstance(size, int):
        return size, size
    if isinstance(size, list | tuple) and len(size) == 2 and all(size):
        return int(size[0]), int(size[1])
    return None


def channels(maker: InputMaker) -> int:
    """Channels of an image."""
    return maker.find(CHANNELS, "vision", 3)


def pixels(maker: InputMaker, *several: int) -> torch.Tensor:
    """[batch, …, channels, height, width]: one image for each sequence, or several."""
    return maker.floats(*several, channels(maker), *size_of_images(maker))


def images(maker: InputMaker) -> dict[str, Any]:
    """One image for each sequence."""
    if "spatial_shapes" in maker.accepts:
        return _padded_patches(maker)
    return {"pixel_values": pixels(maker)}


def videos(maker: InputMaker) -> torch.Tensor:
    """One clip for each sequence: [batch, frames, channels, height, width]."""
    return pixels(maker, maker.find(("num_frames", "frames_per_clip"), "vision", 8))


def _padded_patches(maker: InputMaker) -> dict[str, Any]:
    """Patches in rows of equal length, with a mask and the sides of each image."""
    side = int(maker.find(("num_patches",), "vision", SIDE**2) ** 0.5)
    return {
        "pixel_values": maker.floats(side**2, maker.first_width(PATCH_LAYERS)),
        "pixel_attention_mask": maker.mask(side**2),
        "spatial_shapes": maker.whole([[side, side]] * maker.batch),
    }


def _side(maker: InputMaker) -> int:
    """Patches along a side, which are merged in squares."""
    merge = maker.find(("spatial_merge_size", "merge_size"), "vision", 2)
    return max(SIDE // merge, 1) * merge


def grid(maker: InputMaker) -> torch.Tensor:
    """Frames, rows and columns of patches of every image: [batch, 3]."""
    side = _side(maker)
    return maker.whole([[1, side, side]] * maker.batch)


def patches(maker: InputMaker) -> torch.Tensor:
    """The patches of all images, one after the other: [patches, numbers in one]."""
    width = maker.first_width(PATCH_LAYERS)
    if not width:
        frames = maker.find(("temporal_patch_size",), "vision", 1)
        width = channels(maker) * frames * _patch_size(maker) ** 2
    return maker.numbers(maker.batch * _side(maker) ** 2, width)


def _patch_size(maker: InputMaker) -> int:
    return maker.find(("patch_size",), "vision", 14)


def _square_patches(maker: InputMaker) -> dict[str, Any]:
    """Kimi: patches as small images."""
    size = _patch_size(maker)
    small = maker.numbers(maker.batch * SIDE * SIDE, 3, size, size)
    return {"pixel_values": small, "grid_thw": grid(maker)}


def _slices(maker: InputMaker) -> dict[str, Any]:
    """MiniCPM-V: rows of patches of all images, and the sides of each."""
    size = _patch_size(maker)
    width = maker.batch * SIDE * SIDE * size
    return {
        "pixel_values": maker.numbers(1, channels(maker), size, width),
        "target_sizes": maker.whole([[SIDE, SIDE]] * maker.batch),
    }


def _with_places(maker: InputMaker) -> dict[str, Any]:
    """Gemma 4: patches with the column and row of each."""
    side = 3 * maker.find(("pooling_kernel_size",), "vision", 3)
    width = maker.first_width(("patch_embedder",))
    places = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    return {
        "pixel_values": maker.floats(side * side, width),
        "pixel_position_ids": maker.whole(places.repeat(maker.batch, 1, 1)),
    }


def _prompted(maker: InputMaker) -> dict[str, Any]:
    """SegGPT: an image, and another one with its mask as the example."""
    height, width = size_of_images(maker)
    names = ("pixel_values", "prompt_pixel_values", "prompt_masks")
    shape = (channels(maker), height // 2, width)
    return {name: maker.floats(*shape) for name in names}


def _task(maker: InputMaker) -> dict[str, Any]:
    """OneFormer: the task in words beside the image."""
    return images(maker) | {"task_inputs": maker.tokens(maker.config.task_seq_len)}


def _clip(maker: InputMaker) -> dict[str, Any]:
    return {"pixel_values": videos(maker)}


def _qformer(maker: InputMaker) -> dict[str, Any]:
    """BLIP-2's Q-Former: learned queries that look at an image's features."""
    config = maker.config
    return {
        "query_embeds": maker.floats(32, config.hidden_size),
        "encoder_hidden_states": maker.floats(257, config.encoder_hidden_size),
    }


def _sized(*shape: int) -> Make:
    """Images of a shape that the config does not say."""
    return lambda maker: {"pixel_values": maker.floats(*shape)}


_PAIR = _sized(2, 3, 256, 320)
"""Matching of keypoints: two images each."""

SPECIAL_VISION: dict[str, Make] = {
    "blip_2_qformer": _qformer,
    "depth_pro": _sized(3, 1536, 1536),
    "efficientloftr": _PAIR,
    "gemma4_vision": _with_places,
    "kimi_k25_vision": _square_patches,
    "lightglue": _PAIR,
    "minicpm_ocr_vision": _slices,
    "minicpmv4_7_vision": _slices,
    "oneformer": _task,
    "rf_detr": _sized(3, 560, 560),  # whole windows of patches
    "seggpt": _prompted,
    "timesformer": _clip,
    "videomae": _clip,
    "vivit": _clip,
}
"""All inputs of model types that follow no general rule."""
