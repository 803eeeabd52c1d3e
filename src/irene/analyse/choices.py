"""What to vary, as people write it: `1,8,32`, `64:512:64`, `hidden_act=relu,gelu`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from irene.analyse.config_fields import parse_value
from irene.analyse.subject import NORMS
from irene.errors import UsageError
from irene.parameters import parameters_of
from irene.spec import RunSpec

__all__ = ["LISTED", "read_choices", "read_values", "write_choices"]

MOST_VALUES = 1_000
LISTED = (
    "dtype", "attention", "quantization", "cache_dtype", "batch_size", "seq_len",
    "context_len", "prompt_len", "output_len", "tensor_parallel",
)  # fmt: skip
"""Fields of a run of which several values may be given at once."""


def read_choices(
    fields: Sequence[str], lists: Mapping[str, str]
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Values by name, in the order a table shows them; and those of the base.

    Args:
        fields: `FIELD=VALUE,…`, as often as need be.
        lists: Values of `norm` and of what is `LISTED`.

    Returns:
        What is varied; and the first value of every list that is no change by itself.

    Raises:
        UsageError: A list cannot be read.
    """
    varied: dict[str, list[Any]] = {}
    for text in fields:
        name, is_pair, values = text.partition("=")
        if not (name.strip() and is_pair and values.strip()):
            raise UsageError(f"set takes FIELD=VALUE, got {text!r}")
        varied.setdefault(name.strip(), []).extend(read_values(values))
    for word in filter(None, lists.get("norm", "").split(",")):
        if word not in NORMS:
            raise UsageError(f"norm: no {word!r}; there are {', '.join(NORMS)}")
        varied.setdefault("norm", []).append(word)
    base: dict[str, Any] = {}
    known = {each.name: each for each in parameters_of(RunSpec)}
    for name in LISTED:
        if name in lists:
            values_of = [known[name].check(each) for each in read_values(lists[name])]
            base[name] = values_of[0]
            if len(values_of) > 1:
                varied[name] = values_of
    return varied, base


def write_choices(choices: Mapping[str, Sequence[Any]]) -> list[str]:
    """What is varied as `FIELD=VALUE,…`, which `read_choices` reads again.

    Raises:
        UsageError: A value cannot be written.
    """
    found = []
    for name, values in choices.items():
        texts = [_text(name, value) for value in values]
        plain = [text for text in texts if not text.startswith(("[", "{"))]
        nested = [text for text in texts if text.startswith(("[", "{"))]
        groups = [",".join(plain), *nested] if plain else nested
        found += [f"{name}={group}" for group in groups]
    return found


def _text(name: str, value: Any) -> str:
    """A value as `read_values` reads it back."""
    candidates = [json.dumps(value)]
    if isinstance(value, str):
        candidates.insert(0, value)
    for text in candidates:
        try:
            if text.strip() and read_values(text) == [value]:
                return text
        except UsageError:
            continue
    raise UsageError(f"{name}={value!r} cannot be written as a text")


def read_values(text: str) -> list[Any]:
    """The values of `1,8,32`, of `64:512:64`, or one as JSON writes it.

    Raises:
        UsageError: There is none, or a range is impossible.
    """
    if text.lstrip().startswith(("[", "{")):
        return [parse_value(text)]
    found: list[Any] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        found += _range(piece) if piece.count(":") in (1, 2) else [parse_value(piece)]
    if not found:
        raise UsageError(f"{text!r} holds no value")
    return found


def _range(text: str) -> list[Any]:
    try:
        first, last, step = [*map(int, text.split(":")), 1][:3]
    except ValueError:
        return [text]
    if step < 1 or last < first or (last - first) // step >= MOST_VALUES:
        raise UsageError(f"{text!r}: write from:to:step, the step more than 0")
    return list(range(first, last + 1, step))
