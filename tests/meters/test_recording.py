from __future__ import annotations

import json
import math
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import FormatError, UsageError
from irene.meters.channel import Channel
from irene.meters.sampling import sample_file
from irene.meters.sampling.recording import Recording, read_recording
from irene.meters.sampling.sample_file import SampleFile
from irene.meters.sampling.totals import RunningTotals
from tests.meters.made_up import COUNTER, LOAD, NAN, POWER

CHANNELS = (COUNTER, POWER, LOAD)


def written(path: Path, rows: int = 20) -> SampleFile:
    file = SampleFile(path, CHANNELS, 0.1)
    for row in range(rows):
        file.add(row * 100_000_000, [row * 2.5, 25.0, NAN if row == 3 else 50.0])
    return file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = written(tmp_path / "deep" / "samples.csv")
    file.event("end", samples=20)
    file.close()
    recording = read_recording(file.path)
    assert recording.channels == CHANNELS
    assert recording.time_ns.tolist() == [row * 100_000_000 for row in range(20)]
    assert recording.values[:, 0].tolist() == [row * 2.5 for row in range(20)]
    assert math.isnan(recording.values[3, 2])
    assert recording.notes == ()
    assert recording.period_s == 0.1
    assert recording.window(0, 0, 1.9e9).energy_j == pytest.approx(47.5)
    assert recording.window(1, 0, 1.9e9).energy_j == pytest.approx(47.5)
    assert recording.window(0, 0.25e9, 0.55e9).energy_j == pytest.approx(7.5)


def test_a_long_recording_is_bounded_and_loses_no_energy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_file, "MOST_WHOLE", 20_000)
    monkeypatch.setattr(sample_file, "MOST_RECENT", 8_000)
    file = SampleFile(tmp_path / "samples.csv", (COUNTER, POWER), 0.1)
    samples = 40_000
    for row in range(samples):  # 100 W on average, up and down
        file.add(row * 100_000_000, [row * 10.0, 150.0 if row % 2 else 50.0])
        if row % 10 == 0:
            file.flush()
    file.event("end")
    file.close()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 3
    assert sum(sizes) < 60_000  # of 1 MB
    recording = read_recording(file.path)
    (note,) = recording.notes
    assert "long recording" in note
    end_ns = (samples - 1) * 1e8
    assert recording.time_ns[-1] == end_ns
    assert recording.time_ns[-100] == end_ns - 99e8  # the last seconds are whole
    for column in (0, 1):
        window = recording.window(column, 0, end_ns)
        assert window.complete
        assert window.energy_j == pytest.approx(100 * end_ns * 1e-9, rel=2e-3)
    SampleFile(file.path, (COUNTER,), 0.1).close()
    assert len(list(tmp_path.iterdir())) == 1


def test_time_of_day(tmp_path: Path) -> None:
    before_ns = time.time_ns()
    file = written(tmp_path / "s.csv")
    now_ns = time.monotonic_ns()
    after_ns = time.time_ns()
    file.close()
    recording = read_recording(file.path)
    epoch_ns = int(recording.epoch_ns(np.array([now_ns]))[0])
    assert before_ns - 1_000_000 <= epoch_ns <= after_ns + 1_000_000


@pytest.mark.parametrize("lost", [1, 7, 25, 60])
def test_a_file_cut_anywhere_gives_its_whole_lines(tmp_path: Path, lost: int) -> None:
    file = written(tmp_path / "s.csv")
    file.close()
    data = file.path.read_bytes()
    file.path.write_bytes(data[:-lost])
    recording = read_recording(file.path)
    whole = data[:-lost].count(b"\n") - 2
    assert len(recording) == whole
    assert "did not end" in recording.notes[0]


def test_damaged_lines_are_counted_not_believed(tmp_path: Path) -> None:
    file = written(tmp_path / "s.csv")
    file.close()
    text = file.path.read_text().replace("500000000,", "5x0000000,")
    text += "100,1,1,1\n1,2\n"  # goes back in time; too short
    file.path.write_text(text)
    recording = read_recording(file.path)
    assert len(recording) == 18
    assert recording.notes[1] == "4 lines were unreadable or out of order"


