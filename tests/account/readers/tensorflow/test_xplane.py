from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irene.account.readers.recorded import read_trace
from irene.account.readers.tensorflow.xplane import read_xspace
from irene.errors import FormatError, IreneError, UsageError
from tests.account.readers.tensorflow.xplane_bytes import (
    START_NS,
    MadePlane,
    chunk,
    environment,
    number,
    space,
    varint,
)

RECORDED = Path(__file__).parents[1] / "recorded"
QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
EVENTS = [
    ("a/MatMul:MatMul", 5, 100, {"_p": -3, "share": 0.5, "text": "x", "raw": b"\0\1"}),
    ("a/Add:AddV2", 2**33, 7),
]


def made(**facts: int) -> bytes:
    return space(MadePlane("/host:CPU", {"python": EVENTS}, **facts), environment())


def written(folder: Path, data: bytes, name: str = "t.xplane.pb") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def is_read_or_refused(path: Path) -> bool:
    """Whether a file gives sound events, or an error that names it."""
    try:
        events = read_trace(path).events
    except IreneError as error:
        return path.name in str(error)
    return bool((events.end_ns >= events.start_ns).all())


def test_names_times_and_stats_come_back(tmp_path: Path) -> None:
    found = read_xspace(written(tmp_path, made(base_ns=40)))
    plane = found.planes[0]
    (line,) = plane.lines
    assert (plane.name, line.name) == ("/host:CPU", "python")
    assert [plane.names[key] for key in line.name_id] == [name for name, *_ in EVENTS]
    assert (line.start_ns - START_NS).tolist() == [45, 40 + 2**33]
    assert (line.end_ns - line.start_ns).tolist() == [100, 7]
    assert plane.event_stats(line, 0) == EVENTS[0][3]
    assert plane.event_stats(line, 1) == {}


def test_a_gzipped_file_reads_the_same(tmp_path: Path) -> None:
    packed = written(tmp_path, gzip.compress(made()), "t.xplane.pb.gz")
    line = read_xspace(packed).planes[0].lines[0]
    assert line.start_ns[0] == START_NS + 5


def test_lines_that_count_from_1970_are_left_alone(tmp_path: Path) -> None:
    found = read_xspace(written(tmp_path, made(base_ns=START_NS + 9)))
    assert found.planes[0].lines[0].start_ns[0] == START_NS + 14


def test_a_trace_without_a_begin_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, space(MadePlane("/host:CPU", {"python": EVENTS})))
    assert read_xspace(path).start_ns is None
    (note,) = read_trace(path).events.notes
    assert "does not say when it began" in note


def test_fields_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    event = number(1, 1) + number(2, 3000) + number(3, 2000) + number(5, 1)
    event += chunk(99, b"new") + varint(98 << 3 | 5) + b"1234"
    names = chunk(4, number(1, 1) + chunk(2, number(1, 1) + chunk(2, "a/b:Add")))
    plane = chunk(2, "/host:CPU") + chunk(3, chunk(2, "t") + chunk(4, event)) + names
    line = read_xspace(written(tmp_path, chunk(1, plane))).planes[0].lines[0]
    assert (line.start_ns[0], line.end_ns[0]) == (3, 5)


def test_every_cut_is_noticed_or_ends_between_planes(tmp_path: Path) -> None:
    data = made()
    whole = {0, len(chunk(1, MadePlane("/host:CPU", {"python": EVENTS}).encoded()))}
    for length in range(len(data)):
        path = written(tmp_path, data[:length])
        if length in whole - {0}:
            assert read_xspace(path).start_ns is None
        else:
            with pytest.raises(FormatError, match=r"t\.xplane\.pb"):
                read_xspace(path)


def test_a_length_beyond_the_file_names_the_byte(tmp_path: Path) -> None:
    path = written(tmp_path, chunk(1, chunk(2, "/host:CPU")) + b"\x0a" + varint(2**40))
    with pytest.raises(FormatError, match=r"byte 13: a field ends 1,099,5.* too late"):
        read_xspace(path)


def test_a_number_that_does_not_end_names_the_byte(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="byte 0: a number does not end"):
        read_xspace(written(tmp_path, b"\xff" * 1000))


def test_other_files_are_refused(tmp_path: Path) -> None:
    for data in (b"", b'{"traceEvents": []}', b"\x7fELF", b"PK\x03\x04"):
        with pytest.raises(FormatError):
            read_xspace(written(tmp_path, data))
    with pytest.raises(UsageError, match="cannot read"):
        read_xspace(tmp_path / "none.xplane.pb")


def test_a_cut_gzip_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(made())
    with pytest.raises(FormatError, match="cut off"):
        read_xspace(written(tmp_path, data[: len(data) // 2]))


@QUIET
@given(data=st.binary(max_size=200))
def test_garbage_is_read_or_refused(tmp_path: Path, data: bytes) -> None:
    assert is_read_or_refused(written(tmp_path, data))


@settings(QUIET, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1), name=st.sampled_from(("jax_step", "keras_shared"))
)
def test_damage_is_read_or_refused(tmp_path: Path, seed: int, name: str) -> None:
    data = bytearray(gzip.decompress((RECORDED / f"{name}.xplane.pb.gz").read_bytes()))
    random = np.random.default_rng(seed)
    for at in random.integers(0, len(data), 20).tolist():
        data[at] = int(random.integers(256))
    assert is_read_or_refused(written(tmp_path, bytes(data)))
