"""Fields of a model's config: which there are, and a config with some of them changed.

A changed config is made anew from the published fields, so that what transformers
derives from them (a head's width, the type of every layer) follows the change.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from irene.errors import ConfigError, UsageError
from irene.trace.sources import Changed, config_key, short

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from irene.trace.limits import Limits

NOT_OF_THE_MODEL = frozenset(
    {
        "_name_or_path", "architectures", "dtype", "id2label", "label2id", "model_type",
        "output_attentions", "output_hidden_states", "problem_type", "return_dict",
        "transformers_version",
    }
)  # fmt: skip
LAYER_COUNTS = ("num_hidden_layers", "n_layer", "num_layers")
ACTIVATIONS = frozenset(
    {"relu", "relu2", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "silu"}
)
"""Usual ones of transformers, whose whole list takes seconds to import."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The config of a model, as published and as transformers reads it.

    Attributes:
        name: What to call the model.
        fields: As published.
        known: Every field that can be set, as transformers reads it; those of parts
            as `part.field`.
        aliases: Fields that go by another name, and their own.
        model_class: Class of transformers that builds it.
    """

    name: str
    fields: Mapping[str, Any]
    known: Mapping[str, Any]
    aliases: Mapping[str, str]
    model_class: str

    def own_names(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes, by the fields' own names."""
        return {self.aliases.get(name, name): v for name, v in changes.items()}


def read_config(model: str, model_class: str | None, limits: Limits) -> ModelConfig:
    """Find a model and read its config."""
    from irene.trace.templates.keeping import shipped_config
    from irene.trace.twins import find_config

    source = find_config(model, limits)
    fields = source.read(limits)
    limits.check_config(fields)
    if source.entry is not None:
        shipped = shipped_config(source.entry.name, config_key(source))
        if shipped is not None:
            usual = source.entry.auto_class
            return ModelConfig(source.name, fields, *shipped[:2], model_class or usual)
    from irene.trace.models import resolve

    found = resolve(model, limits, model_class)
    return ModelConfig(found.name, fields, *fields_of(found.config), found.auto_class)


def parse_value(text: str) -> Any:
    """A value as JSON writes it (`6`, `true`, `null`, `[1, 2]`), else the text."""
    value: Any
    try:
        # NaN and infinities are no values that a document can show: they stay text.
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise UsageError(f"{text[:50]!r}… is nested too deep for a value") from error
    except ValueError:
        try:
            value = _finite(text)
        except ValueError:
            value = text
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def fields_of(config: PretrainedConfig) -> tuple[dict[str, Any], dict[str, str]]:
    """Every field that can be set, with its value, and other names of fields."""
    found: dict[str, Any] = {}
    for name, value in config.to_dict().items():
        if name in NOT_OF_THE_MODEL:
            continue
        if name.endswith("_config") and isinstance(value, dict):
            inner = {k: v for k, v in value.items() if k not in NOT_OF_THE_MODEL}
            found |= {f"{name}.{key}": each for key, each in inner.items()}
        else:
            found[name] = value
    aliases = dict(getattr(config, "attribute_map", None) or {})
    for name, real in aliases.items():
        if real in found:
            found.setdefault(name, found[real])
    return found, aliases


def changed(base: ModelConfig, changes: Mapping[str, Any]) -> Changed:
    """A model with some fields changed; its config is made when it is needed."""
    return Changed(
        base.name,
        base.own_names(changes),
        partial(changed_fields, base, changes),
        partial(changed_config, base, changes),
    )


