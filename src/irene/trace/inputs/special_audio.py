"""Models of sound whose inputs follow no general rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irene.trace.inputs.audio import (
    FRAMES_PER_TOKEN,
    SAMPLES_PER_FRAME,
    features,
)
from irene.trace.inputs.maker import InputMaker

__all__ = ["ALSO_AUDIO", "SPECIAL_AUDIO"]

Make = Callable[[InputMaker], dict[str, Any]]


def _ast(maker: InputMaker) -> dict[str, Any]:
    """AST: a spectrogram of fixed length under the name of a waveform."""
    config = maker.config
    frames = maker.floats(maker.batch, config.max_length, config.num_mel_bins)
    return {"input_values": frames}


def _clap(maker: InputMaker) -> dict[str, Any]:
    """CLAP: text, and a spectrogram that is folded into a square image."""
    audio = maker.config.audio_config
    frames = audio.spec_size * (audio.spec_size // audio.num_mel_bins)
    return {
        "input_ids": maker.tokens(maker.batch, maker.length),
        "input_features": maker.floats(maker.batch, 1, frames, audio.num_mel_bins),
    }


def _clap_audio(maker: InputMaker) -> dict[str, Any]:
    audio = maker.config
    frames = audio.spec_size * (audio.spec_size // audio.num_mel_bins)
    return {"input_features": maker.floats(maker.batch, 1, frames, audio.num_mel_bins)}


def _stacked_mels(mels: int, stacked: int = 1, name: str = "input_features") -> Make:
    """Several frames side by side as one, as many numbers as the first layer reads."""

    def make(maker: InputMaker) -> dict[str, Any]:
        length = FRAMES_PER_TOKEN * maker.length
        mask = name.replace("input_features", "input_features_mask")
        mask = "audio_mel_mask" if name == "audio_mel" else mask
        inputs = {name: maker.floats(maker.batch, length, mels * stacked)}
        if mask in maker.accepts:
            inputs[mask] = maker.mask(maker.batch, length) > 0
        return inputs

    return make


def _with_semantics(maker: InputMaker) -> dict[str, Any]:
    """X-Codec 2, NeuCodec: a waveform, and features of the same sound."""
    width = maker.first_width(("feature_projection",)) or 160
    samples = SAMPLES_PER_FRAME * maker.length
    return {
        "input_values": maker.floats(maker.batch, 1, samples),
        "input_features": maker.floats(maker.batch, maker.length, width),
    }


def _mono(maker: InputMaker) -> dict[str, Any]:
    """A waveform with its one channel."""
    samples = _multiple(SAMPLES_PER_FRAME * maker.length, 3840)
    return {"input_values": maker.floats(maker.batch, 1, samples)}


def _in_tokens(maker: InputMaker) -> dict[str, Any]:
    """Muse Spark: whole tokens of 1,920 samples."""
    samples = _multiple(SAMPLES_PER_FRAME * maker.length, 1920)
    return {"input_values": maker.floats(maker.batch, samples)}


def _mono_under(name: str) -> Make:
    def make(maker: InputMaker) -> dict[str, Any]:
        return {name: _mono(maker)["input_values"]}

    return make


def _text_and_mono(maker: InputMaker) -> dict[str, Any]:
    ids = maker.tokens(maker.batch, maker.length)
    return {"input_ids": ids} | _mono(maker)


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of


def _latents(width: str, *, last: bool = False) -> Make:
    """A codec's decoder: one vector for each frame of sound."""

    def make(maker: InputMaker) -> dict[str, Any]:
        size = getattr(maker.config, width)
        shape = (maker.length, size) if last else (size, maker.length)
        return {next(iter(maker.accepts)): maker.floats(maker.batch, *shape)}

    return make


def _speecht5(maker: InputMaker) -> dict[str, Any]:
    """SpeechT5's bare model: what its pre-nets made of speech or text."""
    width = maker.config.hidden_size
    return {
        "input_values": maker.floats(maker.batch, maker.length, width),
        "decoder_input_values": maker.floats(maker.batch, maker.decoder_length, width),
    }


def _windows(maker: InputMaker) -> dict[str, Any]:
    """Qwen3-ASR: whole windows of frames."""
    length = _multiple(FRAMES_PER_TOKEN * maker.length, 2 * maker.config.n_window)
    mels = maker.config.num_mel_bins
    return {
        "input_features": maker.floats(maker.batch, mels, length),
        "input_features_mask": maker.mask(maker.batch, length),
    }


def _realtime(maker: InputMaker) -> dict[str, Any]:
    """Voxtral Realtime: every token comes with the sound of its time."""
    audio = maker.config.audio_config
    frames = 2 * maker.config.downsample_factor * maker.length
    return {
        "input_ids": maker.tokens(maker.batch, maker.length),
        "input_features": maker.floats(maker.batch, audio.num_mel_bins, frames),
        "num_delay_tokens": 1,
    }


SPECIAL_AUDIO: dict[str, Make] = {
    "audio-spectrogram-transformer": _ast,
    "clap": _clap,
    "clap_audio_model": _clap_audio,
    "fun_asr_nano_encoder": _stacked_mels(80, 7),
    "gemma3n_audio": _stacked_mels(128, name="audio_mel"),
    "gemma4_audio": _stacked_mels(128),
    "granite_speech5_ctc": _stacked_mels(80, 4),
    "granite_speech5_encoder": _stacked_mels(80, 4),
    "mimi_decoder": _latents("hidden_size"),
    "muse_spark_audio": _in_tokens,
    "neucodec": _with_semantics,
    "pe_audio": _text_and_mono,
    "pe_audio_encoder": _mono,
    "pocket_tts_audio_tokenizer_decoder": _latents("latent_dim", last=True),
    "qwen3_asr_encoder": _windows,
    "speecht5": _speecht5,
    "vibevoice_acoustic_tokenizer": _mono,
    "vibevoice_acoustic_tokenizer_decoder": _latents("hidden_size"),
    "vibevoice_acoustic_tokenizer_encoder": _mono_under("hidden_states"),
    "voxtral_realtime": _realtime,
    "xcodec": _mono,
    "xcodec2": _with_semantics,
}
"""All inputs, by model type."""

ALSO_AUDIO: dict[str, Make] = {"clvp": features}
"""What comes beside the usual inputs, by model type."""
