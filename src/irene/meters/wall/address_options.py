"""Options in the address of a meter, read as the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from irene.errors import UsageError

__all__ = ["read_options"]

CONVERTERS = {"int": int, "float": float}


def read_options(
    kind: type[Any], given: Iterable[tuple[str, str]], text: str
) -> dict[str, Any]:
    """Values of a dataclass's fields; its first field is no option.

    Args:
        kind: The dataclass.
        given: Names and texts.
        text: The whole address, for messages.

    Raises:
        UsageError: There is no such option, or it is not a number.
    """
    kinds = {field.name: str(field.type) for field in fields(kind)[1:]}
    values: dict[str, Any] = {}
    for name, value in given:
        if name not in kinds:
            options = ", ".join(kinds)
            raise UsageError(f"{text}: no option {name!r}; there are {options}")
        try:
            values[name] = CONVERTERS.get(kinds[name], str)(value)
        except ValueError as error:
            raise UsageError(f"{text}: {name} is not a number: {value!r}") from error
    return values
