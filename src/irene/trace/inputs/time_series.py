"""Time series: past values and what goes with them."""

from __future__ import annotations

from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker

__all__ = ["past_values"]


def past_values(maker: InputMaker) -> dict[str, Any]:
    """The past of every series, and its future where a decoder reads it."""
    if "past_time_features" in maker.accepts:
        return _with_lags(maker)
    if "freq" in maker.accepts or "past_values_padding" in maker.accepts:
        return _of_any_length(maker)
    length = maker.find(("context_length",), default=maker.length)
    series = maker.find(("num_input_channels",), default=1)
    return {"past_values": maker.floats(maker.batch, length, series)}


def _of_any_length(maker: InputMaker) -> dict[str, Any]:
    """One series of `seq_len` patches of values (TimesFM)."""
    length = maker.length * maker.find(("patch_length",), default=32)
    inputs: dict[str, Any] = {
        "past_values": maker.floats(maker.batch, length),
        "past_values_padding": maker.whole(torch.zeros(maker.batch, length).long()),
    }
    if "freq" in maker.accepts:
        inputs["freq"] = maker.whole(torch.zeros(maker.batch, 1).long())
    return inputs


def _with_lags(maker: InputMaker) -> dict[str, Any]:
    """Past and future values with time features; the past reaches back to all lags."""
    config = maker.config
    past = config.context_length + max(config.lags_sequence)
    future = config.prediction_length
    width = config.num_time_features + config.num_dynamic_real_features
    series = () if config.input_size == 1 else (config.input_size,)
    return {
        "past_values": maker.floats(maker.batch, past, *series),
        "past_time_features": maker.floats(maker.batch, past, width),
        "past_observed_mask": maker.ones(maker.batch, past, *series),
        "future_values": maker.floats(maker.batch, future, *series),
        "future_time_features": maker.floats(maker.batch, future, width),
    }
