"""How the weights of a decoder are published, as its config says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irene.trace.serving.families import Family

PUBLISHED_IN_FP8 = 7168
"""Width of DeepSeek V3, R1 and Kimi K2, whose weights are published in fp8 blocks."""
PACKED = {"MXFP4": "mxfp4", "NVFP4": "fp4"}
"""Types of GGUF files that engines also multiply as such."""
WORDS = {
    "mxfp4": "mxfp4", "nvfp4": "fp4", "fp8": "fp8", "float8": "fp8", "int4": "int4",
    "int8": "fp8",
}  # fmt: skip
"""Words in what names a way to quantise, and what each is read as."""
NEAREST = {4: "int4", 8: "fp8"}
"""What whole numbers of up to so many bits are read as."""
ALIKE = 0.15
"""Bits by which weights of a file may differ from a rule that holds on average."""
HOW = ("quant_method", "quant_algo", "quant_type")
"""Fields that name a way to quantise."""


def published_type(config: Mapping[str, Any], family: Family, hidden: int) -> str:
    """How linear weights are published."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        is_fp8 = family.weight_type == "fp8_block" and hidden != PUBLISHED_IN_FP8
        return "" if is_fp8 else family.weight_type
    method = str(given.get("quant_method", "")).lower()
    if method == "gguf":
        stored = str(given.get("quant_type", ""))
        return PACKED.get(stored) or str(given.get("mix", ""))
    if method == "fp8":
        return "fp8_block" if given.get("weight_block_size") else "fp8"
    if weights := _compressed(given):
        return _compressed_type(weights) or _nearest(_whole_bits(given))
    told = " ".join(str(given.get(name, "")) for name in HOW).lower()
    named = (kind for word, kind in WORDS.items() if word in told)
    return next(named, "") or _nearest(_whole_bits(given))


def _nearest(bits: int) -> str:
    return next((kind for most, kind in NEAREST.items() if 0 < bits <= most), "")


def quantizes_attention(config: Mapping[str, Any]) -> bool:
    """Whether attention is stored as the other weights are: some leave it out."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        return True
    left_out = given.get("ignore") or given.get("modules_to_not_convert") or ()
    return not any("attn" in str(name) for name in left_out)


def _whole_bits(given: Mapping[str, Any]) -> int:
    """Bits of whole numbers that weights are stored in, 0 where they are none."""
    if weights := _compressed(given):
        is_float = weights.get("type") == "float"
        return 0 if is_float else int(weights.get("num_bits") or 0)
    for name, bits in (("load_in_8bit", 8), ("load_in_4bit", 4)):
        if given.get(name):
            return bits
    usual = 4 if given.get("quant_method") in ("awq", "gptq") else 0
    return int(given.get("bits") or given.get("w_bit") or usual)


def stored_notes(config: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """A note where weights are stored in a way that only something near stands for."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        return ()
    if (method := given.get("quant_method")) != "gguf":
        bits = _whole_bits(given)
        told = f"weights in int{bits}, read as {kind}, which has as many bytes"
        if not kind:
            told = f"weights quantised by {method}, in a way not known: read as if not"
        elif bits != 8:
            told = f"weights of {bits} bits, read as {kind}, the nearest known"
        return () if kind and bits in (0, 4) else (f"extrapolation: {told}",)
    off = float(given.get("bits_apart", 0.0))
    told = f"weights stored as {', '.join(given.get('weights', ()))}: {kind}"
    if off < ALIKE:
        return (told,)
    return (f"extrapolation: {told} is the nearest known, {off:.2g} bits apart",)


def _compressed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """How `compressed-tensors` stores the weights of its first group."""
    groups = given.get("config_groups") or {}
    return next((group.get("weights") or {} for group in groups.values()), {})


def _compressed_type(weights: Mapping[str, Any]) -> str:
    """The type of weights that are no whole numbers, "" of those that are."""
    if weights.get("type") != "float":
        return ""
    blocks = "fp8_block" if weights.get("strategy") == "block" else "fp8"
    return {8: blocks, 4: "fp4"}.get(int(weights.get("num_bits") or 0), "")
