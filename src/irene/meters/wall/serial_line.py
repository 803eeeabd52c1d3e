"""Wall meters on a serial line: emonPi, and whatever writes watts, or volts and amps.

A meter is named `serial:/dev/ttyUSB0?baud=38400&format=emonpi`. A thread reads its
lines as they come; `read` gives the energy up to the last reading and that reading's
power. Energy grows in steps, one for each line: see `resolution_s` of the channel.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import parse_qsl

from irene.errors import MeterError, UsageError, library
from irene.meters.channel import Channel, Sensor, SensorMeter
from irene.meters.wall.line_reader import (
    Checksum,
    LineReader,
    checked_text,
    line_parser,
)
from irene.parameters import read

INSTALL = "pip install 'irene-energy[serial]'"
PREFIX = "serial:"
READ_TIMEOUT_S = 0.1
ENOUGH_SPACINGS = 4
PATIENCE_S = 15.0
"""How long the first readings may take, s: an emonPi as sold writes every 5 s."""
REMEDIES = {
    errno.ENOENT: "plug it in, and see what `ls /dev/serial/by-id` shows",
    errno.EACCES: "sudo usermod -aG dialout $USER, and log in again",
    errno.EBUSY: "another program has it open: `fuser` tells which",
}
CLAMP_ERROR_PERCENT = 3.0
"""Of the clamp that comes with an emonPi: the datasheet of YHDC's SCT-013 says ±3 %
non-linearity. Nothing is known of other meters: give what their manuals say."""


@dataclass(frozen=True, slots=True)
class SerialSource:
    """Where a wall meter is, and how it writes.

    Attributes:
        port: Device, best one of `/dev/serial/by-id`.
        baud: Bits per second.
        format: `emonpi`, or the columns of a line; see `line_parser`.
        checksum: `auto`, `xor` or `crc16`.
        node: Node of an emonPi packet.
        field: Which 16-bit field of an emonPi packet is the power, from 1; 3 is the
            sum of both clamps.
        error_percent: Half its 90 % interval, % of the value.
    """

    port: str
    baud: int = 38400
    format: str = "emonpi"
    checksum: Checksum = "auto"
    node: int = 5
    field: int = 1
    error_percent: float = CLAMP_ERROR_PERCENT

    def __post_init__(self) -> None:
        if not self.port:
            raise UsageError(f"no device: write {PREFIX}/dev/ttyUSB0?format=emonpi")
        if self.checksum not in get_args(Checksum):
            choices = ", ".join(get_args(Checksum))
            raise UsageError(f"no checksum {self.checksum!r}: it is one of {choices}")
        if min(self.baud, self.field) < 1 or not 0 <= self.error_percent < 100:
            raise UsageError(f"impossible values in {self}")
        line_parser(self.format)

    @classmethod
    def parse(cls, text: str) -> SerialSource:
        """Read `serial:/dev/ttyUSB0?baud=38400&format=emonpi`."""
        port, _, query = text.removeprefix(PREFIX).partition("?")
        given = parse_qsl(query, keep_blank_values=True)
        return read(cls, {"port": port, **dict(given)})

    def watts(self) -> Callable[[bytes], float]:
        """The function that finds the power in a line."""
        parse = line_parser(self.format, self.node, self.field)
        return lambda line: parse(checked_text(line, self.checksum))


class SerialMeter(SensorMeter):
    """A wall meter: energy up to the last reading and its power; see `open_serial`."""

    def __init__(self, source: SerialSource, reader: LineReader) -> None:
        self.line_counts = reader.counts
        port = "".join("_" if c in ',"\n\r#' else c for c in source.port)
        note = (
            f"wall meter on {port}, format {source.format}; a reading holds until "
            "the next, and silence is not filled in"
        )
        shared: dict[str, Any] = {
            "covers": "wall",
            "resolution_s": reader.integral.spacing_s,
            "relative_error": source.error_percent / 100,
            "note": note,
        }
        channels = (
            Channel(f"serial:{port}:energy", "energy_j", **shared),
            Channel(f"serial:{port}:power", "power_w", counted=False, **shared),
        )
        both = Sensor(channels, lambda: reader.integral.values(time.monotonic_ns()))
        super().__init__("serial", [both], let_go=reader.close)


def open_serial(
    source: SerialSource | str, patience_s: float = PATIENCE_S
) -> SerialMeter:
    """Open a wall meter, and wait until it has given a few readings."""
    source = SerialSource.parse(source) if isinstance(source, str) else source
    serial = library("serial", f"Wall meters on a serial line need pyserial: {INSTALL}")
    first = [_first_line(serial, source)]
    reader = LineReader(
        lambda: first.pop() if first else _line(serial, source), source.watts()
    )
    end = time.monotonic() + patience_s
    while reader.integral.readings_spaced < ENOUGH_SPACINGS and time.monotonic() < end:
        time.sleep(0.01)
    if not reader.integral.readings_spaced:
        reader.close()
        raise _nothing_heard(source, reader, patience_s)
    return SerialMeter(source, reader)


def _line(serial: Any, source: SerialSource) -> Any:
    line = serial.Serial(source.port, source.baud, timeout=READ_TIMEOUT_S)
    line.reset_input_buffer()  # what waited there is of an unknown time
    return line


def _first_line(serial: Any, source: SerialSource) -> Any:
    try:
        return _line(serial, source)
    except (OSError, ValueError) as error:
        remedy = REMEDIES.get(getattr(error, "errno", None) or 0, "")
        raise MeterError(f"cannot open {source.port}: {error}", remedy) from error


def _nothing_heard(
    source: SerialSource, reader: LineReader, patience_s: float
) -> MeterError:
    counts = reader.counts
    heard = f"{source.port}: fewer than two readings in {patience_s:g} s ({counts})"
    if reader.problem:
        return MeterError(f"{heard}; {reader.problem}")
    if counts.bytes_received:
        return MeterError(heard, "check baud, format, node and checksum")
    return MeterError(heard, "nothing came at all: check the cable and the port")
