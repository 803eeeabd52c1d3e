"""What to vary, as the API writes it.

Where sizes and settings are varied, the API takes the first of the values as the base.
Here the base is what was asked for, as in `irene.analyse.what_if`: it is sent first,
and its row is left out again unless it is one of the choices.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from irene.analyse.grid import Outcome, WhatIf, read_values
from irene.errors import FormatError, UsageError
from irene.spec import LATER_FIELDS, RunSpec

__all__ = ["as_asked", "written"]

Choices = Mapping[str, Sequence[Any]]
LISTED = ("batch_size", "seq_len", "dtype", "attention", "norm")
"""What the API has parameters for; all else goes by `set`."""
FROM_BASE = (
    "batch_size",
    "seq_len",
    "context_len",
    "dtype",
    "attention",
    *LATER_FIELDS,
)
"""Whose first value the API takes as the base."""
USUAL = {field.name: field.default for field in fields(RunSpec)}


def written(choices: Choices, run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Parameters that ask for choices.

    Args:
        choices: Values by name.
        run: The base; what is varied of it is in the parameters too.

    Raises:
        UsageError: A value cannot be written, or nothing is varied.
    """
    if not choices:
        raise UsageError("nothing to vary: choices has no values")
    found: list[tuple[str, str]] = []
    for name, values in choices.items():
        if not values:
            raise UsageError(f"no value for {name}")
        texts = [_text(name, value) for value in _with_base(name, values, run)]
        if name in LISTED:
            found.append((name, ",".join(texts)))
            continue
        plain = [text for text in texts if not text.startswith(("[", "{"))]
        nested = [text for text in texts if text.startswith(("[", "{"))]
        groups = [",".join(plain), *nested] if plain else nested
        found += [("set", f"{name}={group}") for group in groups]
    return found


def _with_base(name: str, values: Sequence[Any], run: Mapping[str, Any]) -> list[Any]:
    if name not in FROM_BASE:
        return list(values)
    base = run.get(name, USUAL[name])
    if base is None:
        raise UsageError(
            f"{name} has no value to start from: give {name}=… of the model as it is"
        )
    return [base, *(value for value in values if value != base)]


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
    raise UsageError(f"{name}={value!r} cannot be asked of a server")


def as_asked(found: WhatIf, choices: Choices, phase: str) -> WhatIf:
    """The answer for the choices that were asked for, in their order.

    Args:
        found: What the server gave.
        choices: What was asked for.
        phase: Of the run, which the document does not say.

    Raises:
        FormatError: A combination is missing.
    """
    by_settings = {_key(row.settings): row for row in found.rows}
    rows: list[Outcome] = []
    for values in product(*choices.values()):
        settings = dict(zip(choices, values, strict=True))
        row = by_settings.get(_key(settings))
        if row is None:
            raise FormatError(f"the server's answer has no row for {settings}")
        rows.append(replace(row, settings=settings))
    base = {name: found.base.settings.get(name) for name in choices}
    return replace(
        found,
        base=replace(found.base, settings=base),
        rows=tuple(rows),
        choices={name: tuple(values) for name, values in choices.items()},
        phase=phase,
    )


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
