"""Sound: waveforms and mel spectrograms.

`seq_len` counts frames of 20 ms, 320 samples at 16 kHz, except where a model takes a
fixed length (Whisper's 30 s).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from irene.trace.inputs.maker import InputMaker, Make
from irene.trace.inputs.sequences import decoder_tokens

SAMPLES_PER_FRAME = 320
FRAMES_PER_TOKEN = 8
"""Frames of 10 ms that speech encoders usually merge into one position."""
FRAMES_FIRST = frozenset({"speech_to_text"})
"""Model types that turn the spectrogram themselves."""

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
        inputs["input_features_mask"] = maker.mask(length)
    return inputs | decoder_tokens(maker)


def spectrogram(maker: InputMaker) -> torch.Tensor:
    """[batch, mels, frames] for Whisper and its kin, else [batch, frames, mels]."""
    mels = maker.find(MELS, "audio", 80)
    length = FRAMES_PER_TOKEN * maker.length
    if not _is_channels_first(maker):
        return maker.floats(length, mels)
    fixed = maker.find(("max_source_positions",), "audio")
    return maker.floats(mels, 2 * fixed if fixed else length)


def _is_channels_first(maker: InputMaker) -> bool:
    """Whether the spectrogram goes straight into a convolution over time."""
    if maker.model_type in FRAMES_FIRST:
        return False
    mels = maker.find(MELS, "audio", 80)
    first = next(
        (m for m in maker.model.modules() if isinstance(m, nn.Conv1d | nn.Conv2d)), None
    )
    return isinstance(first, nn.Conv1d) and first.in_channels == mels


def waveform(maker: InputMaker) -> dict[str, Any]:
    """Samples: [batch, samples], with a channel between for codecs."""
    channels: tuple[int, ...] = ()
    if _has_channel(maker):
        channels = (maker.find(("audio_channels", "channels"), "audio", 1),)
    return {"input_values": _samples(maker, *channels), **decoder_tokens(maker)}


def _has_channel(maker: InputMaker) -> bool:
    """Codecs name their sampling rate; encoders of speech do not."""
    return any(
        hasattr(config, "sampling_rate") or hasattr(config, "audio_channels")
        for config in maker.configs("audio")
    )


def _samples(maker: InputMaker, *channels: int, multiple_of: int = 1) -> torch.Tensor:
    samples = _round_up(SAMPLES_PER_FRAME * maker.length, multiple_of)
    return maker.floats(*channels, samples)


def _round_up(number: int, multiple_of: int) -> int:
    return -(-number // multiple_of) * multiple_of


def _ast(maker: InputMaker) -> dict[str, Any]:
    """AST: a spectrogram of fixed length under the name of a waveform."""
    config = maker.config
    return {"input_values": maker.floats(config.max_length, config.num_mel_bins)}


def _clap_audio(maker: InputMaker) -> dict[str, Any]:
    """A spectrogram that CLAP folds into a square image."""
    audio = getattr(maker.config, "audio_config", maker.config)
    frames = audio.spec_size * (audio.spec_size // audio.num_mel_bins)
    return {"input_features": maker.floats(1, frames, audio.num_mel_bins)}


def _stacked_mels(mels: int, stacked: int = 1, name: str = "input_features") -> Make:
    """Several frames side by side as one, as many numbers as the first layer reads."""

    def make(maker: InputMaker) -> dict[str, Any]:
        length = FRAMES_PER_TOKEN * maker.length
        inputs = {name: maker.floats(length, mels * stacked)}
        if (mask := f"{name}_mask") in maker.accepts:
            inputs[mask] = maker.mask(length, dtype=torch.bool)
        return inputs

    return make


def _with_semantics(maker: InputMaker) -> dict[str, Any]:
    """X-Codec 2, NeuCodec: a waveform, and features of the same sound."""
    width = maker.first_width(("feature_projection",)) or 160
    return {
        "input_values": _samples(maker, 1),
        "input_features": maker.floats(maker.length, width),
    }


def _mono(name: str = "input_values") -> Make:
    """A waveform with its one channel."""
    return lambda maker: {name: _samples(maker, 1, multiple_of=3840)}


def _in_tokens(maker: InputMaker) -> dict[str, Any]:
    """Muse Spark: whole tokens of 1,920 samples."""
    return {"input_values": _samples(maker, multiple_of=1920)}


def _latents(width: str, *, last: bool = False) -> Make:
    """A codec's decoder: one vector for each frame of sound."""

    def make(maker: InputMaker) -> dict[str, Any]:
        size = getattr(maker.config, width)
        shape = (maker.length, size) if last else (size, maker.length)
        return {next(iter(maker.accepts)): maker.floats(*shape)}

    return make


def _speecht5(maker: InputMaker) -> dict[str, Any]:
    """SpeechT5's bare model: what its pre-nets made of speech or text."""
    width = maker.config.hidden_size
    return {
        "input_values": maker.floats(maker.length, width),
        "decoder_input_values": maker.floats(maker.decoder_length, width),
    }


def _windows(maker: InputMaker) -> dict[str, Any]:
    """Qwen3-ASR: whole windows of frames."""
    length = _round_up(FRAMES_PER_TOKEN * maker.length, 2 * maker.config.n_window)
    return {
        "input_features": maker.floats(maker.config.num_mel_bins, length),
        "input_features_mask": maker.mask(length),
    }


def _realtime(maker: InputMaker) -> dict[str, Any]:
    """Voxtral Realtime: every token comes with the sound of its time."""
    mels = maker.config.audio_config.num_mel_bins
    frames = 2 * maker.config.downsample_factor * maker.length
    return maker.with_tokens(
        input_features=maker.floats(mels, frames), num_delay_tokens=1
    )


SPECIAL_AUDIO: dict[str, Make] = {
    "audio-spectrogram-transformer": _ast,
    "clap": lambda maker: maker.with_tokens(**_clap_audio(maker)),
    "clap_audio_model": _clap_audio,
    "fun_asr_nano_encoder": _stacked_mels(80, 7),
    "gemma3n_audio": _stacked_mels(128, name="audio_mel"),
    "gemma4_audio": _stacked_mels(128),
    "granite_speech5_ctc": _stacked_mels(80, 4),
    "granite_speech5_encoder": _stacked_mels(80, 4),
    "mimi_decoder": _latents("hidden_size"),
    "muse_spark_audio": _in_tokens,
    "neucodec": _with_semantics,
    "pe_audio": lambda maker: maker.with_tokens(**_mono()(maker)),
    "pe_audio_encoder": _mono(),
    "pocket_tts_audio_tokenizer_decoder": _latents("latent_dim", last=True),
    "qwen3_asr_encoder": _windows,
    "speecht5": _speecht5,
    "vibevoice_acoustic_tokenizer": _mono(),
    "vibevoice_acoustic_tokenizer_decoder": _latents("hidden_size"),
    "vibevoice_acoustic_tokenizer_encoder": _mono("hidden_states"),
    "voxtral_realtime": _realtime,
    "xcodec": _mono(),
    "xcodec2": _with_semantics,
}
"""All inputs of model types that follow no general rule."""
