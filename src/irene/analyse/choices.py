"""What to vary, as people write it: `1,8,32`, `64:512:64`, `hidden_act=relu,gelu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from irene.analyse.config_fields import parse_value
from irene.analyse.variant import NORMS, Variant
from irene.errors import UsageError
from irene.spec import Attention, CacheDType, DType, Quantization

__all__ = ["apply_choices", "read_choices", "read_values"]

MOST_VALUES = 1_000
WORDS = {
    "norm": NORMS,
    "dtype": get_args(DType),
    "attention": get_args(Attention),
    "quantization": get_args(Quantization),
    "cache_dtype": get_args(CacheDType),
}
SIZES = (
    "batch_size", "seq_len", "context_len", "prompt_len", "output_len",
    "tensor_parallel",
)  # fmt: skip
AT_LEAST_TWO = (*SIZES, *(name for name in WORDS if name != "norm"))
"""What is the base's where only one value is given; a field is always a change."""


def read_choices(
    fields: Sequence[str],
    texts: Mapping[str, str | None],
    labels: Mapping[str, str] | None = None,
) -> dict[str, list[Any]]:
    """Values by name, in the order a table shows them.

    Args:
        fields: `FIELD=VALUE,…`, as often as need be.
        texts: Lists for `norm`, `dtype`, `attention`, `batch_size`, `seq_len`.
        labels: What messages call these, and `set` for the fields.

    Raises:
        UsageError: A list cannot be read.
    """
    called = labels or {}
    choices: dict[str, list[Any]] = {}
    for text in fields:
        name, is_pair, values = text.partition("=")
        if not (name.strip() and is_pair and values.strip()):
            raise UsageError(
                f"{called.get('set', 'set')} takes FIELD=VALUE, got {text!r}"
            )
        choices.setdefault(name.strip(), []).extend(read_values(values))
    for name, known in WORDS.items():
        for word in (texts.get(name) or "").split(",") if texts.get(name) else ():
            if word not in known:
                there = ", ".join(known)
                raise UsageError(
                    f"{called.get(name, name)}: no {word!r}; there are {there}"
                )
            choices.setdefault(name, []).append(word)
    for name in SIZES:
        listed = texts.get(name)
        if listed:
            label = called.get(name, name)
            choices[name] = [_size(each, label) for each in read_values(listed)]
    return choices


def _size(value: Any, label: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{label} takes whole numbers from 1 up, got {value!r}")
    return value


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


def apply_choices(
    base: Variant, choices: Mapping[str, list[Any]]
) -> tuple[Variant, dict[str, list[Any]]]:
    """The model at the first of all sizes and settings, and what is left to vary.

    Args:
        base: The model.
        choices: Of `read_choices`.
    """
    given = {name: choices[name][0] for name in AT_LEAST_TWO if choices.get(name)}
    varied = {
        name: values
        for name, values in choices.items()
        if len(values) > 1 or name not in AT_LEAST_TWO
    }
    return base.changed(given), varied
