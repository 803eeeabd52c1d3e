"""Files of predictors: one JSON object with a schema and a digest, never code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irene.errors import FormatError, UsageError

__all__ = ["check_schema", "digest_of", "read_fields"]


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of JSON-ready values, whatever the order of their names."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_fields(path: str | Path) -> dict[str, Any]:
    """The JSON object of a file.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a JSON object.
    """
    try:
        fields = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise FormatError(f"{path}: not a predictor: the JSON is not an object")
    return fields


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
