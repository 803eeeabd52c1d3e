"""Files of what was learned: one JSON object with a schema and a digest, never code."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from irene.errors import FormatError, UsageError

__all__ = [
    "check_schema",
    "checked_content",
    "digest_of",
    "fields_of",
    "file_bytes",
    "load_file",
    "read_fields",
]

Read = TypeVar("Read")


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON-ready values, whatever the order of their names."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_bytes(path: str | Path) -> bytes:
    """What is in a file.

    Raises:
        UsageError: It cannot be opened.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def read_fields(path: str | Path) -> dict[str, Any]:
    """The JSON object of a file, which is gzipped if its name ends in `.gz`.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a JSON object.
    """
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
    """Read what is kept in a file.

    Args:
        path: The file.
        read: Makes it of the fields of the JSON object.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is of another kind, is damaged, or of a newer version.
    """
    fields = read_fields(path)
    try:
        return read(fields)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def check_schema(found: object, expected: str) -> None:
    """Refuse a file of another kind or version.

    Raises:
        FormatError: The schemas differ.
    """
    if found != expected:
        raise FormatError(
            f"schema is {found!r}, this version reads {expected!r}; "
            "a newer file needs a newer irene"
        )


def checked_content(
    fields: Mapping[str, Any],
    schema: str,
    digest: Callable[[Mapping[str, Any]], str],
    what: str,
) -> dict[str, Any]:
    """The fields of a file without their digest.

    Args:
        fields: Of the file.
        schema: What it has to be.
        digest: Of its content.
        what: In a word, what it is.

    Raises:
        FormatError: It is of another kind or version, or damaged.
    """
    check_schema(fields.get("schema"), schema)
    content = {name: value for name, value in fields.items() if name != "digest"}
    if fields.get("digest") != digest(content):
        raise FormatError(f"damaged {what}: its content does not match its digest")
    return content


@contextmanager
def fields_of(problem: str) -> Iterator[None]:
    """Say in one way that fields are not what they should be.

    Args:
        problem: In words, such as `not a predictor`.

    Raises:
        FormatError: The fields could not be read.
    """
    try:
        yield
    except FormatError:
        raise
    except (
        AttributeError, IndexError, KeyError, TypeError, UsageError, ValueError,
    ) as error:  # fmt: skip
        raise FormatError(f"{problem}: {type(error).__name__}: {error}") from error
