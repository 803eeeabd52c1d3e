from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn
from transformers import (
    AutoModel,
    BartConfig,
    BertConfig,
    CLIPConfig,
    EncodecConfig,
    LayoutLMConfig,
    LlavaConfig,
    PatchTSTConfig,
    PretrainedConfig,
    Qwen2_5_VLConfig,
    TimeSeriesTransformerConfig,
    VideoMAEConfig,
    ViTConfig,
    Wav2Vec2Config,
    WhisperConfig,
)

import irene
from irene.errors import SpecError
from irene.spec import RunSpec
from irene.trace.inputs import Inputs, make_inputs
from irene.trace.values import value_of

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
}
SMALL_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
SMALL_TEXT = {"model_type": "llama", "vocab_size": 100, **SMALL}
LLAVA = LlavaConfig(
    vision_config={
        "model_type": "clip_vision_model",
        "image_size": 28,
        "patch_size": 14,
        **SMALL,
    },
    text_config=SMALL_TEXT,
    image_token_index=99,
)
QWEN = Qwen2_5_VLConfig(
    vision_config={
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 4,
        "out_hidden_size": 32,
        "fullatt_block_indexes": [1],
    },
    text_config={
        "vocab_size": 100,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]},
        **SMALL,
    },
    image_token_id=99,
    video_token_id=98,
)


def inputs_of(config: PretrainedConfig, **sizes: int) -> Inputs:
    spec = RunSpec("small", **({"batch_size": 3, "seq_len": 16} | sizes))
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    return make_inputs(model, spec, "meta")


def shapes(inputs: Inputs) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in inputs.items()}


CASES = {
    "text": (BertConfig(**SMALL), {"input_ids": (3, 16)}),
    "encoder-decoder": (
        BartConfig(**SMALL_BART),
        {"input_ids": (3, 16), "decoder_input_ids": (3, 16)},
    ),
    "boxes": (
        LayoutLMConfig(**SMALL),
        {"input_ids": (3, 16), "bbox": (3, 16, 4)},
    ),
    "image": (ViTConfig(image_size=32, **SMALL), {"pixel_values": (3, 3, 32, 32)}),
    "image that is not square": (
        ViTConfig(image_size=(32, 64), num_channels=1, **SMALL),
        {"pixel_values": (3, 1, 32, 64)},
    ),
    "clip": (
        VideoMAEConfig(image_size=32, num_frames=4, **SMALL),
        {"pixel_values": (3, 4, 3, 32, 32)},
    ),
    "waveform": (Wav2Vec2Config(**SMALL), {"input_values": (3, 16 * 320)}),
    "waveform with a channel": (EncodecConfig(), {"input_values": (3, 1, 16 * 320)}),
    "30 s of sound": (
        WhisperConfig(max_source_positions=50, **SMALL_BART),
        {"input_features": (3, 80, 100), "decoder_input_ids": (3, 16)},
    ),
    "several series": (
        PatchTSTConfig(context_length=32, num_input_channels=5, **SMALL),
        {"past_values": (3, 32, 5)},
    ),
    "image and text": (
        CLIPConfig(vision_config={"image_size": 32, "patch_size": 16}),
        {"input_ids": (3, 16), "pixel_values": (3, 3, 32, 32)},
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_shapes_follow_config_and_spec(kind):
    config, expected = CASES[kind]
    assert shapes(inputs_of(config)) == expected


def test_decoder_has_its_own_length():
    inputs = inputs_of(BartConfig(**SMALL_BART), decoder_len=5)
    assert shapes(inputs)["decoder_input_ids"] == (3, 5)


def test_the_past_of_a_series_reaches_back_to_all_lags():
    config = TimeSeriesTransformerConfig(
        prediction_length=6, context_length=12, lags_sequence=[1, 2, 7], **SMALL_BART
    )
    found = shapes(inputs_of(config))
    assert found["past_values"] == (3, 19)
    assert found["future_values"] == (3, 6)


def test_token_ids_are_known_on_meta_and_inside_the_vocabulary():
    ids = value_of(inputs_of(BertConfig(vocab_size=50, **SMALL))["input_ids"])
    assert ids is not None
    assert 0 <= int(ids.min()) <= int(ids.max()) < 50


def test_an_image_takes_as_many_placeholders_as_the_model_needs():
    inputs = inputs_of(LLAVA)
    ids = value_of(inputs["input_ids"])
    assert ids is not None
    assert ids.shape == (3, 4 + 16)  # 2 × 2 patches, then the text
    assert (ids == 99).sum(1).tolist() == [4, 4, 4]
    assert inputs.notes == ()


def test_patches_come_with_their_grid():
    inputs = inputs_of(QWEN)
    assert shapes(inputs)["pixel_values"] == (3 * 16 * 16, 3 * 2 * 14 * 14)
    assert value_of(inputs["image_grid_thw"]).tolist() == [[1, 16, 16]] * 3
    assert (value_of(inputs["input_ids"]) == 99).sum(1).tolist() == [64] * 3


def test_after_a_cache_there_is_text_alone():
    spec = RunSpec("small", phase="decode", seq_len=16)
    with torch.device("meta"):
        model = AutoModel.from_config(LLAVA)
    assert set(make_inputs(model, spec, "meta")) == {"input_ids"}


def test_an_image_that_the_model_refuses_is_left_out_with_a_note():
    config = transformers.Gemma3Config(
        vision_config={"image_size": 28, "patch_size": 14, **SMALL},
        text_config={"vocab_size": 300_000, **SMALL},
        mm_tokens_per_image=256,  # more than the image has patches
    )
    inputs = inputs_of(config)
    assert set(inputs) == {"input_ids"}
    assert "text alone, without image" in inputs.notes[0]


@pytest.mark.parametrize("config", [LLAVA, QWEN], ids=["llava", "qwen"])
def test_the_vision_part_is_in_the_tree(config):
    tree = irene.trace(config, batch_size=2, seq_len=8)
    vision = [n for n in tree.nodes() if "vision" in n.path or "visual" in n.path]
    assert sum(node.flops for node in vision) > 0


def test_inputs_on_the_cpu_are_real():
    model = AutoModel.from_config(ViTConfig(image_size=32, **SMALL))
    inputs = make_inputs(model, RunSpec("small", batch_size=1), "cpu")
    assert inputs["pixel_values"].device.type == "cpu"
    assert model(**inputs).last_hidden_state.shape == (1, 5, 32)


def test_an_unknown_input_is_named():
    class Odd(nn.Module):
        config = BertConfig(**SMALL)

        def forward(self, tea_leaves: torch.Tensor) -> torch.Tensor:
            return tea_leaves

    with pytest.raises(SpecError, match="'tea_leaves'"):
        make_inputs(Odd(), RunSpec("odd"), "meta")
