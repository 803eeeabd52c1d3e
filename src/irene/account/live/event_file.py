"""Event files: what one process recorded, kept until all of them are accounted for."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from irene.account.events import Coded, Events
from irene.errors import FormatError, UsageError
from irene.whole_file import whole_file

__all__ = ["KeptEvents", "read_events", "write_events"]

SCHEMA = "irene.events/1"
CODED = ("name", "op", "scope", "phase", "device", "lane")
PLAIN = ("start_ns", "end_ns", "parent", "step", "is_mark")


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """Events of one process, and what is needed to account for them.

    Attributes:
        events: What it ran.
        window_ns: Begin and end of what was recorded, ns since 1970.
        rank: Number of the process.
        ranks: How many there are on its machine.
        cpus: CPUs of the machine, if the share of the program in them is recorded.
        idle_w: Idle power of channels by name, W, as far as it was measured.
    """

    events: Events
    window_ns: tuple[int, int]
    rank: int = 0
    ranks: int = 1
    cpus: int | None = None
    idle_w: Mapping[str, float] = field(default_factory=dict)


def write_events(kept: KeptEvents, path: Path) -> None:
    """Write the events of one process.

    Raises:
        UsageError: The file cannot be written.
    """
    events = kept.events
    arrays: dict[str, Any] = {name: getattr(events, name) for name in PLAIN}
    arrays |= {name: getattr(events, name).codes for name in CODED}
    arrays |= {f"weight {key}": values for key, values in events.weights.items()}
    words = {
        "schema": SCHEMA,
        "names": {name: getattr(events, name).names for name in CODED},
        "steps": events.steps,
        "notes": events.notes,
        **{
            fact.name: getattr(kept, fact.name)
            for fact in fields(kept)
            if fact.name != "events"
        },
    }
    arrays["words"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
    with whole_file(path) as file:
        np.savez_compressed(file, **arrays)


def read_events(path: Path) -> KeptEvents:
    """Read the events of one process.

    Raises:
        UsageError: There is no such file.
        FormatError: It is no file of events, damaged, or of a newer version.
    """
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return _kept({name: arrays[name] for name in arrays.files})
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"{path} is not a file of events: {error}") from error


def _kept(arrays: dict[str, Any]) -> KeptEvents:
    words = json.loads(arrays["words"].tobytes())
    if words["schema"] != SCHEMA:
        raise ValueError(f"it is {words['schema']!r}, this irene reads {SCHEMA}")
    coded: dict[str, Any] = {
        name: Coded(arrays[name], tuple(words["names"][name])) for name in CODED
    }
    prefix = "weight "
    weights = {
        name.removeprefix(prefix): values
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
    events = Events(
        **{name: arrays[name] for name in PLAIN},
        **coded,
        steps=tuple(words["steps"]),
        weights=weights,
        notes=tuple(words["notes"]),
    )
    begin_ns, end_ns = words["window_ns"]
    facts = {name: words[name] for name in ("rank", "ranks", "cpus", "idle_w")}
    return KeptEvents(events, (begin_ns, end_ns), **facts)
