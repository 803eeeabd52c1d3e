"""Power logs: what is read, what is refused, and whose clock is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import FormatError, UsageError
from irene.meters.logs.log_clock import (
    ClockCorrection,
    clock_from_marks,
    fit_clock,
    rising_edges,
)
from irene.meters.logs.log_lines import PowerLog
from irene.meters.logs.power_log import read_power_log

BEGIN_NS = 1_616_012_301_541_000_000  # 2021-03-17 20:18:21.541 UTC
S = 1_000_000_000


@pytest.fixture
def write(tmp_path: Path):
    def put(text: str | bytes, name: str = "meter.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put


def assert_log(log: PowerLog, times_ns: list[int], powers_w: list[float]) -> None:
    assert log.time_ns.dtype == np.int64
    # Half a microsecond is what a float of seconds since 1970 can lose.
    assert np.abs(log.time_ns - np.array(times_ns)).max() < 500
    assert log.power_w == pytest.approx(powers_w)


SECOND = [BEGIN_NS, BEGIN_NS + S, BEGIN_NS + 2 * S]


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,watts\n1616012301.541,10\n1616012302.541,20.5\n1616012303.541,30\n",
        "1616012301541,10\n1616012302541,20.5\n1616012303541,30",
        "1616012301541000,10\n1616012302541000,20.5\n1616012303541000,30",
        "time_ns,power_w\n1616012301541000000,10\n1616012302541000000,20.5\n"
        "1616012303541000000,30\n",
        "Time,Power (mW)\n2021-03-17T20:18:21.541Z,10000\n"
        "2021-03-17T20:18:22.541Z,20500\n2021-03-17T20:18:23.541Z,30000\n",
        "2021-03-17 21:18:21.541+01:00,10\n2021-03-17 21:18:22.541+01:00,20.5\n"
        "2021-03-17 21:18:23.541+01:00,30\n",
        '"W";"Date/Time"\n10;2021/03/17 20:18:21,541\n20,5;2021/03/17 20:18:22,541\n'
        "30;2021/03/17 20:18:23,541\n",
        "\ufefftimestamp\tvolts\tamps\n1616012301.541\t100\t0.1\n"
        "1616012302.541\t100\t0.205\n1616012303.541\t100\t0.3\n",
        "timestamp, power.draw [W]\r\n2021/03/17 20:18:21.541, 10.00 W\r\n"
        "2021/03/17 20:18:22.541, 20.50 W\r\n2021/03/17 20:18:23.541, 30.00 W\r\n",
        "# made by a meter\nepoch,host,watts\n1616012301.541,a,10\n"
        "1616012302.541,b,20.5\n1616012303.541,c,30\n",
        "1616012301.541 10\n1616012302.541 20.5\n1616012303.541 30\n",
        "Time,Volts,Watts,Amps\n1616012301.541,1,10,1\n1616012302.541,1,20.5,1\n"
        "1616012303.541,1,30,1\n",
        "2021-03-17T20:18:21.541Z,10\n2021-03-17T20:18:22.5410Z,20.5\n"
        "2021-03-17T22:18:23.541+0200,30\n",
    ],
)
def test_tables_of_many_kinds_are_read(write, text: str) -> None:
    log = read_power_log(write(text))
    assert_log(log, SECOND, [10, 20.5, 30])
    assert log.name == "meter.csv"
    assert not any("dropped" in note for note in log.notes)


def test_mlperfs_log_is_read(write) -> None:
    rest = "Volts,228.160,Amps,0.086570,PF,0.481600,Mark,notset"
    lines = [
        f"Time,03-17-2021 20:18:2{n}.541,Watts,{9.513 + n},{rest}" for n in (1, 2, 3)
    ]
    log = read_power_log(write("\n".join(lines), "spl.txt"))
    assert_log(log, SECOND, [10.513, 11.513, 12.513])
    assert log.notes == ("times have no zone: taken as UTC",)
    late = read_power_log(write("\n".join(lines), "spl.txt"), offset_s=-3600)
    assert late.time_ns[0] == pytest.approx(BEGIN_NS - 3600 * S)
    assert "-3600" in late.notes[-1]


@pytest.mark.parametrize(
    ("shown", "hour"),
    [
        ("01/31/2024 12:05:01.5 AM", 0),
        ("1/31/2024 9:05:01.5 am", 9),
        ("01-31-2024 12:05:01.5 PM", 12),
        ("2024-01-31 02:05:01.5 p.m.", 14),
        ("2024-01-31T02:05:01.5 PM +01:00", 13),
    ],
)
def test_hours_of_half_a_day(write, shown: str, hour: int) -> None:
    later = shown.replace("01.5", "02.5")
    log = read_power_log(write(f"time,watts\n{shown},5\n{later},6\n"))
    first = 1_706_659_200 + hour * 3600 + 5 * 60 + 1.5  # midnight of that day, UTC
    assert_log(log, [round(first * 1e9), round((first + 1) * 1e9)], [5.0, 6.0])


def test_an_hour_that_no_half_day_has_is_refused(write) -> None:
    with pytest.raises(FormatError, match="no line with a time"):
        read_power_log(write("time,watts\n01/31/2024 14:05:01 PM,5\n"))


def test_a_date_out_of_the_calendar_is_dropped(write) -> None:
    good = "".join(f"2021-03-01T00:00:0{n}Z,1\n" for n in range(3))
    log = read_power_log(write(f"time,watts\n2021-02-30T00:00:00Z,1\n{good}"))
    assert len(log) == 3
    assert "1 lines dropped: 2" in log.notes


def test_bad_lines_are_counted_with_their_numbers(write) -> None:
    text = "timestamp,watts\n" + "".join(
        f"{1616012301 + n},{'oops' if n in (3, 5) else 100}\n" for n in range(10)
    )
    text += "1616012320,-4\n1616012321,nan\n1616012322\n\n"
    log = read_power_log(write(text))
    assert len(log) == 8
    assert "5 lines dropped: 5, 7, 12, 13, 14" in log.notes
    assert "1 of them for a negative power" in log.notes


def test_disorder_is_put_right_and_said(write) -> None:
    text = "1616012303,30\n1616012301,10\n1616012302,20\n1616012302,22\n1616012313,5\n"
    log = read_power_log(write(text))
    assert_log(log, [(1616012301 + n) * S for n in (0, 1, 2, 12)], [10, 21, 30, 5])
    notes = " | ".join(log.notes)
    assert "1 times earlier than the one before" in notes
    assert "1 times given twice" in notes
    assert "1 gaps, the longest 10.000 s" in notes


def test_times_from_a_start_of_their_own_are_noted(write) -> None:
    log = read_power_log(write("t,w\n0,5\n0.5,6\n1.0,7\n"), offset_s=1616012301.541)
    assert_log(log, [BEGIN_NS, BEGIN_NS + S // 2, BEGIN_NS + S], [5, 6, 7])
    assert any("give an offset" in note for note in log.notes)


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("", "", "nothing in it"),
        ("\n \n# only words\n", "", "nothing in it"),
        ("timestamp,watts\n", "", "no line with a time and a power"),
        ("timestamp,celsius\n1,2\n", ":1", "no column of power"),
        ("index, power.draw [W]\n0, 2 W\n", ":1", "query-gpu=timestamp,index"),
        ("place,watts\n1,2\n", ":1", "no column of time"),
        ("\n5\n6\n", ":2", "one column only"),
        ("a,b,c\n", ":1", "no column of time among a, b, c"),
        ("timestamp,watts\n1616012301,x\n1616012302,y\n", ":2", "no line with a time"),
        ("t,w\n1616012301,1\nx,y\nx,y\n", ":3", "2 of 3 lines cannot be read"),
        (b"\x00\xff\x00\x01" * 100, ":1", "one column only"),
    ],
)
def test_unusable_files_are_refused_with_their_line(
    write, text: str | bytes, where: str, problem: str
) -> None:
    path = write(text)
    with pytest.raises(FormatError, match=problem) as caught:
        read_power_log(path)
    assert str(caught.value).startswith(f"{path}{where}:")


def test_a_file_that_is_not_there_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_power_log(tmp_path / "none.csv")


def test_a_log_cannot_be_changed(write) -> None:
    log = read_power_log(write("1616012301,1\n1616012302,2\n"))
    with pytest.raises(ValueError, match="read-only"):
        log.power_w[0] = 5


def test_both_ways_of_reading_agree(write) -> None:
    lines = [
        f"Time,03-17-2021 23:59:{50 + n // 10:02d}.{n % 10}00,Watts,{n}.25,Volts,1"
        for n in range(90)
    ]
    whole = read_power_log(write("\n".join(lines)))
    by_line = read_power_log(write("\n".join([*lines, "Time,?,Watts,?,Volts,1"])))
    assert np.array_equal(whole.time_ns, by_line.time_ns)
    assert np.array_equal(whole.power_w, by_line.power_w)
    assert len(by_line) == 90


@given(
    offset_s=st.floats(-1e6, 1e6),
    drift_ppm=st.floats(-500, 500),
    hours=st.lists(st.floats(0.01, 100), min_size=2, max_size=6, unique=True),
)
def test_a_clock_is_found_again(
    offset_s: float, drift_ppm: float, hours: list[float]
) -> None:
    truth = ClockCorrection(offset_s, drift_ppm, BEGIN_NS)
    logged = [BEGIN_NS + round(hour * 3600 * S) for hour in hours]
    pairs = [(time, int(truth.apply(time))) for time in logged]
    found = fit_clock(pairs)
    for time, ours in pairs:
        assert abs(int(found.apply(time)) - ours) < 1_000_000  # a millisecond
    assert found.residual_s < 1e-3


def test_one_pair_gives_the_offset_only() -> None:
    clock = fit_clock([(BEGIN_NS, BEGIN_NS + 5 * S)])
    assert (clock.offset_s, clock.drift_ppm) == (5.0, 0.0)


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [([], "no moment"), ([(0, 0), (10 * S, 20 * S)], "more than any clock does")],
)
def test_clocks_that_cannot_be_are_refused(pairs: list, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        fit_clock(pairs)


def log_with_marks(
    marks_s: list[float], clock: ClockCorrection, every_s: float = 0.1
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """A load of 2 s at each mark, as a meter with a wrong clock would log it."""
    ours_s = np.arange(0, 700, every_s)
    power_w = 60 + np.random.default_rng(0).normal(0, 2, len(ours_s))
    for mark in marks_s:
        power_w[(ours_s >= mark) & (ours_s < mark + 2)] += 100
    # The inverse of the correction, near enough for these drifts.
    since_s = ours_s - clock.offset_s
    logged_s = since_s - clock.drift_ppm * 1e-6 * since_s
    marks_ns = [BEGIN_NS + round(mark * S) for mark in marks_s]
    return BEGIN_NS + np.rint(logged_s * S).astype(np.int64), power_w, marks_ns


def test_marks_at_both_ends_give_offset_and_drift() -> None:
    truth = ClockCorrection(7200.4, 80.0, BEGIN_NS)
    times, powers, marks = log_with_marks([5.0, 20.0, 655.0], truth)
    clock = clock_from_marks(times, powers, marks)
    assert clock.drift_ppm == pytest.approx(80, abs=200)
    found = clock.apply(times)
    assert np.abs(found - (BEGIN_NS + np.arange(len(times)) * S // 10)).max() < S // 5


def test_marks_that_do_not_tell_are_refused() -> None:
    truth = ClockCorrection(3.0, 0.0, BEGIN_NS)
    times, powers, marks = log_with_marks([10.0, 20.0, 30.0], truth)
    with pytest.raises(UsageError, match="2 ways to match"):
        clock_from_marks(times, powers, marks[:2])
    with pytest.raises(UsageError, match="none to match"):
        clock_from_marks(times, powers, [marks[0], marks[0] + 55 * S])
    with pytest.raises(UsageError, match="two marks"):
        clock_from_marks(times, powers, marks[:1])


def test_an_edge_lies_half_way_up() -> None:
    times = np.arange(6) * S
    assert rising_edges(times, [0, 0, 50, 100, 100, 0]).tolist() == [2 * S]
    assert rising_edges(times, [0, 0, 100, 100, 100, 100]).tolist() == [S + S // 2]
    assert rising_edges(times, [5.0] * 6).tolist() == []
    assert rising_edges(times, [0, 40, 30, 40, 35, 100]).tolist() != []
    assert rising_edges([], []).tolist() == []
