"""Inputs of the right shape for a model, from its config and a RunSpec.

Token ids and masks are small, so they keep their content even on the meta device (see
`values`). Everything else is a tensor of the right shape without content.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from irene.errors import SpecError
from irene.spec import RunSpec
from irene.trace.models import TORCH_DTYPES
from irene.trace.values import give_value

__all__ = ["InputMaker", "make_inputs"]


class InputMaker:
    """Makes tensors for one model and run.

    Args:
        model: The model.
        spec: The run.
        device: Where the tensors live.
    """

    def __init__(self, model: nn.Module, spec: RunSpec, device: str) -> None:
        self.model = model
        self.config: Any = getattr(model, "config", None)
        self.spec = spec
        self.device = device
        self.dtype = TORCH_DTYPES[spec.dtype]
        self.accepts = set(inspect.signature(model.forward).parameters)

    def floats(self, *shape: int) -> torch.Tensor:
        """A tensor of the run's dtype."""
        if self.device == "meta":
            return torch.empty(shape, dtype=self.dtype, device="meta")
        return torch.randn(shape, dtype=self.dtype, device=self.device)

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor of whole numbers, brought to the device with its content."""
        if self.device == "meta":
            return give_value(tensor)
        return tensor.to(self.device)

    def tokens(self, batch: int, length: int) -> torch.Tensor:
        """Token ids, none of which is special."""
        vocab = first_int(self.config, ("vocab_size",), 100)
        ids = torch.arange(batch * length).remainder(max(vocab // 2, 1)) + vocab // 4
        return self.whole(ids.remainder(vocab).reshape(batch, length))


def make_inputs(
    model: nn.Module, spec: RunSpec, device: str = "meta"
) -> dict[str, Any]:
    """Keyword arguments for one forward pass.

    Args:
        model: A model of transformers.
        spec: The run.
        device: Where the tensors live.

    Raises:
        SpecError: No inputs are known for this kind of model.
    """
    maker = InputMaker(model, spec, device)
    main = getattr(model, "main_input_name", "input_ids")
    known = BY_MAIN_INPUT.get(main)
    if known is None:
        raise SpecError(
            f"{type(model).__name__} wants {main!r}: call irene.trace(model, inputs=…) "
            "with inputs of your own"
        )
    return known(maker)


def first_int(config: Any, names: tuple[str, ...], default: int) -> int:
    """The first of some fields that is a whole number, in the config or below it."""
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    for inner in ("text_config", "vision_config", "audio_config"):
        sub = getattr(config, inner, None)
        if sub is not None and sub is not config:
            value = first_int(sub, names, -1)
            if value != -1:
                return value
    return default


def _text(maker: InputMaker) -> dict[str, Any]:
    spec = maker.spec
    inputs: dict[str, Any] = {"input_ids": maker.tokens(spec.batch_size, spec.seq_len)}
    if getattr(maker.config, "is_encoder_decoder", False):
        length = spec.decoder_len or spec.seq_len
        inputs["decoder_input_ids"] = maker.tokens(spec.batch_size, length)
    if "pixel_values" in maker.accepts and hasattr(maker.config, "vision_config"):
        inputs |= _images(maker)
    return inputs


def _images(maker: InputMaker) -> dict[str, Any]:
    config = maker.config
    size = getattr(config, "image_size", None)
    if size is None:
        size = getattr(getattr(config, "vision_config", None), "image_size", 224)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = first_int(config, ("num_channels", "in_channels"), 3)
    return {
        "pixel_values": maker.floats(maker.spec.batch_size, channels, height, width)
    }


def _features(maker: InputMaker) -> dict[str, Any]:
    config, spec = maker.config, maker.spec
    mels = first_int(config, ("num_mel_bins",), 80)
    frames = 2 * first_int(config, ("max_source_positions",), 1500)
    inputs = {"input_features": maker.floats(spec.batch_size, mels, frames)}
    if getattr(config, "is_encoder_decoder", False):
        length = spec.decoder_len or spec.seq_len
        inputs["decoder_input_ids"] = maker.tokens(spec.batch_size, length)
    return inputs


def _waveform(maker: InputMaker) -> dict[str, Any]:
    return {"input_values": maker.floats(maker.spec.batch_size, 16_000)}


BY_MAIN_INPUT = {
    "input_ids": _text,
    "pixel_values": _images,
    "input_features": _features,
    "input_values": _waveform,
}
"""How to make the inputs of a model, by the name of its main one."""
