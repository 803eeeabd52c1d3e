"""Dataclasses as JSON-ready values: what is shown, and what is kept in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, cast

from irene.energy import Energy


class Document:
    """A dataclass that is shown as one JSON object, and is not read back.

    It has the schema, if there is one, the fields in their order, and what else
    is told: properties by name.
    """

    __slots__ = ()
    schema: ClassVar[str] = ""
    also: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        head = {"schema": self.schema} if self.schema else {}
        also = {name: _plain(getattr(self, name)) for name in self.also}
        return {**head, **plain_values(self), **also}


@cache
def kept_fields(cls: Any) -> dict[str, tuple[str, ...]]:
    """Every field that is kept, and the names of its elements."""
    return {
        field.name: field.metadata.get("names", ())
        for field in fields(cls)
        if field.init and field.metadata.get("kept", True)
    }


def plain_values(of: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON-ready values, those that are kept."""
    return {
        name: _plain(getattr(of, name), names)
        for name, names in kept_fields(cast(Any, type(of))).items()
    }


def _plain(value: Any, names: tuple[str, ...] = ()) -> Any:
    if names:
        return dict(zip(names, value.tolist(), strict=True))
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return plain_values(value)
    if getattr(value, "ndim", 0):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(_plain(each) for each in value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return None if value != value else value


def flat_row(of: Any, *left_out: str) -> dict[str, Any]:
    """Fields of a dataclass as cells of a table; its energy has ends beside it."""
    row: dict[str, Any] = {}
    for each in fields(of):
        value = getattr(of, each.name)
        if isinstance(value, Energy):
            row |= {"energy_j": value.joules, "low_j": value.low, "high_j": value.high}
        elif each.name not in left_out:
            row[each.name] = value
    return row
