"""Merging: the events of several processes of a machine become one ledger.

All times are since 1970, so they are on one clock already. A lane is a thread or stream
of one process; modules, ops and steps of the same name are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from irene.account.align.attribution import Split, attribute
from irene.account.events import PHASES, Coded, Events
from irene.account.ledger.ledger import Ledger
from irene.account.live.event_file import KeptEvents, read_events
from irene.account.live.ranks import EVENTS_FILES, SAMPLES
from irene.account.readers.recorded_power import power_of_recording
from irene.errors import UsageError
from irene.meters.sampling.recording import read_recording

__all__ = ["merge_events", "merge_folder"]

Ints = npt.NDArray[np.int64]


def merge_folder(
    folder: str | Path, *, split: Split = "equal", idle_w: float | None = None
) -> Ledger:
    """The ledger of all processes that recorded into a folder.

    Args:
        folder: The `folder` of `record`, after all processes have ended.
        split: How ops that run at once share, also those of different processes.
        idle_w: Power of the machine while nothing runs, W; None for what was measured
            with `idle_s`, if it was.

    Raises:
        UsageError: Something is missing: a process, or the samples.
        FormatError: A file is damaged.
    """
    folder = Path(folder)
    kept = _complete([read_events(path) for path in _files(folder)], folder)
    recording = read_recording(folder / SAMPLES)
    events = merge_events({f"rank {part.rank}": part.events for part in kept})
    cpus = next((part.cpus for part in kept if part.cpus), None)
    measured_w = next((part.idle_w for part in kept if part.idle_w), None)
    return attribute(
        events.noted(*(f"power: {note}" for note in recording.notes)),
        power_of_recording(
            recording, measured_w if idle_w is None else idle_w, cpus=cpus
        ),
        split=split,
        window_ns=(
            min(part.window_ns[0] for part in kept),
            max(part.window_ns[1] for part in kept),
        ),
    )


def _files(folder: Path) -> list[Path]:
    found = sorted(folder.glob(EVENTS_FILES))
    if found:
        return found
    machines = sorted({path.parent for path in folder.glob(f"*/{EVENTS_FILES}")})
    if machines:
        names = ", ".join(map(str, machines))
        raise UsageError(
            f"{folder} holds the recordings of {len(machines)} machines, each with its "
            f"own power: merge one at a time, {names}"
        )
    raise UsageError(f"{folder} holds no events: no {EVENTS_FILES} of a recorded run")


def _complete(kept: Sequence[KeptEvents], folder: Path) -> Sequence[KeptEvents]:
    """All processes of one run, or an error: who is missing is charged to the others.

    Numbers of ranks need not begin at 0 on the second of several machines.
    """
    counts = sorted({part.ranks for part in kept})
    if len(counts) > 1:
        raise UsageError(
            f"{folder} holds files of several runs, with {counts} processes: remove "
            "the old ones"
        )
    if len(kept) != counts[0]:
        numbers = ", ".join(str(part.rank) for part in kept)
        raise UsageError(
            f"{folder} holds {len(kept)} of {counts[0]} processes (rank {numbers}): "
            "the energy of the others cannot be told from theirs"
        )
    return sorted(kept, key=lambda part: part.rank)


def merge_events(parts: Mapping[str, Events]) -> Events:
    """Events of several processes as those of one program.

    Args:
        parts: Events by what the process is called; one alone stays as it is.
    """
    every = list(parts.values())
    if len(every) == 1:
        return every[0]
    steps = list(dict.fromkeys(label for part in every for label in part.steps))
    columns: dict[str, Any] = {
        name: _joined([getattr(part, name) for part in every])
        for name in ("name", "op", "scope", "device")
    }
    return Events(
        start_ns=np.concatenate([part.start_ns for part in every]),
        end_ns=np.concatenate([part.end_ns for part in every]),
        **columns,
        phase=_joined([part.phase for part in every], PHASES),
        lane=_joined([_lanes(name, part) for name, part in parts.items()]),
        parent=_parents(every),
        step=np.concatenate([_steps(part, steps) for part in every]),
        is_mark=np.concatenate([part.is_mark for part in every]),
        steps=tuple(steps),
        weights=_weights(every),
        notes=tuple(
            f"{name}: {note}" for name, part in parts.items() for note in part.notes
        ),
    )


def _joined(columns: Sequence[Coded], first: Sequence[str] = ()) -> Coded:
    """Columns one after the other, with one numbering of their strings."""
    index = {name: number for number, name in enumerate(first)}
    codes = []
    for column in columns:
        own = [index.setdefault(name, len(index)) for name in column.names]
        codes.append(np.array(own, np.int64)[column.codes])
    return Coded(np.concatenate(codes), tuple(index))


def _lanes(process: str, events: Events) -> Coded:
    names = tuple(f"{process} · {name}" for name in events.lane.names)
    return Coded(events.lane.codes, names)


def _parents(parts: Sequence[Events]) -> Ints:
    found, before = [], 0
    for part in parts:
        found.append(np.where(part.parent >= 0, part.parent + before, -1))
        before += len(part)
    return np.concatenate(found)


def _steps(events: Events, labels: Sequence[str]) -> Ints:
    """Steps of the same label are the same step: ranks train in step."""
    number = {label: index for index, label in enumerate(labels)}
    own = np.array([*(number[label] for label in events.steps), -1], np.int64)
    return own[events.step]


def _weights(parts: Sequence[Events]) -> dict[str, npt.NDArray[np.float64]]:
    keys = dict.fromkeys(key for part in parts for key in part.weights)
    return {
        key: np.concatenate(
            [part.weights.get(key, np.full(len(part), np.nan)) for part in parts]
        )
        for key in keys
    }
