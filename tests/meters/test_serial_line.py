"""Wall meters: formats, noise, and a plug that is pulled; on real pseudo-terminals."""

from __future__ import annotations

import binascii
import functools
import itertools
import math
import operator
import os
import sys
import threading
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from irene.errors import MeterError, MissingExtraError, UsageError
from irene.meters.channel import SensorLostError
from irene.meters.wall.line_reader import (
    LONGEST_LINE,
    BadChecksumError,
    BadLineError,
    LineCounts,
    LineIntegral,
    LineSplitter,
    OtherNodeError,
    checked_text,
    line_parser,
)
from irene.meters.wall.serial_line import SerialMeter, SerialSource, open_serial

pytest.importorskip("serial", reason="pyserial is not installed")

PATIENT_S = 20.0
S = 1_000_000_000


class FakeMeter:
    """A pseudo-terminal at a fixed path, and a thread that writes lines on it."""

    def __init__(self, path: Path, lines: Callable[[], bytes]) -> None:
        self.path = path
        self.lines = lines
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ends: tuple[int, int] | None = None
        self.plug_in()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def plug_in(self) -> None:
        with self._lock:
            self._ends = os.openpty()
            tty.setraw(self._ends[1])
            self.path.symlink_to(os.ttyname(self._ends[1]))

    def unplug(self) -> None:
        with self._lock:
            assert self._ends is not None
            for end in self._ends:
                os.close(end)
            self._ends = None
            self.path.unlink()

    def _write(self) -> None:
        while not self._stop.wait(0.01):
            with self._lock:
                if self._ends is not None:
                    os.write(self._ends[0], self.lines())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._ends is not None:
            self.unplug()


@pytest.fixture
def plug(tmp_path: Path) -> Iterator[Callable[[Callable[[], bytes]], FakeMeter]]:
    made: list[FakeMeter] = []

    def make(lines: Callable[[], bytes]) -> FakeMeter:
        made.append(FakeMeter(tmp_path / "ttyMETER", lines))
        return made[-1]

    yield make
    for meter in made:
        meter.close()


@pytest.fixture
def opened() -> Iterator[Callable[..., SerialMeter]]:
    made: list[SerialMeter] = []

    def make(
        fake: FakeMeter, options: str, patience_s: float = PATIENT_S
    ) -> SerialMeter:
        made.append(open_serial(f"serial:{fake.path}?{options}", patience_s))
        return made[-1]

    yield make
    for meter in made:
        meter.close()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENT_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def test_an_emonpi_gives_power_and_growing_energy(plug, opened) -> None:
    fake = plug(lambda: b"OK 5 44 1 0 0 44 1 232 89 0 0 (-0)\r\n")
    begin = time.monotonic()
    meter = opened(fake, "baud=38400&format=emonpi")
    energy, power = meter.channels
    assert (energy.quantity, energy.covers, energy.counted) == (
        "energy_j",
        "wall",
        True,
    )
    assert (power.quantity, power.counted) == ("power_w", False)
    assert 0 < energy.resolution_s < 1
    assert energy.relative_error == pytest.approx(0.03)
    first_j, power_w = meter.read()
    assert power_w == 300
    until(lambda: meter.read()[0] > first_j)
    assert 0 < meter.read()[0] <= 300 * (time.monotonic() - begin)
    assert meter.line_counts.malformed == 0


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ("volts,amps", b"230.0,0.5\n"),
        ("timestamp,volts,amps", b"1616012301.541,230.0,0.5\n"),
        ("watts", b"115\n"),
        ("-,watts", b"a\t115.0\r\n"),
    ],
)
def test_columns_give_watts(plug, opened, columns: str, line: bytes) -> None:
    meter = opened(plug(lambda: line), f"baud=9600&format={columns}&error_percent=1")
    assert meter.read()[1] == pytest.approx(115)
    assert meter.channels[0].relative_error == pytest.approx(0.01)


def test_noise_and_wrong_lines_are_counted_and_skipped(plug, opened) -> None:
    noise = [b"\xff\xfe\x00\x81\n", b"watt?\n", b"90*00\n", b"nan\n", b"-5\n"]
    cycle = itertools.cycle([b"100\n", *noise])
    meter = opened(plug(lambda: next(cycle)), "format=watts")
    until(lambda: meter.line_counts.readings > 10)
    assert meter.read()[1] == 100
    counts = meter.line_counts
    assert counts.malformed > counts.bad_checksum > 0
    assert f"{counts.readings} readings" in str(counts)
    assert "malformed" in str(counts)


