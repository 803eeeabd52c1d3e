"""The file that samples are streamed to: text, appended to, readable after a crash.

The first line holds a JSON header, the second the names of the columns; then a line
for each sample: nanoseconds on the monotonic clock, and a value for each channel (`nan`
where there is none). Lines that begin with `#` are events in JSON: a sensor lost or
back, a clock that was set, the end. A process that dies loses what it had not handed
to the system yet: at most `FLUSH_S` of samples.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from irene.errors import UsageError
from irene.meters.channel import Channel

__all__ = ["FLUSH_S", "SCHEMA", "SampleFile", "clock_pair"]

SCHEMA = "irene.samples/1"
FLUSH_S = 1.0
"""Samples are handed to the system this often, s."""
MOST_WAITING = 8 * 2**20
"""Bytes kept for a full disk to have room again; older ones are then dropped."""


class SampleFile:
    """Writes samples of given channels to a new file.

    A disk that is full or gone does not stop the sampler: lines wait, and are written
    when there is room; if that takes too long the oldest are dropped, and an event in
    the file says how many.

    Attributes:
        path: The file.
        problem: Why the last write failed, or "" if it did not.
    """

    def __init__(
        self, path: Path, channels: Sequence[Channel], period_s: float
    ) -> None:
        self.path = path
        self.problem = ""
        self._row = _row_format(channels)
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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            self._handle = os.open(path, flags, 0o666)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        self._lines += [f"#{json.dumps(header)}\n", ",".join(names) + "\n"]
        self.flush()

    def add(self, time_ns: int, values: Sequence[float]) -> None:
        """Take in one sample; it is written with the next `flush`."""
        self._lines.append(self._row % (time_ns, *values))

    def event(self, what: str, **details: Any) -> None:
        """Take in something that happened."""
        record = {"event": what, "time_ns": time.monotonic_ns(), **details}
        self._lines.append(f"#{json.dumps(record)}\n")

    def flush(self) -> None:
        """Hand everything to the system; what it does not take waits."""
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


def clock_pair() -> dict[str, int]:
    """The same moment on the monotonic clock and since 1970, ns."""
    before = time.monotonic_ns()
    epoch_ns = time.time_ns()
    return {"time_ns": (before + time.monotonic_ns()) // 2, "epoch_ns": epoch_ns}


def _row_format(channels: Sequence[Channel]) -> str:
    formats = ["%.6f" if c.quantity == "energy_j" else "%.6g" for c in channels]
    return ",".join(["%d", *formats]) + "\n"
