"""make_inputs: the inputs of a model by the names of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from irene.errors import SpecError
from irene.spec import RunSpec
from irene.trace.inputs.audio import SPECIAL_AUDIO, features, spectrogram, waveform
from irene.trace.inputs.maker import InputMaker, Make
from irene.trace.inputs.multimodal import (
    BESIDE_USUAL,
    IMAGE_TOKENS,
    SPECIAL_MULTIMODAL,
    Inputs,
    with_media,
)
from irene.trace.inputs.sequences import SPECIAL_SEQUENCES, past_values, text
from irene.trace.inputs.vision import SPECIAL_VISION, grid, images, patches, videos

SPECIAL: dict[str, Make] = {
    **SPECIAL_SEQUENCES,
    **SPECIAL_AUDIO,
    **SPECIAL_VISION,
    **SPECIAL_MULTIMODAL,
}
"""All inputs, of model types that follow no general rule."""


def make_inputs(model: nn.Module, spec: RunSpec, device: str = "meta") -> Inputs:
    """Keyword arguments for one forward pass.

    Raises:
        SpecError: No inputs are known for this kind of model.
    """
    maker = InputMaker(model, spec, device)
    if (special := SPECIAL.get(maker.model_type)) is not None:
        return Inputs(special(maker))
    main = _main_input(maker)
    make = BY_MAIN_INPUT.get(main)
    made = make(maker) if make is not None else {}
    inputs = made if isinstance(made, Inputs) else Inputs(made)
    for name in _missing(maker, inputs):
        if name not in BY_NAME:
            raise SpecError(
                f"{type(model).__name__} wants {name!r}: call "
                "irene.trace(model, inputs=…) with inputs of your own"
            )
        inputs[name] = BY_NAME[name](maker)
    if (beside := BESIDE_USUAL.get(maker.model_type)) is not None:
        inputs.update(beside(maker))
    return inputs


def _main_input(maker: InputMaker) -> str:
    """The main input's name; of some models it is wrong, then the first argument's."""
    main = getattr(maker.model, "main_input_name", "input_ids")
    main = main[0] if isinstance(main, list) else main
    return main if main in maker.accepts else next(iter(maker.accepts), "")


def _missing(maker: InputMaker, inputs: dict[str, Any]) -> list[str]:
    """Arguments without a default that are not made yet."""
    return [
        name
        for name, parameter in maker.accepts.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and name not in inputs
    ]


def _tokens(maker: InputMaker) -> Inputs:
    """Text, with an image or a sound where the model reads them."""
    inputs = with_media(maker, text(maker))
    has_placeholders = maker.find(IMAGE_TOKENS, default=-1) >= 0
    if "pixel_values" in maker.accepts and not has_placeholders:
        inputs.update(images(maker))
    return inputs


def _pixels(maker: InputMaker) -> dict[str, Any]:
    if "grid_thw" in maker.accepts:
        return {"pixel_values": patches(maker), "grid_thw": grid(maker)}
    return images(maker)


BY_MAIN_INPUT: dict[str, Make] = {
    "input_ids": _tokens,
    "pixel_values": _pixels,
    "input_features": features,
    "input_values": waveform,
    "past_values": past_values,
    "pixel_values_videos": lambda maker: {"pixel_values_videos": videos(maker)},
}
"""How to make the inputs of a model, by the name of its main one."""

BY_NAME: dict[str, Callable[[InputMaker], Any]] = {
    "input_ids": InputMaker.tokens,
    "input_features": spectrogram,
    "pixel_values": lambda maker: images(maker)["pixel_values"],
    "pixel_values_videos": videos,
    "hidden_states": patches,
    "grid_thw": grid,
    "merge_sizes": lambda maker: maker.whole([2] * maker.batch),
}
"""How to make an argument that has no default."""
