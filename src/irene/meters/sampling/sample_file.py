"""The file that samples are streamed to: text, appended to, readable after a crash.

The first line holds a JSON header, the second the names of the columns; then a line
for each sample: nanoseconds on the monotonic clock, and a value for each channel (`nan`
where there is none). Lines that begin with `#` are events in JSON: a sensor lost or
back, a clock that was set, the end. A process that dies loses what it had not handed
to the system yet: at most `FLUSH_S` of samples.

A file is bounded, so that a week on eight GPUs is, too: after `MOST_WHOLE` bytes it
goes on with a line every `COARSE_S` (counters as they stand, means of the others), and
the last minutes are whole in two small files beside it that are filled in turn.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from irene.meters.channel import Channel
from irene.whole_file import trying_to

SCHEMA = "irene.samples/1"
FLUSH_S = 1.0
"""Samples are handed to the system this often, s."""
MOST_WAITING = 8 * 2**20
"""Bytes kept for a full disk to have room again; older ones are then dropped."""


MOST_WHOLE = 64 * 2**20
"""Bytes of samples that are all kept: 12 hours of a CPU, 90 minutes of 8 GPUs."""
MOST_RECENT = 4 * 2**20
"""Bytes of each of the two files with the last samples."""
COARSE_S = 10.0
THINNED = "thinned"


def recent_paths(path: Path) -> tuple[Path, Path]:
    """The files beside one of samples that hold the last ones."""
    first, second = (path.with_name(f"{path.name}.recent-{n}") for n in (0, 1))
    return first, second


class SampleFile:
    """Writes samples of given channels to a new file.

    A disk that is full or gone does not stop the sampler: lines wait, and are written
    when there is room; if that takes too long the oldest are dropped, and an event in
    the file says how many.
    """

    def __init__(
        self, path: Path, channels: Sequence[Channel], period_s: float
    ) -> None:
        self.path = path
        self.problem = ""
        digits = ["%.6f" if c.quantity == "energy_j" else "%.6g" for c in channels]
        self._row = ",".join(["%d", *digits]) + "\n"
        self._whole_left = MOST_WHOLE
        self._coarse = _Coarse(channels)
        self._recent = _Recent(path)
        self._lines: list[str] = []
        self._waiting = b""
        self._dropped = 0
        header = {
            "schema": SCHEMA,
            "period_s": period_s,
            "clock": clock_pair(),
            "channels": [asdict(channel) for channel in channels],
        }
        names = ["time_ns", *(channel.name for channel in channels)]
        with trying_to("write", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            flags |= getattr(os, "O_BINARY", 0)  # Windows would write two ends of line
            self._handle = os.open(path, flags, 0o666)
        self._lines += [f"#{json.dumps(header)}\n", ",".join(names) + "\n"]
        self.flush()

    def add(self, time_ns: int, values: Sequence[float]) -> None:
        """Take in one sample; it is written with the next `flush`."""
        line = self._row % (time_ns, *values)
        if self._whole_left > 0:
            self._whole_left -= len(line)
            self._lines.append(line)
            if self._whole_left <= 0:
                self.event(THINNED, step_s=COARSE_S)
            return
        self._recent.add(line)
        means = self._coarse.add(time_ns, values)
        if means is not None:
            self._lines.append(self._row % (time_ns, *means))

    def event(self, what: str, **details: Any) -> None:
        """Take in something that happened."""
        record = {"event": what, "time_ns": time.monotonic_ns(), **details}
        self._lines.append(f"#{json.dumps(record)}\n")

    def flush(self) -> None:
        """Hand everything to the system; what it does not take waits."""
        self._recent.flush()
        data = self._waiting + "".join(self._lines).encode()
        self._lines.clear()
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            self.problem = ""
        except OSError as error:
            self.problem = f"cannot write {self.path}: {error.strerror}"
        self._waiting = self._cut(data)
        if not data and self._dropped:
            self.event("lost-lines", bytes=self._dropped)
            self._dropped = 0

    def _cut(self, data: bytes) -> bytes:
        """The newest waiting lines, whole, that may be kept.

        What was written may end in the middle of a line; the rest of that line stays
        first, or the line is ended so that the next one is readable.
        """
        if len(data) <= MOST_WAITING:
            return data
        start = data.index(b"\n", len(data) - MOST_WAITING)
        self._dropped += start
        return data[start:]

    def close(self) -> None:
        """Write what is left; closing twice is fine."""
        if self._handle < 0:
            return
        self.flush()
        os.close(self._handle)
        self._handle = -1


class _Coarse:
    """Takes samples, and gives one for each stretch of time."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._counts = [channel.quantity == "energy_j" for channel in channels]
        self._until_ns = 0
        self._rows: list[Sequence[float]] = []

    def add(self, time_ns: int, values: Sequence[float]) -> list[float] | None:
        """A sample that stands for those since the last one, when it is time."""
        self._rows.append(values)
        if time_ns < self._until_ns:
            return None
        self._until_ns = time_ns + round(COARSE_S * 1e9)
        rows, self._rows = self._rows, []
        return [
            column[-1] if counts else _mean(column)
            for counts, column in zip(
                self._counts, zip(*rows, strict=True), strict=True
            )
        ]


def _mean(values: Sequence[float]) -> float:
    """Mean of what is known; not-a-number where that is less than half."""
    known = [value for value in values if value == value]
    return sum(known) / len(known) if 2 * len(known) >= len(values) > 0 else math.nan


class _Recent:
    """The last samples, in two files that are filled in turn."""

    def __init__(self, path: Path) -> None:
        self._paths = recent_paths(path)
        for left in self._paths:
            with contextlib.suppress(OSError):
                left.unlink(missing_ok=True)  # of an earlier recording
        self._lines: list[str] = []
        self._which, self._size = 0, 0

    def add(self, line: str) -> None:
        self._lines.append(line)

    def flush(self) -> None:
        """Write what came; these files are for looking at, and may fail."""
        data = "".join(self._lines).encode()
        self._lines.clear()
        if not data:
            return
        if self._size > MOST_RECENT:
            self._which, self._size = 1 - self._which, 0
        with (
            contextlib.suppress(OSError),
            self._paths[self._which].open("ab" if self._size else "wb") as file,
        ):
            file.write(data)
        self._size += len(data)


def clock_pair() -> dict[str, int]:
    """The same moment on the monotonic clock and since 1970, ns."""
    before = time.monotonic_ns()
    epoch_ns = time.time_ns()
    return {"time_ns": (before + time.monotonic_ns()) // 2, "epoch_ns": epoch_ns}
