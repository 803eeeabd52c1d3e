"""The models of a study, from names and `--set`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.account.studies import Subject
    from irene.analyse.config_fields import ModelConfig

__all__ = ["parse_fields", "subjects"]

SHORT = {"num_hidden_layers": "L", "hidden_size": "H", "num_attention_heads": "A"}
"""How the paper calls the sizes of a model."""
FOLLOWING = ("num_attention_heads", "intermediate_size")
"""Fields that grow with the width unless they are set, as in published models."""


def parse_fields(words: Sequence[str]) -> dict[str, list[Any]]:
    """Fields and their values.

    Args:
        words: Each `FIELD=VALUE,…`.

    Raises:
        UsageError: A word is something else, or names a field again.
    """
    from irene.analyse.config_fields import parse_value

    found: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        values = [parse_value(value.strip()) for value in text.split(",")]
        if not name or not equals or "" in values:
            raise UsageError(f"--set {word}: write --set FIELD=VALUE,…")
        if name in found:
            raise UsageError(f"--set {name} is given twice")
        if len({repr(value) for value in values}) < len(values):
            raise UsageError(f"--set {word}: a value is given twice")
        found[name] = values
    return found


def subjects(model: str, fields: Mapping[str, Sequence[Any]]) -> list[Subject]:
    """A model with every combination of values.

    Args:
        model: Catalogue name, Hugging Face id or path of a config.json.
        fields: Values by name of the field.

    Raises:
        UsageError: There is no such model or field, or a value cannot be right.
    """
    from irene.account.studies import Subject
    from irene.analyse.config_fields import changed_config, read_config
    from irene.trace.limits import limits_from_environment

    base = read_config(model, None, limits_from_environment())
    found = []
    for values in itertools.product(*fields.values()):
        chosen = dict(zip(fields, values, strict=True))
        config = changed_config(base, _with_following(base, chosen))
        varied = {name: chosen[name] for name in fields if len(fields[name]) > 1}
        words = (f"{SHORT.get(name, name)}={value}" for name, value in varied.items())
        found.append(Subject(" ".join(words) or base.name, config, varied))
    return found


def _with_following(base: ModelConfig, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Changes with heads and feed-forward width in proportion to a new width."""
    from irene.analyse.config_fields import fields_of

    found, known = dict(chosen), fields_of(base.config)
    old, new = known.get("hidden_size"), chosen.get("hidden_size")
    if not isinstance(old, int) or not isinstance(new, int) or old < 1:
        return found
    for name in FOLLOWING:
        value = known.get(name)
        if name not in chosen and isinstance(value, int) and value * new % old == 0:
            found[name] = max(1, value * new // old)
    return found
