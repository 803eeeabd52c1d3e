"""Sequences: tokens and codes, vectors in their place, and series of numbers."""

from __future__ import annotations

from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker, Make

BOXES_AS_FRACTIONS = frozenset({"bros", "udop"})
"""Model types whose boxes are fractions of the page, not thousandths."""


def text(maker: InputMaker) -> dict[str, Any]:
    """Token ids for the encoder and, where there is one, the decoder."""
    inputs = maker.with_tokens(**decoder_tokens(maker))
    if "bbox" in maker.accepts:
        inputs["bbox"] = _boxes(maker)
    return inputs


def decoder_tokens(maker: InputMaker) -> dict[str, Any]:
    """Token ids of the decoder of an encoder-decoder model."""
    if "decoder_input_ids" not in maker.accepts:
        return {}
    return {"decoder_input_ids": maker.tokens(maker.decoder_length)}


def _boxes(maker: InputMaker) -> torch.Tensor:
    """The place of every token on a page: [left, top, right, bottom]."""
    if maker.model_type in BOXES_AS_FRACTIONS:
        return maker.floats(maker.length, 4)
    place = torch.tensor([10, 20, 30, 40])
    return maker.whole(place.expand(maker.batch, maker.length, 4).contiguous())


def past_values(maker: InputMaker) -> dict[str, Any]:
    """The past of every time series, and its future where a decoder reads it."""
    if "past_time_features" in maker.accepts:
        return _with_lags(maker)
    if "freq" in maker.accepts or "past_values_padding" in maker.accepts:
        return _of_any_length(maker)
    length = maker.find(("context_length",), default=maker.length)
    series = maker.find(("num_input_channels",), default=1)
    return {"past_values": maker.floats(length, series)}


def _of_any_length(maker: InputMaker) -> dict[str, Any]:
    """One series of `seq_len` patches of values (TimesFM)."""
    length = maker.length * maker.find(("patch_length",), default=32)
    inputs: dict[str, Any] = {
        "past_values": maker.floats(length),
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
        "past_values": maker.floats(past, *series),
        "past_time_features": maker.floats(past, width),
        "past_observed_mask": maker.ones(past, *series),
        "future_values": maker.floats(future, *series),
        "future_time_features": maker.floats(future, width),
    }


def _trajectory(maker: InputMaker) -> dict[str, Any]:
    """Decision transformer: states, actions and rewards of every step of an episode."""
    config, steps = maker.config, maker.length
    return {
        "states": maker.floats(steps, config.state_dim),
        "actions": maker.floats(steps, config.act_dim),
        "rewards": maker.floats(steps, 1),
        "returns_to_go": maker.floats(steps, 1),
        "timesteps": maker.whole(torch.arange(steps).repeat(maker.batch, 1)),
        "attention_mask": maker.mask(steps),
    }


def _codes(maker: InputMaker) -> dict[str, Any]:
    """Kyutai: one text token and one code of each codebook at every step."""
    config = maker.config
    vocab = min(config.vocab_size, config.codebook_vocab_size)
    shape = (maker.batch, maker.length, config.num_codebooks + 1)
    codes = torch.arange(maker.length).remainder(vocab)[None, :, None].expand(shape)
    return {"input_ids": maker.whole(codes.contiguous())}


def _dia(maker: InputMaker) -> dict[str, Any]:
    """Dia: the decoder reads one code of every channel at each step."""
    channels = maker.config.decoder_config.num_channels
    codes = torch.zeros(maker.batch, maker.decoder_length, channels)
    return maker.with_tokens(decoder_input_ids=maker.whole(codes.long()))


def _musicgen(maker: InputMaker) -> dict[str, Any]:
    """MusicGen: the decoder's codebooks are stacked in the batch."""
    decoder = maker.config.decoder
    rows = maker.batch * decoder.num_codebooks
    codes = maker.tokens(maker.decoder_length, decoder.vocab_size, rows)
    return maker.with_tokens(decoder_input_ids=codes)


def _embeddings(name: str, size: str = "hidden_size") -> Make:
    """Vectors in place of tokens."""
    return lambda maker: {name: maker.floats(maker.length, getattr(maker.config, size))}


def _draft(maker: InputMaker) -> dict[str, Any]:
    """Muse Glimmer's drafter: a block of noise after the large model's states."""
    config = maker.config
    seen = config.hidden_size * len(config.target_layer_ids)
    return {
        "noise_embeds": maker.floats(config.block_size, config.hidden_size),
        "context_hidden_states": maker.floats(maker.length, seen),
    }


def _protein(maker: InputMaker) -> dict[str, Any]:
    """Evolla: a question in words about a protein."""
    vocab = maker.config.protein_encoder_config.vocab_size
    return maker.with_tokens(
        protein_input_ids=maker.tokens(vocab=vocab),
        protein_attention_mask=maker.mask(maker.length),
    )


SPECIAL_SEQUENCES: dict[str, Make] = {
    "decision_transformer": _trajectory,
    "dia": _dia,
    "evolla": _protein,
    "glm_image": text,  # its images are those it writes
    "kyutai_speech_to_text": _codes,
    "muse_glimmer_assistant": _draft,
    "musicgen": _musicgen,
    "musicgen_melody": _musicgen,
    "nemotron3_5_transcribe_word_timestamp": _embeddings("inputs_embeds"),
    "perceiver": _embeddings("inputs", "d_model"),
}
"""All inputs of model types that follow no general rule."""