def test_a_pulled_plug_is_a_gap_and_the_count_goes_on(plug, opened) -> None:
    fake = plug(lambda: b"50\n")
    begin = time.monotonic()
    meter = opened(fake, "format=watts")
    until(lambda: meter.read()[0] > 1)
    fake.unplug()
    until(lambda: math.isnan(meter.read()[0]))
    assert math.isnan(meter.read()[1])
    gone = time.monotonic()
    away_s = time.monotonic() - gone
    before = meter.line_counts.readings
    fake.plug_in()
    until(lambda: not math.isnan(meter.read()[0]))
    until(lambda: meter.line_counts.readings > before + 3)
    counts = meter.line_counts
    assert (counts.reconnects, counts.gaps) == (1, 1)
    assert counts.gap_s >= away_s
    energy_j, power_w = meter.read()
    assert power_w == 50
    # What it adds up to leaves the gap out.
    assert 1 < energy_j < 50 * (time.monotonic() - begin - away_s)


def test_a_flood_of_garbage_is_dropped_and_forgotten(plug, opened) -> None:
    flood = [0]

    def lines() -> bytes:
        flood[0] += 1
        return b"x" * 3000 if 30 < flood[0] < 40 else b"\n70\n70\n"

    meter = opened(plug(lines), "format=watts")
    until(lambda: flood[0] > 60 and meter.line_counts.too_long > 0)
    until(lambda: meter.read()[1] == 70)
    assert meter.line_counts.too_long == 1


def test_a_silent_line_is_an_error_that_says_what_came(plug, tmp_path: Path) -> None:
    fake = plug(lambda: b"")
    with pytest.raises(MeterError, match="nothing came at all"):
        open_serial(f"serial:{fake.path}?format=watts", patience_s=0.3)


def test_a_wrong_format_is_an_error_that_says_what_came(plug) -> None:
    fake = plug(lambda: b"hello\n")
    with pytest.raises(MeterError, match=r"malformed.*check baud, format") as caught:
        open_serial(f"serial:{fake.path}?format=watts", patience_s=0.5)
    assert "check baud" in caught.value.remedy


def test_a_missing_device_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="by-id"):
        open_serial(f"serial:{tmp_path}/none?format=watts")


def test_a_file_is_no_serial_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("100\n")
    with pytest.raises(MeterError, match="cannot open"):
        open_serial(f"serial:{tmp_path}/file?format=watts", 0.3)


def test_a_closed_meter_says_so(plug, opened) -> None:
    meter = opened(plug(lambda: b"1\n"), "format=watts")
    meter.close()
    meter.close()
    with pytest.raises(SensorLostError):
        meter.read()