def changed_fields(base: ModelConfig, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A config as it would be published with some fields changed."""
    fields: dict[str, Any] = json.loads(json.dumps(dict(base.fields)))
    for name, value in changes.items():
        _check_field(base.name, base.known, name, value)
        _put(fields, base.aliases.get(name, name), value)
    _check_heads(base, changes)
    _follow_layer_count(fields, changes, base.known)
    return fields


def changed_config(base: ModelConfig, changes: Mapping[str, Any]) -> PretrainedConfig:
    """The same as transformers reads it.

    Raises:
        UsageError: There is no such field, or its value cannot be right.
        ConfigError: transformers refuses the config.
    """
    from irene.trace.models import config_of

    fields = changed_fields(base, changes)
    model_type = fields.pop("model_type")
    try:
        config = config_of(model_type, fields)
    except Exception as error:
        told = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        raise ConfigError(f"{base.name} with {told}: {short(error)}") from error
    config._name_or_path = base.name
    return config


def _put(fields: dict[str, Any], name: str, value: Any) -> None:
    holder, dot, inner = name.partition(".")
    if not dot:
        fields[name] = value
    else:
        fields[holder] = {**(fields.get(holder) or {}), inner: value}


def _check_field(model: str, known: Mapping[str, Any], name: str, value: Any) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=4, cutoff=0.4)
        words = [n for n in known if any(w in n for w in name.split("_") if len(w) > 3)]
        choices = list(dict.fromkeys([*near, *words]))[:6]
        hint = (
            f"did you mean {', '.join(choices)}?"
            if choices
            else "there are "
            + (", ".join(n for n, v in known.items() if v is not None))
        )
        raise UsageError(f"{model} has no config field {name!r}; {hint}")
    old = known[name]
    if _kind(old) and _kind(value) != _kind(old):
        raise UsageError(
            f"{name} of {model} is a {_kind(old)} ({old!r}), got {value!r}"
        )
    if _kind(old) == "number" and value <= 0 < old:
        raise UsageError(f"{name} must be more than 0, got {value!r}")
    if isinstance(old, int) and isinstance(value, float) and value != int(value):
        raise UsageError(f"{name} must be a whole number, got {value!r}")
    _check_activation(name, old, value)


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "truth value (true or false)"
    if isinstance(value, int | float):
        return "number"
    return "word" if isinstance(value, str) else None


def _check_activation(name: str, old: Any, value: Any) -> None:
    if not isinstance(old, str) or {old, value} <= ACTIVATIONS:
        return
    from transformers.activations import ACT2FN

    if old not in ACT2FN or value in ACT2FN:
        return
    near = difflib.get_close_matches(str(value), ACT2FN, n=3)
    hint = f"did you mean {', '.join(near)}? There are" if near else "there are"
    raise UsageError(f"no activation {value!r} for {name}; {hint} {', '.join(ACT2FN)}")


def _follow_layer_count(
    fields: dict[str, Any], changes: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    """Lists with one entry per layer keep their pattern at the new length."""
    counts = [name for name in LAYER_COUNTS if name in changes and name in known]
    for count in counts:
        old, new = known[count], int(changes[count])
        for name, value in fields.items():
            one_each = isinstance(value, list) and len(value) == old and old > 1
            if one_each and name not in changes:
                fields[name] = [value[i % old] for i in range(new)]


def _check_heads(base: ModelConfig, changes: Mapping[str, Any]) -> None:
    """A width that its heads do not divide has a clear message of its own."""
    values = {**base.known, **base.own_names(changes)}
    width, heads, groups = (
        values.get(base.aliases.get(name, name))
        for name in ("hidden_size", "num_attention_heads", "num_key_value_heads")
    )
    if not changes or not isinstance(width, int) or not isinstance(heads, int):
        return
    has_own_width = "head_dim" in base.fields or "head_dim" in changes
    if not has_own_width and width % heads:
        lower = width // heads * heads
        divisors = [n for n in range(1, width + 1) if width % n == 0 and n <= 4 * heads]
        raise UsageError(
            f"{base.name}: a width of {width} cannot be shared by {heads} heads; take "
            f"a width of {lower or heads} or {lower + heads}, or one of "
            f"{', '.join(map(str, divisors[-6:]))} heads"
        )
    if isinstance(groups, int) and groups and heads % groups:
        raise UsageError(
            f"{base.name}: {heads} heads cannot share {groups} key-value heads; set "
            "num_key_value_heads to a divisor of num_attention_heads"
        )
