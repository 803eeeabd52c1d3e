"""Task: a piece of work that can be done anywhere, and what became of it."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module, metadata
from typing import Any, Literal, get_args

from irene.errors import FormatError, UsageError
from irene.work.bounds import Bounds

Work = Callable[[Mapping[str, Any]], bytes]
Fault = Literal[
    "", "refused", "memory", "timeout", "killed", "crashed", "lost", "cancelled"
]
SOFTWARE = {"torch": "torch", "transformers": "transformers", "irene": "irene-energy"}
"""What is asked for its version, and the package that has it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A pure function by its path, `package.module:function`, and its JSON argument."""

    name: str
    call: str
    argument: Mapping[str, Any]
    bounds: Bounds = field(default_factory=Bounds)

    def to_json(self) -> bytes:
        """One line of JSON."""
        fields = {"name": self.name, "call": self.call, "argument": self.argument}
        fields["bounds"] = asdict(self.bounds)
        return json.dumps(fields, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes) -> Task:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(line)
            return cls(**{**fields, "bounds": Bounds(**fields["bounds"])})
        except (TypeError, ValueError, KeyError) as error:
            raise FormatError(f"not a task: {error}") from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task: what it returned, or its trouble in words; where it ran.

    Attributes:
        fault: `refused` (it raised an error), `memory` (it got no more), `timeout`,
            `killed` (by a signal), `crashed` (its process ended by itself), `lost` (its
            machine went away), `cancelled`; "" if there was none.
        error: Name of the class of the error that it raised, if any.
        last_words: The end of what a process without a result wrote, if that was kept.
        duration_s: How long it took there, s, by a clock that is never set.
    """

    task: str
    payload: bytes | None = None
    fault: Fault = ""
    problem: str = ""
    error: str = ""
    last_words: str = ""
    place: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0

    def __post_init__(self) -> None:
        if self.fault not in get_args(Fault):
            raise ValueError(f"no fault {self.fault!r}")
        if (self.payload is None) != bool(self.fault):
            raise ValueError("an outcome has either a payload or a fault")

    @property
    def reason(self) -> str:
        """The trouble in words, with the last line that a process wrote as it died."""
        words = self.problem or self.fault
        lines = self.last_words.strip().splitlines()
        has_died = self.fault in ("killed", "crashed")
        return f"{words}: {lines[-1].strip()}" if has_died and lines else words


def find_work(path: str) -> Work:
    """The function of an import path, `package.module:function`."""
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"no function {path!r}: {error}") from error
    if not callable(found):
        raise UsageError(f"{path!r} is not a function")
    work: Work = found
    return work


@cache
def describe_place() -> dict[str, str]:
    """`host`, `python`, and versions; without importing anything."""
    return {
        "host": platform.node() or "unknown",
        "python": platform.python_version(),
        **{name: _version(package) for name, package in SOFTWARE.items()},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


# How far it is ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task is, of a total of 0 if nobody knows.

    What waits for others is told as such: its time does not count meanwhile.
    """

    done: int
    total: int
    text: str
    waits: bool = False


_listeners: list[Callable[[Progress], None]] = []


def listen(listener: Callable[[Progress], None]) -> None:
    """Have somebody told of what the work of this process reports."""
    _listeners.append(listener)


def report(done: int, total: int, text: str, *, waits: bool = False) -> None:
    """Say how far the work is, to the process that started this one; as `Progress`."""
    for listener in _listeners:
        listener(Progress(done, total, text, waits))
