"""Task: a piece of work that can be done anywhere, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Literal, get_args

from irene.errors import FormatError, UsageError

__all__ = ["Fault", "Outcome", "Task", "Work", "find_work"]

Work = Callable[[Mapping[str, Any]], bytes]
Fault = Literal["", "refused", "crashed", "timeout", "lost", "cancelled"]


@dataclass(frozen=True, slots=True)
class Task:
    """A pure function by its import path, and its argument.

    Attributes:
        name: Names the result; tasks of one name are the same task.
        call: `package.module:function`; takes the argument, returns bytes.
        argument: JSON-ready values.
        timeout_s: It is ended after this long, s; None for never.
    """

    name: str
    call: str
    argument: Mapping[str, Any]
    timeout_s: float | None = None

    def to_json(self) -> bytes:
        """One line of JSON."""
        return json.dumps(asdict(self), allow_nan=False).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Task:
        """Read what `to_json` wrote.

        Raises:
            FormatError: It is something else.
        """
        try:
            return cls(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise FormatError(f"not a task: {error}") from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task.

    Attributes:
        task: Name of the task.
        payload: What it returned; None if it did not.
        fault: What kind of trouble: `refused` (it raised an error), `crashed` (its
            process died), `timeout`, `lost` (its machine went away), `cancelled`; ""
            if there was none.
        problem: The trouble in words.
        place: Where it ran: `host`, and versions of what is installed there.
        duration_s: How long it took there, s, by a clock that is never set.
    """

    task: str
    payload: bytes | None = None
    fault: Fault = ""
    problem: str = ""
    place: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a fault nobody knows, and an outcome that is neither."""
        if self.fault not in get_args(Fault):
            raise ValueError(f"no fault {self.fault!r}")
        if (self.payload is None) != bool(self.fault):
            raise ValueError("an outcome has either a payload or a fault")


def find_work(path: str) -> Work:
    """The function of an import path.

    Args:
        path: `package.module:function`.

    Raises:
        UsageError: There is no such function.
    """
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"no function {path!r}: {error}") from error
    if not callable(found):
        raise UsageError(f"{path!r} is not a function")
    work: Work = found
    return work
