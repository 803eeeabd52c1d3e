"""Model types whose inputs follow no general rule, and what is special about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from irene.trace.inputs.maker import InputMaker
from irene.trace.inputs.special_audio import ALSO_AUDIO, SPECIAL_AUDIO
from irene.trace.inputs.special_multimodal import ALSO_MULTIMODAL, SPECIAL_MULTIMODAL
from irene.trace.inputs.special_vision import SPECIAL_VISION
from irene.trace.inputs.text import text

__all__ = ["ALSO", "SPECIAL"]

Make = Callable[[InputMaker], dict[str, Any]]


def _trajectory(maker: InputMaker) -> dict[str, Any]:
    """Decision transformer: states, actions and rewards of every step of an episode."""
    config, batch, steps = maker.config, maker.batch, maker.length
    return {
        "states": maker.floats(batch, steps, config.state_dim),
        "actions": maker.floats(batch, steps, config.act_dim),
        "rewards": maker.floats(batch, steps, 1),
        "returns_to_go": maker.floats(batch, steps, 1),
        "timesteps": maker.whole(torch.arange(steps).repeat(batch, 1)),
        "attention_mask": maker.mask(batch, steps),
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
    ids = maker.tokens(maker.batch, maker.length)
    return {"input_ids": ids, "decoder_input_ids": maker.whole(codes.long())}


def _musicgen(maker: InputMaker) -> dict[str, Any]:
    """MusicGen: the decoder's codebooks are stacked in the batch."""
    rows = maker.batch * maker.config.decoder.num_codebooks
    codes = maker.tokens(rows, maker.decoder_length, maker.config.decoder.vocab_size)
    return {
        "input_ids": maker.tokens(maker.batch, maker.length),
        "decoder_input_ids": codes,
    }


def _embeddings(name: str, size: str = "hidden_size") -> Make:
    """Vectors in place of tokens."""

    def make(maker: InputMaker) -> dict[str, Any]:
        width = getattr(maker.config, size)
        return {name: maker.floats(maker.batch, maker.length, width)}

    return make


def _draft(maker: InputMaker) -> dict[str, Any]:
    """Muse Glimmer's drafter: a block of noise after the large model's states."""
    config, batch = maker.config, maker.batch
    width = config.hidden_size
    seen = width * len(config.target_layer_ids)
    return {
        "noise_embeds": maker.floats(batch, config.block_size, width),
        "context_hidden_states": maker.floats(batch, maker.length, seen),
    }


def _qformer(maker: InputMaker) -> dict[str, Any]:
    """BLIP-2's Q-Former: learned queries that look at an image's features."""
    config = maker.config
    width = config.encoder_hidden_size
    return {
        "query_embeds": maker.floats(maker.batch, 32, config.hidden_size),
        "encoder_hidden_states": maker.floats(maker.batch, 257, width),
    }


def _protein(maker: InputMaker) -> dict[str, Any]:
    """Evolla: a question in words about a protein."""
    vocab = maker.config.protein_encoder_config.vocab_size
    ids = maker.tokens(maker.batch, maker.length, vocab)
    return {
        "input_ids": maker.tokens(maker.batch, maker.length),
        "protein_input_ids": ids,
        "protein_attention_mask": maker.mask(maker.batch, maker.length),
    }


SPECIAL: dict[str, Make] = {
    "blip_2_qformer": _qformer,
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
    **SPECIAL_AUDIO,
    **SPECIAL_MULTIMODAL,
    **SPECIAL_VISION,
}
"""All inputs, by model type."""

ALSO: dict[str, Make] = {**ALSO_AUDIO, **ALSO_MULTIMODAL}
"""What comes beside the usual inputs, by model type."""
