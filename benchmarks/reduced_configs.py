"""Small configs for the breadth benchmark: the default of a model type, fewer layers.

Hidden sizes stay. Three things are changed, in this order: what a default config lacks
to be built or run at all (`OWN_FIELDS`, each with its reason), widths that two parts of
a model must share and whose defaults differ, and the number of layers.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, PretrainedConfig

__all__ = ["OWN_FIELDS", "fewer_layers", "reduced_config"]

LAYERS = 4
"""Layers that are kept: the first few are dense in some mixtures of experts."""

LAYER_FIELDS = frozenset(
    {
        "decoder_layers",
        "decoder_num_hidden_layers",
        "decoder_num_layers",
        "depth",
        "encoder_layers",
        "encoder_num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_decoder_layers",
        "num_encoder_layers",
        "num_hidden_layers",
        "num_layers",
        "speech_encoder_layers",
        "t2u_decoder_layers",
        "t2u_encoder_layers",
        "text_encoder_num_layers",
    }
)
"""Config fields that count equal layers."""

KEEP_LAYERS = frozenset({"gemma3n", "gemma3n_text", "mllama", "vipllava", "zamba"})
"""Types whose other fields point at layers by number."""

ROPE_BY_LAYER = {"full_attention": {"rope_type": "default", "rope_theta": 10_000.0}}
HALF_ROPE = {
    "rope_type": "default",
    "rope_theta": 10_000.0,
    "partial_rotary_factor": 0.5,
    "mrope_section": [8, 12, 12],
}
SMALL_GLM = {
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "moe_intermediate_size": 512,
    "n_routed_experts": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "linear_num_heads": 8,
    "q_lora_rank": 256,
}
EXPERTS = {"n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6}
HUNYUAN = {
    "head_dim": 128,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "mrope_section": [16, 16, 16, 16],
    },
}
INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
}

OWN_FIELDS: dict[str, dict[str, Any]] = {
    # The length of the forecast has no default.
    "autoformer": {"prediction_length": 24},
    "informer": {"prediction_length": 24},
    "time_series_transformer": {"prediction_length": 24},
    # The default 14 heads do not divide the width.
    "aya_vision": {
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "patch_size": 14,
            "image_size": 364,
            "num_attention_heads": 16,
            "vision_use_head": False,
        }
    },
    # No default map from image codes to tokens.
    "chameleon": {"vocabulary_map": {"<image>": 8711}},
    "emu3": {"vocabulary_map": {"<image>": 151851, "<|extra_200|>": 151846}},
    # Rotary positions by kind of layer, without default.
    "cohere_compass_text": {"rope_parameters": ROPE_BY_LAYER},
    "cohere_compass": {
        "text_config": {
            "model_type": "cohere_compass_text",
            "rope_parameters": ROPE_BY_LAYER,
        }
    },
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 8, "clip_qkv": 8}},
    # Head counts and sizes without default.
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl_text": HUNYUAN,
    "hunyuan_vl": {"text_config": {"model_type": "hunyuan_vl_text", **HUNYUAN}},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "qwen4_exp_text": INDEXER,
    "qwen4_exp": {"text_config": {"model_type": "qwen4_exp_text", **INDEXER}},
    # Experts without default.
    "deepseek_v2": {"num_experts_per_tok": 6},
    "dots1": EXPERTS,
    # Half of each head is rotated, which the default does not say.
    "glm4v_text": {"rope_parameters": HALF_ROPE},
    "glm_image_text": {"rope_parameters": HALF_ROPE},
    "glm4v_moe_text": {"rope_parameters": HALF_ROPE, "head_dim": 128},
    "glm4v": {"text_config": {"rope_parameters": HALF_ROPE}},
    "glm46v": {"text_config": {"rope_parameters": HALF_ROPE}},
    "glmga": {"text_config": {"rope_parameters": HALF_ROPE}},
    "glm_image": {"text_config": {"rope_parameters": HALF_ROPE}},
    "glm4v_moe": {"text_config": {"rope_parameters": HALF_ROPE, "head_dim": 128}},
    # The vocabulary has no default.
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    # The kinds of layers have no default.
    "lfm2_moe": {
        "num_hidden_layers": 4,
        "layer_types": ["conv", "conv", "full_attention", "conv"],
    },
    "deepseek_ocr2": {
        "text_config": {
            "model_type": "deepseek_ocr2_text",
            "num_hidden_layers": 4,
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
            "num_experts_per_tok": 6,
        }
    },
    "granite4_vision": {
        "deepstack_layer_map": [[-1, 0]],
        "spatial_target_layers": [1, 2],
        "downsample_rate": "4/8",
    },
    "lw_detr": {"projector_scale_factors": [1.0]},
    "uvdoc": {
        "backbone_config": {
            "model_type": "uvdoc_backbone",
            "out_features": [f"stage{stage}" for stage in range(1, 7)],
        }
    },
    # The image's placeholder has no default.
    "blip-2": {"image_token_index": 50_265},
    "instructblip": {"image_token_index": 50_265},
    "instructblipvideo": {"video_token_index": 50_265},
    # Parts whose default widths differ.
    "janus": {
        "vision_config": {"model_type": "janus_vision_model", "projection_dim": 4096},
        "vq_config": {"model_type": "janus_vqgan", "projection_dim": 4096},
    },
    "ovis2": {"hidden_size": 4096},
    "qwen2_vl": {
        "vision_config": {"model_type": "qwen2_vl_vision", "hidden_size": 8192}
    },
    "qwen3_omni_moe_thinker": {
        "text_config": {"model_type": "qwen3_omni_moe_text", "head_dim": 128}
    },
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    # They look at their data, and can only be run for real: small enough for that.
    "blt": {"encoder_hash_byte_group_vocab": 10_000},
    "glm5_next_text": SMALL_GLM,
    "glm5_next": {"text_config": {"model_type": "glm5_next_text", **SMALL_GLM}},
    "jetmoe": {"num_hidden_layers": 2, "num_local_experts": 4},
    "longcat_flash": {
        "hidden_size": 1024,
        "ffn_hidden_size": 2048,
        "expert_ffn_hidden_size": 512,
        "n_routed_experts": 16,
        "zero_expert_num": 8,
        "num_attention_heads": 8,
        "q_lora_rank": 256,
    },
    "nllb-moe": {"num_experts": 8},
    # A language must be chosen.
    "xmod": {"default_language": "en_XX"},
    # AutoModel names two classes, or one that takes only a part of the config.
    "funnel": {"architectures": ["FunnelModel"]},
    "evolla": {"architectures": ["EvollaModel"]},
    "musicgen": {"architectures": ["MusicgenForConditionalGeneration"]},
    "musicgen_melody": {"architectures": ["MusicgenMelodyForConditionalGeneration"]},
    "step3p7": {
        "vision_config": {"hidden_size": 768, "num_attention_heads": 8},
        "text_config": {
            "sliding_window": 512,
            "vocab_size": 152_000,
            "hidden_size": 1024,
            "intermediate_size": 2048,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "n_routed_experts": 8,
            "num_local_experts": 8,
            "moe_intermediate_size": 512,
            "share_expert_dim": 512,
        },
    },
    "diffusion_gemma": {
        "text_config": {
            "num_experts": 16,
            "top_k_experts": 4,
            "moe_intermediate_size": 704,
        }
    },
}
"""Fields that a default config needs changed before it can be built or run at all."""


def reduced_config(model_type: str) -> Any:
    """The default config of a model type with at most `LAYERS` layers in each part."""
    own = OWN_FIELDS.get(model_type, {})
    config = AutoConfig.for_model(model_type, **own)
    changed = shared_widths(config)
    if model_type not in KEEP_LAYERS:
        changed |= fewer_layers(config, changed)
    try:
        return (
            AutoConfig.for_model(model_type, **(own | changed)) if changed else config
        )
    except Exception:  # noqa: BLE001  fields that point at layers by number
        return config


def shared_widths(config: Any) -> dict[str, Any]:
    """Make the vision part's output as wide as the text part's vectors."""
    text = getattr(config, "text_config", None)
    vision = getattr(config, "vision_config", None)
    width = getattr(text, "hidden_size", None)
    given = getattr(vision, "out_hidden_size", width)
    if vision is None or given == width:
        return {}
    return {"vision_config": changed_fields(vision) | {"out_hidden_size": width}}


def fewer_layers(config: Any, changed: dict[str, Any]) -> dict[str, Any]:
    """Fields that reduce the layers of a config and of the configs inside it."""
    fewer: dict[str, Any] = {}
    for name, value in vars(config).items():
        if isinstance(value, PretrainedConfig):
            inner = fewer_layers(value, {})
            if inner and value.model_type not in KEEP_LAYERS:
                fewer[name] = changed.get(name, changed_fields(value)) | inner
        elif name in LAYER_FIELDS and isinstance(value, int) and value > LAYERS:
            fewer[name] = LAYERS
    return fewer


def changed_fields(config: Any) -> dict[str, Any]:
    """What sets an inner config apart from the default of its type."""
    fields: dict[str, Any] = config.to_diff_dict()
    fields.pop("transformers_version", None)
    counts = {v for k, v in vars(config).items() if k in LAYER_FIELDS}
    per_layer = [
        k for k, v in fields.items() if isinstance(v, list | tuple) and len(v) in counts
    ]
    for name in per_layer:  # made again for the new number of layers
        del fields[name]
    return {"model_type": config.model_type} | fields
