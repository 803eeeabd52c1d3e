"""The config that a file of weights implies: GGUF and safetensors, by their headers.

No weight is read, whatever the size. A GGUF file says all that a config says; beside
safetensors lies a config.json. How weights are stored is in `quantization_config`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from irene.errors import ConfigError
from irene.trace.gguf_header import Header, header_of, read_header
from irene.whole_file import trying_to

GGUF, SAFETENSORS, INDEX = ".gguf", ".safetensors", ".safetensors.index.json"
ONNX = ".onnx"
SUFFIXES = (GGUF, SAFETENSORS, INDEX, ONNX)
"""How the names of files end whose headers are read."""
LONGEST_HEADER = 100_000_000
PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)
"""How the name of a part of a GGUF file ends."""
FIELDS = {
    "embedding_length": "hidden_size", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "context_length":
    "max_position_embeddings", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length":
    "head_dim", "attention.sliding_window": "sliding_window",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}  # fmt: skip
"""Keys of a GGUF header, after the architecture, and what configs call them."""
OWN_FIELDS: Mapping[str, Mapping[str, str]] = {
    "gpt-oss": {
        "expert_count": "num_local_experts",
        "expert_feed_forward_length": "intermediate_size",
    },
    "deepseek2": {
        "expert_count": "n_routed_experts", "expert_shared_count": "n_shared_experts",
        "leading_dense_block_count": "first_k_dense_replace",
        "attention.q_lora_rank": "q_lora_rank", "rope.dimension_count":
        "qk_rope_head_dim", "attention.kv_lora_rank": "kv_lora_rank",
    },
}  # fmt: skip
"""What some architectures call otherwise."""
HEAD_SIZES = (
    "attention.key_length_mla", "attention.value_length", "attention.value_length_mla",
)  # fmt: skip
"""Keys of sizes that fields are worked out from."""
ARCHITECTURES = {
    "llama": "llama", "mistral3": "mistral", "qwen2": "qwen2", "qwen2moe": "qwen2_moe",
    "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "gemma": "gemma", "gemma2": "gemma2",
    "gemma3": "gemma3_text", "phi3": "phi3", "phi2": "phi", "olmo": "olmo",
    "olmo2": "olmo2", "olmoe": "olmoe", "granite": "granite", "smollm3": "smollm3",
    "command-r": "cohere", "cohere2": "cohere2", "stablelm": "stablelm",
    "starcoder2": "starcoder2", "gpt-oss": "gpt_oss", "deepseek2": "deepseek_v2",
    "falcon": "falcon", "bloom": "bloom", "mpt": "mpt", "gpt2": "gpt2",
    "starcoder": "gpt_bigcode", "gptj": "gptj", "gptneox": "gpt_neox", "bert": "bert",
}  # fmt: skip
"""Architectures of GGUF files, and the type of the config."""
SIGMOID = 2
"""How DeepSeek V3 chooses experts, and V2 does not."""
PACKED = ("I32", "U8", "I8")
"""Types of safetensors that hold several weights of a few bits, or one of eight."""


def is_model_file(path: Path) -> bool:
    """Whether a name is that of a file of weights."""
    return path.name.lower().endswith(SUFFIXES)


def is_engines_file(model: str) -> bool:
    """Whether a name is that of a GGUF file with a language model for llama.cpp."""
    from irene.trace.sources import files_count

    if not model.lower().endswith(GGUF) or not files_count():
        return False
    try:
        return bool(read_model_file(Path(model))["model_type"] != "bert")
    except ConfigError:  # it is told where the model is read
        return False


def onnx_path(model: object) -> Path | None:
    """The path of an ONNX file, if a model is one: it has a graph and no config."""
    if not isinstance(model, str | Path) or not str(model).lower().endswith(ONNX):
        return None
    return Path(model)


def read_model_file(path: Path) -> dict[str, Any]:
    """The fields of a config, from the header of a file of weights.

    Raises:
        ConfigError: It cannot be read, is cut short, or is of an unknown architecture.
    """
    if onnx_path(path) is not None:
        raise ConfigError(f"{path} has a graph, and no config that could be served")
    with trying_to("read", path, ConfigError):
        if path.name.lower().endswith(GGUF):
            state = path.stat()
            return dict(_read_gguf(path, (state.st_mtime_ns, state.st_size)))
        return _config_beside(path)


# GGUF -------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _read_gguf(path: Path, state: tuple[int, int]) -> Mapping[str, Any]:
    """The config of a GGUF file, read once for as long as it stays as it is."""
    del state  # only tells two contents of one file apart
    return _config_of(_whole_header(path), path)


def _whole_header(path: Path) -> Header:
    """The header of a file; of a part, with those of the other parts beside it."""
    header, named = header_of(path), PART.search(path.name)
    if not named or "split.count" not in header.values:
        return header
    ends = (f"-{n:05}-of-{named[1]}.gguf" for n in range(1, int(named[1]) + 1))
    parts = [path.with_name(path.name[: named.start()] + end) for end in ends]
    found = [header_of(part) for part in parts if part.is_file()]  # they say enough
    values, tensors = (
        {k: v for each in reversed(found) for k, v in getattr(each, name).items()}
        for name in ("values", "tensors")
    )
    return Header(values, tensors)


def gguf_config(data: bytes, name: str) -> dict[str, Any]:
    """The config that the beginning of a GGUF file says."""
    return _config_of(read_header(data, name), Path(name))


def _config_of(header: Header, path: Path) -> dict[str, Any]:
    from irene.trace.serving.families import FAMILIES  # which reads configs itself

    arch = str(header.values.get("general.architecture", ""))
    if not arch and "split.no" in header.values:
        raise ConfigError(
            f"{path} is a later part of a model: put the first one, which says what "
            "the model is, beside it"
        )
    if arch not in ARCHITECTURES:
        raise ConfigError(
            f"{path}: no GGUF architecture {arch!r} is known here, only "
            f"{', '.join(ARCHITECTURES)}; give the model's config.json instead"
        )
    prefix, names = f"{arch}.", {**FIELDS, **OWN_FIELDS.get(arch, {})}
    sizes = {*names, *HEAD_SIZES}
    given = {
        (each := key.removeprefix(prefix)): _one(key, value, path, each in sizes)
        for key, value in header.values.items()
        if key.startswith(prefix)
    }
    fields = {name: given[key] for key, name in names.items() if key in given}
    kind = _kind(ARCHITECTURES[arch], given)
    fields |= _from_tensors(header, kind, path) | _of_family(kind, given)
    aliases = FAMILIES[kind].aliases if kind in FAMILIES else {}
    fields = {
        aliases.get(n, n): value for n, value in fields.items() if value is not None
    }
    named = FAMILIES[kind].class_name if kind in FAMILIES else "BertModel"
    return {"model_type": kind, "architectures": [named], **fields}


def _one(key: str, value: Any, path: Path, is_size: bool) -> Any:
    """A value; the one of all layers, where sizes of them are listed."""
    if not is_size:
        return value
    values = value if isinstance(value, list) else [value]
    if len(set(values)) > 1:
        raise ConfigError(
            f"{path}: layers differ in {key}, which is not read from a header; give "
            "the model's config.json instead"
        )
    if not values or type(values[0]) not in (int, float) or values[0] < 0:
        raise ConfigError(f"{path} is damaged: {key} is {value!r}, and no size")
    return values[0]


def _kind(kind: str, given: Mapping[str, Any]) -> str:
    """The type of the config where one architecture stands for several."""
    if kind == "llama" and given.get("expert_count"):
        return "mixtral"
    is_v3 = kind == "deepseek_v2" and given.get("expert_gating_func") == SIGMOID
    return "deepseek_v3" if is_v3 else kind


def _of_family(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that follow from several keys, or from none."""
    if kind == "mixtral":
        return {"num_local_experts": given["expert_count"], "num_experts": None}
    if not kind.startswith("deepseek"):
        return {}
    key = given.get("attention.key_length_mla", given.get("attention.key_length", 0))
    value = given.get("attention.value_length_mla", given.get("attention.value_length"))
    rope, heads = given.get("rope.dimension_count"), given.get("attention.head_count")
    if not value or not rope or not heads or key < rope:
        raise ConfigError(
            "a deepseek2 GGUF file does not say what sizes its heads have"
        )
    return {
        "qk_nope_head_dim": key - rope, "v_head_dim": value,
        "head_dim": rope, "num_key_value_heads": heads,
    }  # fmt: skip


