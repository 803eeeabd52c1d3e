"""LineReader: a thread that reads a serial line, whatever comes over it.

Bytes may be noise, lines may be cut, the plug may be pulled. What is not a good line is
counted and skipped, memory stays bounded, and a line that is gone is opened again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from irene.meters.wall.line_integral import LineIntegral
from irene.meters.wall.serial_formats import (
    BadChecksumError,
    BadLineError,
    OtherNodeError,
)

__all__ = ["LONGEST_LINE", "LineCounts", "LineReader", "LineSplitter"]

LONGEST_LINE = 4096
RETRY_S = 0.2
CLOSING_S = 5.0


@dataclass(slots=True)
class LineCounts:
    """What came over the line so far.

    Attributes:
        readings: Good lines.
        malformed: Lines that are not of the format.
        bad_checksum: Lines with a wrong checksum, or without one that must be there.
        too_long: Lines of more than `LONGEST_LINE` bytes, dropped unseen.
        other: Packets of other nodes.
        bytes_received: All bytes.
        reconnects: How often the line was gone and came back.
        gaps: How often the meter was silent or gone.
        gap_s: How long it was, in all, s.
    """

    readings: int = 0
    malformed: int = 0
    bad_checksum: int = 0
    too_long: int = 0
    other: int = 0
    bytes_received: int = 0
    reconnects: int = 0
    gaps: int = 0
    gap_s: float = 0.0

    def __str__(self) -> str:
        words = (f"{value} {name.replace('_', ' ')}" for name, value in self._items())
        return ", ".join(words)

    def _items(self) -> Iterator[tuple[str, object]]:
        for name in self.__slots__:
            value = getattr(self, name)
            if value or name == "readings":
                yield name, round(value, 3)


class LineSplitter:
    """Cuts bytes into lines; the first piece is dropped, for it may be half a line.

    Attributes:
        too_long: Lines that were dropped for their length.
    """

    def __init__(self) -> None:
        self.too_long = 0
        self._rest = b""
        self._skipping = True

    def lines(self, data: bytes) -> Iterator[bytes]:
        """Whole lines, without their ends and without empty ones."""
        pieces = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = pieces.pop()
        for piece in pieces:
            if self._skipping:
                self._skipping = False
            elif len(piece) > LONGEST_LINE:
                self.too_long += 1
            elif piece.strip():
                yield piece.strip()
        if len(self._rest) > LONGEST_LINE:
            self.too_long += not self._skipping
            self._skipping, self._rest = True, b""


class LineReader:
    """Reads one meter's line in a thread, from the start until `close`.

    Args:
        connect: Opens the line: an object with `read(size)`, `in_waiting` and `close`,
            as pyserial has it; `read` gives up after a while.
        watts: Finds the power in a line, or raises `BadLineError`.

    Attributes:
        integral: Energy and power so far.
        problem: Why the line is not open just now, or "".
    """

    def __init__(
        self, connect: Callable[[], Any], watts: Callable[[bytes], float]
    ) -> None:
        self.integral = LineIntegral()
        self._connect = connect
        self._watts = watts
        self._counts = LineCounts()
        self._stop = threading.Event()
        self.problem = ""
        self._thread = threading.Thread(
            target=self._run, name="irene-serial", daemon=True
        )
        self._thread.start()

    @property
    def counts(self) -> LineCounts:
        """What came over the line so far, with the gaps."""
        self._counts.gaps = self.integral.gaps
        self._counts.gap_s = self.integral.gap_s
        return self._counts

    def _run(self) -> None:
        connected = False
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._connect()) as line:
                    self.problem = ""
                    self._counts.reconnects += connected
                    connected = True
                    self._follow(line)
            except Exception as error:  # noqa: BLE001  a driver may raise anything
                self.problem = str(error)
            self.integral.line_down()
            self._stop.wait(RETRY_S)

    def _follow(self, line: Any) -> None:
        splitter = LineSplitter()
        while not self._stop.is_set():
            data = line.read(max(1, min(line.in_waiting, LONGEST_LINE)))
            now_ns = time.monotonic_ns()
            self._counts.bytes_received += len(data)
            before = splitter.too_long
            for text in splitter.lines(data):
                self._take(text, now_ns)
            self._counts.too_long += splitter.too_long - before

    def _take(self, line: bytes, now_ns: int) -> None:
        try:
            power_w = self._watts(line)
        except OtherNodeError:
            self._counts.other += 1
        except BadChecksumError:
            self._counts.bad_checksum += 1
        except BadLineError:
            self._counts.malformed += 1
        else:
            self._counts.readings += 1
            self.integral.add(power_w, now_ns)

    def close(self) -> None:
        """End the thread and let go of the line; closing twice is fine."""
        self._stop.set()
        self._thread.join(CLOSING_S)
