"""From a name, a config or a file to a model on the meta device."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from irene.errors import ConfigError, NoAttentionError
from irene.spec import RunSpec
from irene.trace.limits import Limits
from irene.trace.sources import config_digest, quiet, short
from irene.trace.twins import find_config
from irene.trace.values import carrying_values

CODE = "auto_map"
"""The field of a config that names code to be run, which irene never does."""
TORCH_DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """A config and how to build a model from it.

    Attributes:
        name: What to call the model.
        config: Its transformers config.
        auto_class: Class of transformers that builds it (`AutoModel`, `BertModel`).
        origin: Where the config comes from, in words.
    """

    name: str
    config: PretrainedConfig
    auto_class: str
    origin: str

    @property
    def digest(self) -> str:
        """16 hex digits of the config and class."""
        return config_digest(self.auto_class, self.config.to_dict())


def resolve(
    model: str | Path | PretrainedConfig,
    limits: Limits,
    model_class: str | None = None,
) -> Resolved:
    """Find the config of a model.

    Args:
        model: Catalogue name, alias, path of a config.json or of a folder with one,
            Hugging Face id, or a transformers config.
        limits: What is refused.
        model_class: A class of transformers to build instead of the usual one.

    Raises:
        UnknownModelError: Nothing answers to that name.
        ConfigError: The config cannot be read or is not one of transformers'.
        LimitError: The config asks for absurd sizes.
    """
    if isinstance(model, PretrainedConfig):
        model = deepcopy(model)  # it is the caller's
        _forget_code(model)
        limits.check_config(model.to_dict())
        name = getattr(model, "_name_or_path", "") or model.model_type
        return Resolved(name, model, _class_of(model, model_class), "a config object")
    source = find_config(model, limits)
    config = _make_config(source.read(limits), source.name, limits)
    chosen = _class_of(config, model_class or source.usual_class)
    return Resolved(source.name, config, chosen, source.origin)


def _make_config(
    fields: Mapping[str, Any], origin: str, limits: Limits
) -> PretrainedConfig:
    limits.check_config(fields)
    fields = dict(fields)
    model_type = fields.pop("model_type", None)
    if not isinstance(model_type, str):
        raise ConfigError(f"{origin} has no model_type: is it a transformers config?")
    if model_type not in CONFIG_MAPPING:
        raise ConfigError(_unknown_type(model_type, fields, origin))
    try:
        return config_of(model_type, fields)
    except Exception as error:
        raise ConfigError(f"{origin}: {short(error)}") from error


def config_of(model_type: str, fields: Mapping[str, Any]) -> PretrainedConfig:
    """A config of transformers that names no code to be run.

    Raises:
        ConfigError: A field is not what every config has there.
        Exception: Whatever transformers raises when it refuses them.
    """
    fields = _without_code(fields)
    named = fields.get("architectures")
    if not (named is None or isinstance(named, list)) or not all(
        isinstance(name, str) for name in named or ()
    ):
        raise ConfigError(f"architectures is a list of names, not {str(named)[:50]!r}")
    with quiet():
        config = AutoConfig.for_model(model_type, **fields)
    _forget_code(config)  # of a config that this one names, which transformers fetches
    return config


def _without_code(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config and its inner ones, without what would be run of them."""
    kept = {}
    for name, value in fields.items():
        if name == CODE:
            continue
        # transformers takes whatever attribute of torch it names.
        if name in ("dtype", "torch_dtype") and value not in (None, "auto"):
            found = getattr(torch, str(value).removeprefix("torch."), None)
            if not isinstance(found, torch.dtype):
                raise ConfigError(f"torch has no dtype {str(value)[:50]!r}")
        kept[name] = _without_code(value) if isinstance(value, Mapping) else value
    return kept


def _forget_code(config: PretrainedConfig) -> None:
    """Take from a config, and from those inside it, the code that they name."""
    vars(config).pop(CODE, None)
    for inner in vars(config).values():
        if isinstance(inner, PretrainedConfig):
            _forget_code(inner)


def _unknown_type(model_type: str, fields: Mapping[str, Any], origin: str) -> str:
    version = transformers.__version__
    message = f"{origin}: transformers {version} knows no model_type {model_type!r}"
    if CODE in fields:
        return (
            f"{message}, and the config asks to run code of its own (auto_map), which "
            "irene never does; use a model type that transformers has built in"
        )
    near = difflib.get_close_matches(model_type, list(CONFIG_MAPPING), n=3)
    return f"{message}" + (f"; did you mean {', '.join(near)}?" if near else "")


def _class_of(config: PretrainedConfig, model_class: str | None) -> str:
    """The class to build: the one asked for, the config's own, or the base model."""
    if model_class is not None:
        return model_class
    named = (config.architectures or ["AutoModel"])[0]
    return named if hasattr(transformers, named) else "AutoModel"


def build(resolved: Resolved, spec: RunSpec, device: str = "meta") -> nn.Module:
    """A model from its config, with random or no weights.

    Dtype and attention are the run's; `train` builds it in training mode.

    Raises:
        ConfigError: transformers cannot build it.
    """
    factory = _factory(resolved.auto_class)
    options: dict[str, Any] = {
        "attn_implementation": spec.attention,
        "dtype": TORCH_DTYPES[spec.dtype],
    }
    try:
        with quiet(), torch.device(device), carrying_values():
            model = _instantiate(factory, resolved, options)
    except Exception as error:
        if "attention implementation" in str(error):
            raise NoAttentionError(
                f"{resolved.name} has no {spec.attention!r} attention in transformers: "
                "choose another (--attention)"
            ) from error
        raise ConfigError(
            f"cannot build {resolved.auto_class} from {resolved.name}: {short(error)}"
        ) from error
    _choose_experts(model)
    return model.train(spec.phase == "train")


def _factory(name: str) -> Any:
    factory = getattr(transformers, name, None)
    if factory is None or not isinstance(factory, type):
        raise ConfigError(
            f"transformers {transformers.__version__} has no class {name!r}"
        )
    return factory


def _instantiate(
    factory: Any, resolved: Resolved, options: dict[str, Any]
) -> nn.Module:
    config = deepcopy(resolved.config)  # building writes into it
    if hasattr(factory, "from_config"):
        # Never a prompt: code that a config names is not run, whatever anybody answers.
        options = {**options, "trust_remote_code": False}
        model: nn.Module = factory.from_config(config, **options)
    else:
        model = factory._from_config(config, **options)
    return model


def _choose_experts(model: nn.Module) -> None:
    """Run experts as one grouped product: the loop over experts needs real data."""
    choose = getattr(model, "set_experts_implementation", None)
    can = getattr(model, "_can_set_experts_implementation", None)
    if choose is not None and can is not None and can():
        with quiet():
            choose("grouped_mm")
