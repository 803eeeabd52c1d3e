"""Dataclasses in files, and read back by the types of their fields.

A file is one JSON object with a schema and a digest, never code.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats as Floats
from irene.errors import FormatError, UsageError
from irene.plain import kept_fields, plain_values
from irene.whole_file import trying_to

Read = TypeVar("Read")


class Saved:
    """A dataclass that is kept in a file.

    Fields may be numbers, words, arrays, tuples, sets, mappings, other dataclasses,
    named tuples, or nothing; a number that is not known is nothing. An array whose
    metadata has `names` is kept by name; a field whose metadata has `kept=False`, or
    that is no argument, is not kept at all.
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return plain_values(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; a field that joined later has its default.

        Raises:
            KeyError, TypeError, ValueError: The values are not those of the class.
        """
        return read_values(cls, values)


def read_values(kind: type[Read], values: Mapping[str, Any]) -> Read:
    """A dataclass from its values by name, as `Saved.to_dict` and `asdict` write them.

    Args:
        kind: The dataclass.
        values: Others are passed over; a field without one has its default.

    Raises:
        KeyError, TypeError, ValueError: The values are not those of the class.
    """
    hints = _hints(cast(Any, kind))
    return kind(
        **{
            name: _read(hints[name], values[name], names)
            for name, names in kept_fields(cast(Any, kind)).items()
            if name in values
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


_hints = cache(get_type_hints)


def _read(kind: Any, value: Any, names: tuple[str, ...] = ()) -> Any:
    outer, inner = get_origin(kind), get_args(kind)
    if outer in (UnionType, Union):
        first = next(each for each in inner if each is not NoneType)
        return None if value is None else _read(first, value)
    if outer is Literal:
        return value
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
    return _read_one(kind, value)


def _read_one(kind: Any, value: Any) -> Any:
    if kind is float and value is None:
        return math.nan
    if kind in (float, int, str, bool):
        return kind(value)
    if hasattr(kind, "from_dict"):
        return kind.from_dict(value)
    if is_dataclass(kind):
        return read_values(cast(Any, kind), value)
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


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON-ready values, whatever the order of their names."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_bytes(path: str | Path) -> bytes:
    """What is in a file."""
    with trying_to("read", path):
        return Path(path).read_bytes()


def read_fields(path: str | Path) -> dict[str, Any]:
    """The JSON object of a file, which is gzipped if its name ends in `.gz`."""
    content = file_bytes(path)
    is_packed = Path(path).name.endswith(".gz")
    try:
        fields = json.loads(gzip.decompress(content) if is_packed else content)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        kind = "gzipped JSON" if is_packed else "JSON"
        raise FormatError(f"{path}: not {kind}: {error}") from error
    if not isinstance(fields, dict):
        kind = "GPU" if is_packed else "predictor"
        raise FormatError(f"{path}: not a {kind}: the JSON is not an object")
    return fields


def load_file(path: str | Path, read: Callable[[Mapping[str, Any]], Read]) -> Read:
    """Read what is kept in a file."""
    fields = read_fields(path)
    try:
        return read(fields)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def check_schema(found: object, expected: str) -> None:
    """Refuse a file of another kind or version."""
    if found != expected:
        raise FormatError(
            f"schema is {found!r}, this version reads {expected!r}; "
            "a newer file needs a newer irene"
        )


def shipped_document(package: str | None, file: str, schema: str) -> dict[str, Any]:
    """A JSON document that ships beside the modules of a package."""
    folder = resources.files(str(package))
    found: dict[str, Any] = json.loads(folder.joinpath(file).read_bytes())
    check_schema(found.get("schema"), schema)
    return found


def checked_content(
    fields: Mapping[str, Any],
    schema: str,
    digest: Callable[[Mapping[str, Any]], str],
    what: str,
) -> dict[str, Any]:
    """The fields of a file without their digest."""
    check_schema(fields.get("schema"), schema)
    content = {name: value for name, value in fields.items() if name != "digest"}
    if fields.get("digest") != digest(content):
        raise FormatError(f"damaged {what}: its content does not match its digest")
    return content


@contextmanager
def fields_of(problem: str) -> Iterator[None]:
    """Say in one way that fields are not what they should be."""
    try:
        yield
    except FormatError:
        raise
    except (
        AttributeError, IndexError, KeyError, TypeError, UsageError, ValueError,
    ) as error:  # fmt: skip
        raise FormatError(f"{problem}: {type(error).__name__}: {error}") from error
