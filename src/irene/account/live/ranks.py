"""Ranks: several processes that run a program together, and one ledger of them all.

Each process leaves a file of its events in a folder; merged, they are those of one
program. All times are since 1970, so they are on one clock already. A lane is a thread
or stream of one process; modules, ops and steps of the same name are the same.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.account.align.attribution import Split, attribute
from irene.account.events import PHASES, Coded, Events
from irene.account.ledger.ledger import Ledger
from irene.account.readers.recorded import power_of_recording
from irene.arrays import Floats, Ints
from irene.errors import FormatError, UsageError
from irene.meters.sampling.recording import Recording, read_recording
from irene.whole_file import whole_file

SAMPLES = "samples.csv"
EVENTS_FILES = "events*.npz"


@dataclass(frozen=True, slots=True)
class Rank:
    """One of the processes that run a program together, in all and on its machine."""

    number: int = 0
    count: int = 1
    local: int = 0
    local_count: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.number < self.count and 0 <= self.local < self.local_count):
            raise UsageError(
                f"this process cannot be rank {self.number} of {self.count} and "
                f"{self.local} of {self.local_count} on its machine"
            )

    @property
    def is_alone(self) -> bool:
        """Whether the program is one process."""
        return self.count == 1

    @property
    def samples_power(self) -> bool:
        """Whether it is the one process of its machine that reads the meters."""
        return self.local == 0

    @property
    def family(self) -> int:
        """Process whose descendants are the program: its own, or that which started it.

        Whoever starts several ranks (torchrun, `mp.spawn`, `mpirun`) is the parent of
        all those on its machine.
        """
        return os.getpid() if self.is_alone else os.getppid()

    def home(self, folder: Path) -> Path:
        """Where its machine's files are: each of several machines has its own place."""
        return folder / platform.node() if self.local_count < self.count else folder

    def file(self, folder: Path, name: str) -> Path:
        """Path of a file of its own, `trace.json` or `trace-3.json`."""
        stem, _, ending = name.rpartition(".")
        own = name if self.is_alone else f"{stem}-{self.number}.{ending}"
        return self.home(folder) / own


def this_rank() -> Rank:
    """Which process this is: by `RANK` and `WORLD_SIZE`, else by torch.distributed.

    Without `LOCAL_RANK` all processes are taken to be on one machine.
    """
    number, count = _number("RANK"), _number("WORLD_SIZE")
    if number is None or count is None:
        number, count = _distributed()
    local = _number("LOCAL_RANK")
    if count == 1:
        return Rank()
    if local is None:
        return Rank(number, count, number, count)
    return Rank(number, count, local, _number("LOCAL_WORLD_SIZE") or count)


def _number(name: str) -> int | None:
    word = os.environ.get(name)
    if not word:
        return None
    try:
        return int(word)
    except ValueError as error:
        raise UsageError(f"{name}={word!r} in the environment is no number") from error


def _distributed() -> tuple[int, int]:
    """Rank and number of processes of torch.distributed; without it, 0 of 1."""
    if "torch.distributed" in sys.modules:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


SCHEMA = "irene.events/1"
CODED = ("name", "op", "scope", "phase", "device", "lane")
PLAIN = ("start_ns", "end_ns", "parent", "step", "is_mark")


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """Events of one process, and what is needed to account for them.

    `ranks` is how many processes there are on its machine; `cpus` are those of the
    machine if the share of the program in them is recorded; `idle_w` is by channel, as
    far as it was measured.
    """

    events: Events
    window_ns: tuple[int, int]
    rank: int = 0
    ranks: int = 1
    cpus: int | None = None
    idle_w: Mapping[str, float] = field(default_factory=dict)

    def ledger(
        self, recording: Recording, split: Split, idle_w: float | None
    ) -> Ledger:
        """What the program used; of a CPU only its share, where its load is known."""
        known_w = (self.idle_w or None) if idle_w is None else idle_w
        return attribute(
            self.events.noted(*(f"power: {note}" for note in recording.notes)),
            power_of_recording(recording, known_w, cpus=self.cpus),
            split=split,
            window_ns=self.window_ns,
        )


def write_events(kept: KeptEvents, path: Path) -> None:
    """Write the events of one process."""
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
    """Read the events of one process."""
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
    measured_w = next((part.idle_w for part in kept if part.idle_w), {})
    window_ns = (
        min(part.window_ns[0] for part in kept),
        max(part.window_ns[1] for part in kept),
    )
    whole = KeptEvents(events, window_ns, cpus=cpus, idle_w=measured_w)
    return whole.ledger(recording, split, idle_w)


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
    """Events of several processes as those of one program."""
    every = list(parts.values())
    if len(every) == 1:
        return every[0]
    steps = tuple(dict.fromkeys(label for part in every for label in part.steps))
    begins = np.cumsum([0, *map(len, every)]).tolist()
    moved = [
        replace(
            part,
            lane=Coded(
                part.lane.codes, tuple(f"{rank} · {n}" for n in part.lane.names)
            ),
            parent=np.where(part.parent >= 0, part.parent + begin, -1),
            step=_steps(part, steps),
            steps=steps,
        )
        for (rank, part), begin in zip(parts.items(), begins, strict=False)
    ]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in moved]) for name in PLAIN
    }
    columns |= {n: _joined([getattr(part, n) for part in moved]) for n in CODED}
    columns["phase"] = _joined([part.phase for part in moved], PHASES)
    return Events(
        **columns,
        steps=steps,
        weights=_weights(every),
        notes=tuple(f"{rank}: {n}" for rank, part in parts.items() for n in part.notes),
    )


def _joined(columns: Sequence[Coded], first: Sequence[str] = ()) -> Coded:
    """Columns one after the other, with one numbering of their strings."""
    index = {name: number for number, name in enumerate(first)}
    codes = []
    for column in columns:
        own = [index.setdefault(name, len(index)) for name in column.names]
        codes.append(np.array(own, np.int64)[column.codes])
    return Coded(np.concatenate(codes), tuple(index))


def _steps(events: Events, labels: Sequence[str]) -> Ints:
    """Steps of the same label are the same step: ranks train in step."""
    number = {label: index for index, label in enumerate(labels)}
    own = np.array([*(number[label] for label in events.steps), -1], np.int64)
    return own[events.step]


def _weights(parts: Sequence[Events]) -> dict[str, Floats]:
    keys = dict.fromkeys(key for part in parts for key in part.weights)
    return {
        key: np.concatenate(
            [part.weights.get(key, np.full(len(part), np.nan)) for part in parts]
        )
        for key in keys
    }
