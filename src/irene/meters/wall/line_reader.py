"""LineReader: a thread that reads a serial line, whatever comes over it.

Bytes may be noise, lines may be cut, the plug may be pulled. What is not a good line is
counted and skipped, memory stays bounded, and a line that is gone is opened again.

Readings of power become joules that only grow by rectangles, `E = Σ v·i·Δt`: each
reading holds until the next one comes, as in the IrEne paper (Cao et al., ACL 2021).
What was used while no reading came is not known, and is not filled in.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import math
import operator
import re
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from irene.errors import UsageError
from irene.meters.channel import NO_VALUE

Checksum = Literal["auto", "xor", "crc16"]
COLUMNS = ("watts", "volts", "amps", "timestamp", "-")
SEPARATOR = re.compile(r"[,;\s]+")
SUFFIX = re.compile(rb"\*([0-9A-Fa-f]+)$")
SIGNAL = re.compile(r"\(-?\d+\)$")
XOR_DIGITS = 2
CRC_DIGITS = 4


class BadLineError(ValueError):
    """A line that is not of the format."""


class BadChecksumError(BadLineError):
    """A line whose checksum is wrong, or missing where there must be one."""


class OtherNodeError(BadLineError):
    """A packet of another node on the same line: nothing is wrong with it."""


def line_parser(
    line_format: str, node: int = 5, field: int = 1
) -> Callable[[str], float]:
    """The function that finds the watts in a line.

    A format is `emonpi`, or the columns of a line in order, of `watts`, `volts`,
    `amps`, `timestamp` and `-` for what is of no interest: `volts,amps`, `watts`.
    Columns are parted by commas, semicolons or blanks. A meter's own timestamp is not
    used: its clock is not ours.

    emonPi and emonTx write radio packets as decimal bytes: `OK`, the node, then the
    fields of a C structure, low byte first, and perhaps the signal strength in
    brackets. Node 5 is the emonPi itself; its fields are power1, power2, power1+2 (W)
    and Vrms (V/100), 16 bits each, then temperatures and a pulse count
    (openenergymonitor/emonpi, `PayloadTX`).
    """
    if line_format == "emonpi":
        return functools.partial(_emonpi_watts, node=node, field=field)
    columns = line_format.split(",")
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown:
        raise UsageError(
            f"no serial format {line_format!r}: give emonpi, or columns of "
            f"{', '.join(COLUMNS)}, as in format=volts,amps"
        )
    if "watts" not in columns and not {"volts", "amps"} <= set(columns):
        raise UsageError(
            f"serial format {line_format!r} gives no power: it needs watts, "
            "or volts and amps"
        )
    return functools.partial(_column_watts, columns=columns)


def _emonpi_watts(text: str, node: int, field: int) -> float:
    words = SIGNAL.sub("", text).split()
    if len(words) < 2 or words[0] != "OK":
        raise BadLineError("not an emonPi packet")
    try:
        numbers = bytes(int(word) for word in words[1:])
    except ValueError as error:
        raise BadLineError("not bytes") from error
    if numbers[0] != node:
        raise OtherNodeError(f"node {numbers[0]}")
    end = 1 + 2 * field
    if len(numbers) < end:
        raise BadLineError(f"a packet without field {field}")
    return _power(int.from_bytes(numbers[end - 2 : end], "little", signed=True))


def _column_watts(text: str, columns: list[str]) -> float:
    words = SEPARATOR.split(text)
    if len(words) != len(columns):
        raise BadLineError(f"{len(words)} columns, not {len(columns)}")
    try:
        values = {c: float(w) for c, w in zip(columns, words, strict=True) if c != "-"}
    except ValueError as error:
        raise BadLineError("not a number") from error
    if "watts" in values:
        return _power(values["watts"])
    return _power(values["volts"] * values["amps"])


def _power(watts: float) -> float:
    # No machine gives energy back: a negative value is noise, or a clamp the wrong way.
    if not math.isfinite(watts) or watts < 0:
        raise BadLineError(f"{watts} W")
    return watts


def checked_text(line: bytes, checksum: Checksum = "auto") -> str:
    """A line without its end as text, without its checksum once that is found right.

    A line may end in `*` and a checksum in hexadecimal digits over what stands between
    an optional `$` and the `*`, as NMEA 0183 has it: `xor` of two digits, or `crc16` of
    four (CRC-16/XMODEM). `auto` checks one that is there, by its length; the others
    insist.

    Raises:
        BadChecksumError: The checksum is wrong or missing.
        BadLineError: The line is no text.
    """
    suffix = SUFFIX.search(line)
    if suffix is None:
        if checksum != "auto" or b"*" in line:
            raise BadChecksumError("no checksum")
        return _text(line)
    digits = suffix.group(1)
    body = line[: suffix.start()].removeprefix(b"$")
    wanted = {"xor": XOR_DIGITS, "crc16": CRC_DIGITS}.get(checksum, len(digits))
    if len(digits) != wanted or int(digits, 16) != _sum_of(body, wanted):
        raise BadChecksumError("wrong checksum")
    return _text(body)


def _sum_of(body: bytes, digits: int) -> int | None:
    if digits == XOR_DIGITS:
        return functools.reduce(operator.xor, body, 0)
    return binascii.crc_hqx(body, 0) if digits == CRC_DIGITS else None


def _text(body: bytes) -> str:
    try:
        return body.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise BadLineError("not text") from error


LONGEST_LINE = 4096
RETRY_S = 0.2
CLOSING_S = 5.0
SILENT_SPACINGS = 3
SHORTEST_SILENCE_NS = 1_000_000_000
REMEMBERED = 32


@dataclass(slots=True)
class LineCounts:
    """What came over the line so far: good lines, others by their fault, gaps."""

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
        return ", ".join(
            f"{round(value, 3)} {name.replace('_', ' ')}"
            for name, value in asdict(self).items()
            if value or name == "readings"
        )


class LineSplitter:
    """Cuts bytes into lines; the first piece is dropped, for it may be half a line."""

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
    """Adds up one meter's readings; one thread adds, another may look."""

    def __init__(self, counts: LineCounts) -> None:
        self._counts = counts
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
        # The first distance is all we know of a meter: a slow one is not a silent one.
        follows = not self._spacings_ns or since_ns <= self._patience_ns()
        if up and follows:
            energy_j += before_w * since_ns * 1e-9
            self._spacings_ns.append(since_ns)
            self._spacing_ns = statistics.median(self._spacings_ns)
        else:
            self._counts.gaps += 1
            self._counts.gap_s += since_ns * 1e-9
        self._last = (energy_j, power_w, time_ns, True)

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

    `connect` gives an object with `read(size)`, `in_waiting` and `close`, as pyserial
    has it, whose `read` gives up after a while; `watts` the power in a line, or
    `BadLineError`.
    """

    def __init__(
        self, connect: Callable[[], Any], watts: Callable[[bytes], float]
    ) -> None:
        self.counts = LineCounts()
        self.integral = LineIntegral(self.counts)
        self._connect = connect
        self._watts = watts
        self._stop = threading.Event()
        self.problem = ""
        self._thread = threading.Thread(
            target=self._run, name="irene-serial", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        connected = False
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._connect()) as line:
                    self.problem = ""
                    self.counts.reconnects += connected
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
            self.counts.bytes_received += len(data)
            before = splitter.too_long
            for text in splitter.lines(data):
                self._take(text, now_ns)
            self.counts.too_long += splitter.too_long - before

    def _take(self, line: bytes, now_ns: int) -> None:
        try:
            power_w = self._watts(line)
        except OtherNodeError:
            self.counts.other += 1
        except BadChecksumError:
            self.counts.bad_checksum += 1
        except BadLineError:
            self.counts.malformed += 1
        else:
            self.counts.readings += 1
            self.integral.add(power_w, now_ns)

    def close(self) -> None:
        """End the thread and let go of the line; closing twice is fine."""
        self._stop.set()
        self._thread.join(CLOSING_S)