def test_a_missing_extra_names_its_install_line(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(MissingExtraError, match=r"irene-energy\[serial\]"):
        open_serial(f"serial:{tmp_path}/x")


def test_a_source_is_read_from_text() -> None:
    text = (
        "serial:/dev/ttyUSB0?baud=9600&format=volts,amps&checksum=xor&error_percent=1"
    )
    assert SerialSource.parse(text) == SerialSource(
        "/dev/ttyUSB0", 9600, "volts,amps", "xor", error_percent=1.0
    )
    assert SerialSource.parse("serial:/dev/ttyAMA0").format == "emonpi"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("serial:", "no device"),
        ("serial:/dev/x?baud=fast", "baud must be a whole number"),
        ("serial:/dev/x?speed=1", "no option 'speed'"),
        ("serial:/dev/x?format=joules", "no serial format"),
        ("serial:/dev/x?format=volts", "gives no power"),
        ("serial:/dev/x?checksum=md5", "checksum must be one of auto"),
        ("serial:/dev/x?field=0", "impossible"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        SerialSource.parse(text)


def test_an_emonpi_packet_is_little_endian_and_signed() -> None:
    line = "OK 5 44 1 100 0 144 1 232 89 250 0 1 0 0 0 (-64)"
    assert line_parser("emonpi")(line) == 300
    assert line_parser("emonpi", field=2)(line) == 100
    assert line_parser("emonpi", field=3)(line) == 400
    with pytest.raises(OtherNodeError):
        line_parser("emonpi", node=10)(line)
    with pytest.raises(BadLineError, match="-1 W"):
        line_parser("emonpi")("OK 5 255 255")


@pytest.mark.parametrize(
    "line", ["OK 5 44", "OK", "", "?5 1 2", "OK 5 x 1", "OK 5 300 1", "OK 5 -1 0"]
)
def test_a_damaged_packet_is_refused(line: str) -> None:
    with pytest.raises(BadLineError):
        line_parser("emonpi")(line)


@pytest.mark.parametrize("line", ["1", "1,2,3", "a,b", "inf,1", "230,-1", "230,", ","])
def test_damaged_columns_are_refused(line: str) -> None:
    with pytest.raises(BadLineError):
        line_parser("volts,amps")(line)


def test_checksums_are_checked() -> None:
    body = b"230.1,0.52"
    xor = functools.reduce(operator.xor, body)
    crc = binascii.crc_hqx(body, 0)
    assert checked_text(b"$%s*%02X" % (body, xor)) == body.decode()
    assert checked_text(b"%s*%02x" % (body, xor), "xor") == body.decode()
    assert checked_text(b"%s*%04X" % (body, crc), "crc16") == body.decode()
    assert checked_text(body) == body.decode()
    wrong = [
        (b"%s*%02X" % (body, xor ^ 1), "auto"),
        (b"%s*%04X" % (body, crc), "xor"),
        (b"%s*" % body, "auto"),
        (b"%s*%06X" % (body, crc), "auto"),
        (body, "xor"),
    ]
    for line, kind in wrong:
        with pytest.raises(BadChecksumError):
            checked_text(line, kind)  # type: ignore[arg-type]


def test_a_flipped_bit_never_passes_a_checksum() -> None:
    body = b"1616012301.541,230.1,0.52"
    good = b"%s*%04X" % (body, binascii.crc_hqx(body, 0))
    for place in range(len(body)):
        for bit in range(8):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            with pytest.raises(BadLineError):
                checked_text(bytes(bad), "crc16")


def test_half_a_line_at_the_start_is_not_a_line() -> None:
    splitter = LineSplitter()
    # `.5` is the end of `122.5`, whose beginning went by before we listened
    assert list(splitter.lines(b".5\n122.6\n12")) == [b"122.6"]
    assert list(splitter.lines(b"2.7\r\n\r\n1")) == [b"122.7"]


def test_a_line_without_end_takes_no_memory() -> None:
    splitter = LineSplitter()
    list(splitter.lines(b"\n"))
    for _ in range(1000):
        assert list(splitter.lines(b"y" * LONGEST_LINE)) == []
        assert len(splitter._rest) <= LONGEST_LINE
    assert splitter.too_long == 1
    assert list(splitter.lines(b"yy\n5\n")) == [b"5"]


def test_each_reading_holds_until_the_next() -> None:
    counts = LineCounts()
    integral = LineIntegral(counts)
    for number, power in enumerate([100.0, 200.0, 0.0, 50.0]):
        integral.add(power, number * S // 10)
    assert integral.values(3 * S // 10) == pytest.approx((30.0, 50.0))
    assert integral.spacing_s == pytest.approx(0.1)


def test_silence_is_not_filled_in() -> None:
    counts = LineCounts()
    integral = LineIntegral(counts)
    for tenth in range(11):
        integral.add(100.0, tenth * S // 10)
    assert integral.values(2 * S)[0] == pytest.approx(100.0)
    assert all(math.isnan(value) for value in integral.values(2 * S + 1))
    integral.add(100.0, 5 * S)
    assert integral.values(5 * S) == pytest.approx((100.0, 100.0))
    integral.add(100.0, 5 * S + S // 10)
    assert integral.values(5 * S + S // 10)[0] == pytest.approx(110.0)
    assert (counts.gaps, counts.gap_s) == (1, pytest.approx(4.0))


def test_a_slow_meter_is_not_a_silent_one() -> None:
    counts = LineCounts()
    integral = LineIntegral(counts)
    for number in range(4):
        integral.add(10.0, number * 5 * S)
    assert counts.gaps == 0
    assert integral.values(29 * S) == pytest.approx((150.0, 10.0))
    assert math.isnan(integral.values(31 * S)[0])


def test_a_line_that_was_down_is_not_bridged() -> None:
    counts = LineCounts()
    integral = LineIntegral(counts)
    integral.add(100.0, 0)
    integral.add(100.0, S // 10)
    integral.line_down()
    assert math.isnan(integral.values(S // 10)[0])
    integral.add(100.0, 3 * S // 10)
    assert integral.values(3 * S // 10)[0] == pytest.approx(10.0)
