"""LineReader: a thread that reads a serial line, whatever comes over it.

Bytes may be noise, lines may be cut, the plug may be pulled. What is not a good line is
counted and skipped, memory stays bounded, and a line that is gone is opened again.

Readings of power become joules that only grow by rectangles, `E = Σ v·i·Δt`: each
reading holds until the next one comes, as in the IrEne paper (Cao et al., ACL 2021).
What was used while no reading came is not known, and is not filled in.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from irene.meters.channel import NO_VALUE
from irene.meters.wall.serial_formats import (
    BadChecksumError,
    BadLineError,
    OtherNodeError,
)

LONGEST_LINE = 4096
RETRY_S = 0.2
CLOSING_S = 5.0
SILENT_SPACINGS = 3
SHORTEST_SILENCE_NS = 1_000_000_000
REMEMBERED = 32


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


class LineIntegral:
    """Adds up one meter's readings; one thread adds, another may look.

    Attributes:
        gaps: How often the meter was silent or gone.
        gap_s: How long it was, in all, s.
    """

    def __init__(self) -> None:
        self.gaps = 0
        self.gap_s = 0.0
        self._spacings_ns: deque[int] = deque(maxlen=REMEMBERED)
        self._spacing_ns = 0.0
        # Energy, power and time of the last reading, and whether the line is up. It
        # is always replaced as a whole, so that the other thread sees it whole.
        self._last: tuple[float, float, int, bool] | None = None

    @property
    def spacing_s(self) -> float:
        """How far apart readings usually are, s; 0 before there are two."""
        return self._spacing_ns * 1e-9

    @property
    def readings_spaced(self) -> int:
        """How many distances between readings are known, up to a few."""
        return len(self._spacings_ns)

    def _patience_ns(self) -> float:
        return max(SHORTEST_SILENCE_NS, SILENT_SPACINGS * self._spacing_ns)

    def add(self, power_w: float, time_ns: int) -> None:
        """Take in a reading, W, received at a time of the monotonic clock, ns."""
        last = self._last
        if last is None:
            self._last = (0.0, power_w, time_ns, True)
            return
        energy_j, before_w, before_ns, up = last
        since_ns = time_ns - before_ns
        if up and since_ns <= self._patience_ns_for(since_ns):
            energy_j += before_w * since_ns * 1e-9
            self._spacings_ns.append(since_ns)
            self._spacing_ns = statistics.median(self._spacings_ns)
        else:
            self.gaps += 1
            self.gap_s += since_ns * 1e-9
        self._last = (energy_j, power_w, time_ns, True)

    def _patience_ns_for(self, since_ns: int) -> float:
        # The first distance is all we know of a meter: a slow one is not a silent one.
        return self._patience_ns() if self._spacings_ns else since_ns

    def line_down(self) -> None:
        """The line is gone: what comes next does not follow what came last."""
        if self._last is not None:
            self._last = (*self._last[:3], False)

    def values(self, now_ns: int) -> tuple[float, float]:
        """Energy up to the last reading (J) and its power (W).

        Both are `NO_VALUE` before the first one and while the meter is silent.
        """
        last = self._last
        if last is None:
            return NO_VALUE, NO_VALUE
        energy_j, power_w, time_ns, up = last
        if not up or now_ns - time_ns > self._patience_ns():
            return NO_VALUE, NO_VALUE
        return energy_j, power_w


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
