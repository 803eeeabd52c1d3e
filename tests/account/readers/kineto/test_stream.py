from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from irene.account.readers.kineto import stream
from irene.account.readers.kineto.stream import TraceFile
from irene.errors import FormatError, UsageError
from tests.account.readers.kineto.small_traces import today


def read(path: Path) -> tuple[list[dict], TraceFile]:
    file = TraceFile(path)
    return list(file.events()), file


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_events_and_metadata_come_through(
    tmp_path: Path, indent: int | None, packed: bool
) -> None:
    path = tmp_path / "trace.json"  # what it is is told by its content, not its name
    text = json.dumps(today(), indent=indent).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    events, file = read(path)
    assert events == today()["traceEvents"]
    assert file.metadata["baseTimeNanoseconds"] == today()["baseTimeNanoseconds"]
    assert file.cut_at is None


def test_a_bare_list_of_events_is_a_trace_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(today()["traceEvents"]))
    assert read(path)[0] == today()["traceEvents"]


def test_events_across_the_edge_of_a_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(today(), ensure_ascii=False) + "\n")
    for size in (1, 7, 64):
        monkeypatch.setattr(stream, "CHUNK", size)
        events, file = read(path)
        assert events == today()["traceEvents"]
        # A number that is split must not be taken for a shorter one.
        assert file.metadata["baseTimeNanoseconds"] == 1_700_000_000_000_000_000


def test_a_file_cut_anywhere_gives_all_whole_events_and_the_place(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace.json"
    text = json.dumps(today())
    whole = today()["traceEvents"]
    first = text.index("[") + 1
    for cut in range(first, len(text) - 1, 37):
        path.write_text(text[:cut])
        events, file = read(path)
        assert events == whole[: len(events)]
        assert file.cut_at is not None
        assert file.cut_at <= cut
        assert file.cut_why
        remaining = text[file.cut_at : cut]
        assert not remaining.lstrip(", ").startswith("{") or remaining.count("{") >= 1


def test_a_compressed_file_that_was_cut_gives_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    document = {"traceEvents": today()["traceEvents"] * 200}
    data = gzip.compress(json.dumps(document).encode())
    path.write_bytes(data[: len(data) // 2])
    events, file = read(path)
    assert 0 < len(events) < len(document["traceEvents"])
    assert events == document["traceEvents"][: len(events)]
    assert file.cut_at is not None


def test_a_file_that_is_broken_in_the_middle_is_refused_with_the_byte(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace.json"
    text = json.dumps({"traceEvents": today()["traceEvents"] * 10})
    place = text.index('"aten::mse_loss"')
    path.write_text(text[:place] + "}}" + text[place:])
    with pytest.raises(FormatError, match=r"at byte [\d,]+"):
        read(path)


@pytest.mark.parametrize("text", ["hello", "<xml/>", "42"])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(FormatError, match="is not a trace"):
        read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        TraceFile(tmp_path / "none.json")
