"""Finished nodes on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from irene.errors import UsageError
from irene.measure.alone.journal import Journal, journal_path
from irene.measure.alone.rounds import NodeResult

from .test_isolation import CLEAN

HEADER = {"spec": {"model": "m"}, "protocol": {"rounds": 2}}


def result(key: str, **changes) -> NodeResult:
    return NodeResult(key, f"node {key}", (CLEAN, CLEAN), 2, **changes)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "journal.jsonl"
    with Journal(path, HEADER) as journal:
        journal.append(result("a"))
        journal.append(result("b", problem=""))
    return path


def keys(path: Path, **options) -> list[str]:
    with Journal(path, HEADER, **options) as journal:
        return list(journal.results)


def test_what_was_finished_is_there_again(file):
    with Journal(file, HEADER) as journal:
        assert str(journal.results["a"]) == str(result("a"))
    assert keys(file) == ["a", "b"]


def test_fresh_forgets(file):
    assert keys(file, fresh=True) == []
    assert keys(file) == []


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_line_that_was_cut_off_is_ignored_and_written_over(file, cut):
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    with Journal(file, HEADER) as journal:
        assert list(journal.results) == ["a"]
        journal.append(result("b"))
    assert file.read_bytes() == whole


@pytest.mark.parametrize("left", [0, 20])
def test_a_journal_without_a_whole_line_starts_over(file, left):
    file.write_bytes(file.read_bytes()[:left])
    assert keys(file) == []


def test_a_node_whose_meter_was_lost_is_run_again(file):
    from dataclasses import replace

    lost = replace(CLEAN, energy_j=float("nan"))
    with Journal(file, HEADER) as journal:
        journal.append(NodeResult("c", "c", (lost,), 1))
        journal.append(NodeResult("d", "d", problem="fails"))
    assert keys(file) == ["a", "b", "d"]


def test_the_journal_of_another_run_is_refused(file):
    other = Journal(file, {**HEADER, "protocol": {"rounds": 3}})
    with pytest.raises(UsageError, match="another run, machine or protocol"):
        other.__enter__()
    assert keys(file) == ["a", "b"]


def test_two_runs_do_not_write_into_one_journal(file):
    pytest.importorskip("fcntl")
    with (
        Journal(file, HEADER),
        pytest.raises(UsageError, match="in use"),
        Journal(file, HEADER),
    ):
        pass


def test_a_file_that_cannot_be_written_is_a_clear_error(tmp_path):
    with (
        pytest.raises(UsageError, match="cannot write"),
        Journal(tmp_path, HEADER),
    ):
        pass


def test_the_name_depends_on_run_machine_and_protocol(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = journal_path(HEADER, "0123")
    assert path.parent == tmp_path / "irene" / "measure"
    assert path == journal_path(dict(HEADER), "0123")
    assert path != journal_path({**HEADER, "machine": "x"}, "0123")


DISK_FULL = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from irene.errors import IreneError
from irene.measure.alone.journal import Journal
from irene.measure.alone.rounds import NodeResult

path = Path(sys.argv[1])
with Journal(path, {"spec": {}}) as journal:
    journal.append(NodeResult("a", "a", problem="x"))
    size = path.stat().st_size
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, size + 20))
    try:
        journal.append(NodeResult("b", "b", problem="y"))
    except IreneError as error:
        print(error)
print(path.stat().st_size == size)
"""


def test_a_full_disk_is_told_and_leaves_what_was_written(tmp_path):
    pytest.importorskip("resource")
    path = tmp_path / "journal.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(path), ""],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    message, is_as_before = done.stdout.splitlines()
    assert "cannot write" in message
    assert "the 1 measurements in it are kept" in message
    assert is_as_before == "True"
    with Journal(path, {"spec": {}}) as journal:
        assert list(journal.results) == ["a"]
