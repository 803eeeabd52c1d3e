"""How the weights of a decoder are published, as its config says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irene.trace.serving.families import Family

PUBLISHED_IN_FP8 = 7168
"""Width of DeepSeek V3, R1 and Kimi K2, whose weights are published in fp8 blocks."""
PACKED = {"MXFP4": "mxfp4", "NVFP4": "fp4"}
"""Types of GGUF files that engines also multiply as such."""
ALIKE = 0.15
"""Bits by which weights of a file may differ from a rule that holds on average."""


def published_type(config: Mapping[str, Any], family: Family, hidden: int) -> str:
    """How linear weights are published."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        is_fp8 = family.weight_type == "fp8_block" and hidden != PUBLISHED_IN_FP8
        return "" if is_fp8 else family.weight_type
    method = str(given.get("quant_method", "")).lower()
    algorithm = str(given.get("quant_algo", "")).lower()
    if method == "gguf":
        stored = str(given.get("quant_type", ""))
        return PACKED.get(stored) or str(given.get("mix", ""))
    if method == "fp8":
        return "fp8_block" if given.get("weight_block_size") else "fp8"
    if method == "compressed-tensors":
        return _compressed_type(given)
    for word, kind in (("mxfp4", "mxfp4"), ("nvfp4", "fp4"), ("fp8", "fp8")):
        if word in (method, algorithm):
            return kind
    bits = given.get("bits") or given.get("w_bit")
    return "int4" if bits == 4 or method in ("awq", "gptq") else ""


def stored_notes(config: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """A note where weights are stored in a way that only something near stands for."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping) or given.get("quant_method") != "gguf":
        return ()
    off = float(given.get("bits_apart", 0.0))
    told = f"weights stored as {', '.join(given.get('weights', ()))}: {kind}"
    if off < ALIKE:
        return (told,)
    return (f"extrapolation: {told} is the nearest known, {off:.2g} bits apart",)


def _compressed_type(given: Mapping[str, Any]) -> str:
    """How `compressed-tensors` stores weights: type and bits of its first group."""
    groups = given.get("config_groups") or {}
    found = (group.get("weights") or {} for group in groups.values())
    weights = next(found, {})
    is_float, bits = weights.get("type") == "float", weights.get("num_bits")
    if bits == 8 and is_float:
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    if bits == 4:
        return "fp4" if is_float else "int4"
    return ""