def test_a_file_of_nothing_but_damaged_lines_has_no_samples(tmp_path: Path) -> None:
    file = written(tmp_path / "s.csv")
    file.close()
    header = file.path.read_text().splitlines(keepends=True)[:2]
    file.path.write_text("".join([*header, "1,2\n", "1,x,x,x\n"]))
    recording = read_recording(file.path)
    assert len(recording) == 0
    assert recording.notes[1] == "2 lines were unreadable or out of order"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not a file of samples"),
        ("time,watts\n1,2\n", "not a file of samples"),
        ('#{"schema": "irene.samples/2"}\n', "irene.samples/2"),
        ('#{"schema": "irene.samples/1"}\n', "no channels"),
        (
            '#{"schema": "irene.samples/1", "clock": {}, "channels": [{"x": 1}]}\n',
            "not a channel",
        ),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(content)
    with pytest.raises(FormatError, match=says):
        read_recording(path)


def test_a_missing_file_and_an_impossible_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_recording(tmp_path / "none.csv")
    with pytest.raises(UsageError, match="cannot write"):
        SampleFile(tmp_path, CHANNELS, 0.1)
    with pytest.raises(UsageError, match="no channel 'x'"):
        recording_of([0.0, 1.0], COUNTER).index("x")


def test_a_full_disk_loses_nothing_once_it_has_room(tmp_path: Path) -> None:
    file = written(tmp_path / "s.csv", rows=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = os.path.getsize(file.path) + 100  # noqa: PTH202
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        for row in range(20):
            file.add(row * 100_000_000, [row * 2.5, 25.0, 50.0])
        file.flush()
        problem = file.problem
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot write" in problem
    assert file.path.stat().st_size == room
    assert 0 < len(read_recording(file.path)) < 20
    file.close()
    assert file.problem == ""
    assert len(read_recording(file.path)) == 20


def test_a_disk_that_stays_full_drops_the_oldest_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_file, "MOST_WAITING", 2000)
    file = written(tmp_path / "s.csv", rows=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = file.path.stat().st_size + 50
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        for row in range(1000):
            file.add(row * 100_000_000, [row * 2.5, 25.0, 50.0])
            file.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.flush()
    file.close()
    recording = read_recording(file.path)
    assert recording.values[-1, 0] == 999 * 2.5
    assert 10 < len(recording) < 100
    assert any("found no room" in note for note in recording.notes)


def recording_of(
    values: list[float], channel: Channel, period_s: float = 0.1
) -> Recording:
    times = np.arange(len(values), dtype=np.int64) * round(period_s * 1e9)
    return Recording((channel,), times, np.array(values)[:, None], period_s)


amounts = st.lists(
    st.tuples(
        st.one_of(st.floats(-5, 50), st.just(0.0), st.just(NAN)),
        st.one_of(st.just(100_000_000), st.integers(1, 3_000_000_000)),
    ),
    max_size=60,
)
NESTED = Channel("rapl:core", "energy_j", "cpu-cores", counted=False)


@given(amounts=amounts, channel=st.sampled_from([COUNTER, NESTED, POWER, LOAD]))
def test_a_recording_and_the_running_totals_agree_to_the_last_bit(
    amounts: list[tuple[float, int]], channel: Channel
) -> None:
    values = np.array([0.0, *(value for value, _ in amounts)])
    times = np.cumsum([0, *(since_ns for _, since_ns in amounts)])
    if channel.quantity == "energy_j":  # NaN stays; the counter itself goes on
        grown = np.cumsum(np.nan_to_num(values))
        values = np.where(np.isnan(values), np.nan, grown)
    recording = Recording((channel,), times, values[:, None], 0.1)
    totals = RunningTotals([channel], 0.1)
    for at_ns, value in zip(times.tolist(), values.tolist(), strict=True):
        totals.add(at_ns, [value])
        live = totals.snapshot()
        window = recording.window(0, 0.0, float(at_ns))
        assert window.integral == live.integral[0]
        assert window.known_s >= live.known_s[0] - 1e-9  # standing still, looking back
    assert window.known_s == live.known_s[0]


def test_the_header_is_json_and_the_rest_csv(tmp_path: Path) -> None:
    file = written(tmp_path / "s.csv", rows=1)
    file.close()
    header, names, row = file.path.read_text().splitlines()
    assert json.loads(header[1:])["schema"] == "irene.samples/1"
    assert names == "time_ns,rapl:package-0,wall:power,proc:cpu"
    assert row == "0,0.000000,25,50"
