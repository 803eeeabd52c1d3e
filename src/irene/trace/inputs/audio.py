"""Sound: waveforms and mel spectrograms.

`seq_len` counts frames of 20 ms, 320 samples at 16 kHz, except where a model takes a
fixed length (Whisper's 30 s).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.text import decoder_tokens

__all__ = ["features", "spectrogram", "waveform"]

SAMPLES_PER_FRAME = 320
FRAMES_PER_TOKEN = 8
"""Frames of 10 ms that speech encoders usually merge into one position."""

MELS = (
    "num_mel_bins",
    "n_mels",
    "input_feat_per_channel",
    "feature_projection_input_dim",
    "input_feat_size",
    "feature_size",
    "input_dim",
    "input_channels",
)


def features(maker: InputMaker) -> dict[str, Any]:
    """A mel spectrogram, its mask where it is wanted, and the decoder's tokens."""
    frames = spectrogram(maker)
    inputs: dict[str, Any] = {"input_features": frames}
    if "input_features_mask" in maker.accepts:
        length = max(frames.shape[1:]) if _is_channels_first(maker) else frames.shape[1]
        inputs["input_features_mask"] = maker.mask(maker.batch, length)
    return inputs | decoder_tokens(maker)


def spectrogram(maker: InputMaker) -> torch.Tensor:
    """[batch, mels, frames] for Whisper and its kin, else [batch, frames, mels]."""
    mels = maker.find(MELS, "audio", 80)
    fixed = maker.find(("max_source_positions",), "audio")
    if _is_channels_first(maker):
        length = 2 * fixed if fixed else FRAMES_PER_TOKEN * maker.length
        return maker.floats(maker.batch, mels, length)
    return maker.floats(maker.batch, FRAMES_PER_TOKEN * maker.length, mels)


def _is_channels_first(maker: InputMaker) -> bool:
    """Whether the spectrogram goes straight into a convolution over time."""
    if maker.model_type in FRAMES_FIRST:
        return False
    mels = maker.find(MELS, "audio", 80)
    first = next(
        (m for m in maker.model.modules() if isinstance(m, nn.Conv1d | nn.Conv2d)), None
    )
    return isinstance(first, nn.Conv1d) and first.in_channels == mels


FRAMES_FIRST = frozenset({"speech_to_text"})
"""Model types that turn the spectrogram themselves."""


def waveform(maker: InputMaker) -> dict[str, Any]:
    """Samples: [batch, samples], with a channel between for codecs."""
    samples = SAMPLES_PER_FRAME * maker.length
    if _has_channel(maker):
        count = maker.find(("audio_channels", "channels"), "audio", 1)
        inputs = {"input_values": maker.floats(maker.batch, count, samples)}
    else:
        inputs = {"input_values": maker.floats(maker.batch, samples)}
    return inputs | decoder_tokens(maker)


def _has_channel(maker: InputMaker) -> bool:
    """Codecs name their sampling rate; encoders of speech do not."""
    return any(
        hasattr(config, "sampling_rate") or hasattr(config, "audio_channels")
        for config in maker.configs("audio")
    )
