"""Every error this program raises on purpose, in one tree.

    IreneError
    ├── UsageError                 the request cannot be met as it stands (exit code 2)
    │   ├── SpecError              a RunSpec field has an impossible value
    │   ├── UnknownModelError      no catalogue entry, file or hub model of that name
    │   ├── ConfigError            a model config that cannot be read or built
    │   │   └── NoAttentionError   the model has no such attention implementation
    │   ├── LimitError             larger than the limits allow
    │   └── TraceError             the model's own forward or backward failed
    ├── FormatError                a file is corrupt, foreign or of a newer version
    ├── MeterError                 a meter cannot be opened, or does not answer any more
    └── MissingExtraError          an optional dependency is not installed

A message says what happened, with the value, and what to do about it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class IreneError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class UsageError(IreneError):
    """The request cannot be met as it stands; the message says how to change it."""

    exit_code = 2


class SpecError(UsageError):
    """A field of a RunSpec has an impossible value."""


class UnknownModelError(UsageError):
    """No catalogue entry, config file or hub model answers to that name."""


class ConfigError(UsageError):
    """A model config cannot be read, or no model can be built from it."""


class NoAttentionError(ConfigError):
    """The model has no attention implementation of that name."""


class LimitError(UsageError):
    """The request is larger than the limits allow."""


class TraceError(UsageError):
    """The model's own code failed while it was traced.

    Attributes:
        path: Dotted path of the module that was running, "" for the model itself.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class FormatError(IreneError):
    """A file is corrupt, not ours, or written by a newer version."""

    exit_code = 2


class MeterError(IreneError):
    """A meter cannot be opened or has failed; the message says what would help.

    Attributes:
        detail: What happened.
        remedy: Command or step that would help, "" if there is none.
    """

    def __init__(self, detail: str, remedy: str = "") -> None:
        super().__init__(f"{detail}: {remedy}" if remedy else detail)
        self.detail = detail
        self.remedy = remedy


class MissingExtraError(IreneError):
    """An optional dependency is missing; the message names the install line."""


def library(name: str, missing: str) -> Any:
    """A module of a library that is not always installed.

    Raises:
        MissingExtraError: It is not there.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(missing) from error