def _from_tensors(header: Header, kind: str, path: Path) -> dict[str, Any]:
    """What the list of tensors says: vocabulary, ties, biases, how they are stored."""
    tensors = header.tensors
    if "token_embd.weight" not in tensors:
        raise ConfigError(
            f"{path} has no tensor token_embd.weight: are all parts of the model there?"
        )
    shape, _ = tensors["token_embd.weight"]
    fields: dict[str, Any] = {"vocab_size": shape[-1] if shape else 0}
    is_whole = len(tensors) >= header.values.get("split.tensors.count", 0)
    if kind != "bert" and (is_whole or "output.weight" in tensors):
        fields["tie_word_embeddings"] = "output.weight" not in tensors
    if kind in ("llama", "mixtral", "granite", "qwen3", "olmo"):
        fields["attention_bias"] = "blk.0.attn_q.bias" in tensors
    if kind == "llama":
        fields["mlp_bias"] = "blk.0.ffn_up.bias" in tensors
    return fields | _how_stored(tensors)


def _how_stored(tensors: Mapping[str, tuple[tuple[int, ...], str]]) -> dict[str, Any]:
    """The `quantization_config` of layers that are quantised."""
    from irene.trace.serving.gguf import nearest_mix

    parts: Counter[tuple[str, str]] = Counter()
    for name, (sizes, of) in tensors.items():
        if name.startswith("blk.") and len(sizes) > 1:
            parts[name.split(".")[2], of] += prod(sizes)
    stored: Counter[str] = Counter()
    for (_, of), count in parts.items():
        stored[of] += count
    usual, _ = stored.most_common(1)[0] if stored else ("F16", 0)
    if usual in ("F32", "F16", "BF16"):
        return {}
    mix, off = nearest_mix(parts)
    told = {
        "quant_method": "gguf", "quant_type": usual, "weights": list(stored),
        "mix": mix, "bits_apart": off,
    }  # fmt: skip
    return {"quantization_config": told}


