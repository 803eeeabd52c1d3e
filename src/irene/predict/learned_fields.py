"""What was learned, as JSON-ready values and back, by the types of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, cast, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Saved", "numbers"]

Floats = npt.NDArray[np.float64]


class Saved:
    """A dataclass that is kept in a file.

    Fields may be numbers, words, arrays, tuples, sets, mappings, other such classes,
    named tuples, or nothing. An array whose metadata has `names` is kept by name; a
    field whose metadata has `kept=False` is not kept at all.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            name: _plain(getattr(self, name), names)
            for name, (_, names) in _kept(cast(Any, type(self))).items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            KeyError, TypeError, ValueError: The values are not those of the class.
        """
        return cls(
            **{
                name: _read(kind, values[name], names)
                for name, (kind, names) in _kept(cast(Any, cls)).items()
            }
        )


def numbers(values: Any, length: int) -> Floats:
    """So many finite numbers as an array.

    Raises:
        ValueError: There are more or fewer, or one is not finite.
    """
    array = np.array(values, dtype=np.float64)
    if array.shape != (length,) or not np.isfinite(array).all():
        raise ValueError(f"{length} numbers are expected, not shape {array.shape}")
    return array


@cache
def _kept(cls: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Type of every field that is kept, and the names of its elements."""
    kinds = get_type_hints(cls)
    return {
        field.name: (kinds[field.name], field.metadata.get("names", ()))
        for field in fields(cls)
        if field.metadata.get("kept", True)
    }


def _plain(value: Any, names: tuple[str, ...] = ()) -> Any:
    if names:
        return dict(zip(names, value.tolist(), strict=True))
    if isinstance(value, Saved):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(_plain(each) for each in value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


def _read(kind: Any, value: Any, names: tuple[str, ...] = ()) -> Any:
    outer, inner = get_origin(kind), get_args(kind)
    if outer is UnionType:
        first = next(each for each in inner if each is not NoneType)
        return None if value is None else _read(first, value)
    if outer is np.ndarray:
        several = [value[name] for name in names] if names else value
        return _array(get_args(inner[1])[0], several)
    if outer is tuple:
        if inner[-1] is Ellipsis:
            return tuple(_read(inner[0], each) for each in value)
        return tuple(_read(*pair) for pair in zip(inner, value, strict=True))
    if outer is frozenset:
        return frozenset(_read(inner[0], each) for each in value)
    if outer is not None:
        return {str(name): _read(inner[1], each) for name, each in value.items()}
    if kind in (float, int, str, bool):
        return kind(value)
    if isinstance(kind, type) and issubclass(kind, Saved):
        return kind.from_dict(value)
    if isinstance(kind, type) and issubclass(kind, tuple):
        types = get_type_hints(kind).values()
        return kind(*(_read(*pair) for pair in zip(types, value, strict=True)))
    return value


def _array(dtype: type[np.generic], values: Any) -> npt.NDArray[Any]:
    found = np.array(values)
    if not found.size:
        return found.astype(dtype)
    if not np.isfinite(found).all():
        raise ValueError("a number is not finite")
    return found.astype(dtype, casting="same_kind")