# safetensors ------------------------------------------------------------------


def _config_beside(path: Path) -> dict[str, Any]:
    """The config.json of the folder, with what the headers say of the weights."""
    config = path.parent / "config.json"
    if not path.is_file():
        raise ConfigError(f"cannot read {path}: no such file")
    tensors = dict(_tensors(path))
    if not config.is_file():
        raise ConfigError(
            f"no config.json beside {path}: safetensors hold weights alone, put the "
            "model's config.json into their folder"
        )
    try:
        fields = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{config} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ConfigError(f"{config} is not a config: it holds no object")
    _check_belongs(fields, tensors, path)
    if not fields.get("quantization_config"):
        kinds = {kind for shape, kind in tensors.values() if len(shape) > 1}
        if any(kind.startswith("F8_") for kind in kinds):
            fields["quantization_config"] = {"quant_method": "fp8"}
        elif kinds & set(PACKED):
            raise ConfigError(
                f"{path} holds packed weights ({', '.join(sorted(kinds))}), and "
                f"{config} has no quantization_config that says what they are"
            )
    return fields


def _tensors(path: Path) -> Iterator[tuple[str, tuple[list[int], str]]]:
    """Shape and type of every tensor, by name."""
    if path.name.lower().endswith(INDEX):
        try:
            index = json.loads(path.read_text(encoding="utf-8"))
            parts = set(index["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is no index of safetensors: {error}") from error
        for name in sorted(parts):
            if (part := path.parent / name).is_file():  # it says enough without them
                yield from _tensors(part)
        return
    with path.open("rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        text = file.read(length) if length <= LONGEST_HEADER else b""
    try:
        if len(start) < 8 or len(text) != length:
            raise ValueError("it ends too early")
        header = json.loads(text)
        for name, each in header.items():
            if name != "__metadata__":
                yield name, (each["shape"], each["dtype"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        told = f"the safetensors header of {path} is damaged: {error}"
        raise ConfigError(told) from error


def _check_belongs(
    fields: Mapping[str, Any], tensors: Mapping[str, Any], path: Path
) -> None:
    """Refuse a config whose vocabulary or width is not that of the weights."""
    sizes = [fields.get(name) for name in ("vocab_size", "hidden_size")]
    for name, (shape, kind) in tensors.items():
        is_table = name.endswith(("embed_tokens.weight", "word_embeddings.weight"))
        if is_table and None not in sizes and kind not in PACKED and shape != sizes:
            raise ConfigError(
                f"{path.parent / 'config.json'} is not the config of {path.name}: "
                f"{name} is {shape[0]} × {shape[-1]}, the config says "
                f"{sizes[0]} × {sizes[1]}"
            )
