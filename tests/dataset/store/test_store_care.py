"""Killed writers, full disks, damaged files, several writers: nothing is lost."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from irene.dataset import read_data
from irene.dataset.store import Store
from irene.dataset.store.store_files import Manifest
from irene.errors import IreneError, UsageError
from tests.dataset.store.made_up_trees import made_up_tree, origin

ROOT = Path(__file__).resolve().parents[3]
KILLS = 40

ADD = """
import sys
from irene.dataset.store import Store
from tests.dataset.store.made_up_trees import made_up_tree, origin
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = Store.open(path, create=True)
for place in range(first, first + count):
    print(store.add(made_up_tree(scale=1 + place), origin()), flush=True)
"""

# Forked, so that not each of the writers has to import everything first.
KILL = """
import os, random, signal, sys, time
from irene.dataset.store import Store
from tests.dataset.store.made_up_trees import made_up_tree, origin
path, kills = sys.argv[1], int(sys.argv[2])
first = Store.open(f"{path}-first", create=True)
first.add(made_up_tree(), origin())
start = time.perf_counter()
first.add(made_up_tree(scale=2), origin())
add_s = time.perf_counter() - start
chance = random.Random(0)
for turn in range(kills):
    answers, answer = os.pipe()
    writer = os.fork()
    if not writer:
        store = Store.open(path, create=True)
        for place in range(1000):
            name = store.add(made_up_tree(scale=1 + 1000 * turn + place), origin())
            os.write(answer, f"{name}\\n".encode())
    os.close(answer)
    said = os.read(answers, 33) if turn % 2 else b""  # some have added a run before
    time.sleep(chance.uniform(0, 2 * add_s))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    with os.fdopen(answers, "rb") as file:
        print((said + file.read()).decode(), end="", flush=True)
"""

PACK = """
import sys
from irene.dataset.store import Store
print("ready", flush=True)
print(Store.open(sys.argv[1]).pack().entries, flush=True)
"""


def start(program: str, *words: object) -> subprocess.Popen[str]:
    """A process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(process: subprocess.Popen[str], after_s: float) -> None:
    """Kill a process some time after it has started to work."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def assert_whole(path: Path) -> Store:
    """Every entry has its tree, once, and its file is what was written."""
    store = Store.open(path)
    assert store.check() == []
    entries = store.entries()
    assert len({entry.id for entry in entries}) == len(entries)
    trees = list(store.trees())
    assert len(trees) == len(entries)
    assert all(len(tree) == 9 for tree in trees)
    on_disk = {file.name for file in store.files.segments.iterdir()}
    assert on_disk == set(store.manifest.segments)
    assert list(store.files.writing.iterdir()) == []
    return store


def test_killed_at_random_points_of_writing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    said, error = start(KILL, path, KILLS).communicate(timeout=120)
    assert error == ""
    answered = said.split()
    store = assert_whole(path)
    there = {entry.id for entry in store.entries()}
    assert set(answered) <= there
    assert len(set(answered)) == len(answered) >= KILLS // 2
    # At most one finished run per killed process was not answered for.
    assert len(there) - len(answered) <= KILLS


def test_killed_while_packing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    names = {store.add(made_up_tree(scale=1 + n), origin()) for n in range(30)}
    chance = random.Random(1)
    for _ in range(4):
        kill(start(PACK, store.path), chance.uniform(0.1, 0.5))
        assert {entry.id for entry in Store.open(store.path).entries()} == names
    Store.open(store.path).pack()
    whole = assert_whole(store.path)
    assert {entry.id for entry in whole.entries()} == names
    assert len(whole.manifest.segments) == 1


def test_two_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    both = [start(ADD, path, 0, 25), start(ADD, path, 20, 25)]
    said = [process.communicate(timeout=240)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    store = assert_whole(path)
    there = {entry.id for entry in store.entries()}
    assert there == {*said[0], *said[1]}
    assert len(there) == 45
    assert set(said[0]) & set(said[1])


class KilledError(Exception):
    """Stands for a process that ends here."""


@pytest.mark.parametrize("point", ["place", "append"])
def test_what_was_finished_but_not_in_the_manifest_is_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    store = Store.open(tmp_path / "store", create=True)
    store.add(made_up_tree(), origin())
    (first,) = store.entries()
    if point == "append":  # moved to its place, no line yet

        def stop(self: Manifest, lines: object) -> None:
            raise KilledError

        monkeypatch.setattr(Manifest, "append", stop)
        with pytest.raises(KilledError):
            store.add(made_up_tree(scale=2), origin())
    else:  # on disk, not moved yet
        other = Store.open(tmp_path / "other", create=True)
        other.add(made_up_tree(scale=2), origin())
        (segment,) = other.files.segments.iterdir()
        segment.rename(store.files.writing / segment.name)
    monkeypatch.undo()
    again = Store.open(store.path)
    assert len(again.entries()) == 2
    assert first in again.entries()
    assert len(list(again.trees())) == 2
    assert again.check() == []


@pytest.mark.parametrize("cut", [1, 7, 300])
def test_a_line_that_was_cut_off_is_ignored_and_written_over(
    tmp_path: Path, cut: int
) -> None:
    store = Store.open(tmp_path / "store", create=True)
    names = [store.add(made_up_tree(scale=n), origin()) for n in (1, 2)]
    manifest = store.files.manifest
    manifest.write_bytes(manifest.read_bytes()[:-cut])
    reader = Manifest(store.files)
    reader.refresh()
    assert list(reader.entries) == names[:1]
    assert reader.torn_bytes
    # The segment of the lost line is whole: opening takes it in again.
    again = Store.open(store.path)
    assert {entry.id for entry in again.entries()} == set(names)
    names.append(again.add(made_up_tree(scale=3), origin()))
    assert {entry.id for entry in assert_whole(store.path).entries()} == set(names)


def test_a_damaged_line_in_the_middle_is_repaired(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    names = {store.add(made_up_tree(scale=n), origin()) for n in (1, 2, 3)}
    lines = store.files.manifest.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"nodes":9', b'"nodes":8')
    store.files.manifest.write_bytes(b"".join(lines))
    again = Store.open(store.path)
    findings = again.check()
    assert [(one.file, one.done) for one in findings] == [
        ("manifest.jsonl", "repaired")
    ]
    assert {entry.id for entry in again.entries()} == names
    assert {entry.nodes for entry in again.entries()} == {9}
    kept = store.files.quarantine / "manifest.jsonl"
    assert kept.read_bytes().startswith(b"".join(lines))
    assert assert_whole(store.path)


@pytest.mark.parametrize("damage", ["flipped", "short", "missing"])
def test_a_damaged_file_is_set_aside_and_the_rest_stays(
    tmp_path: Path, damage: str
) -> None:
    store = Store.open(tmp_path / "store", create=True)
    names = [store.add(made_up_tree(scale=n), origin()) for n in (1, 2, 3)]
    bad = next(entry for entry in store.entries() if entry.id == names[1])
    path = store.files.segments / bad.segment
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped" else content[:-10])
    (finding,) = Store.open(store.path).check()
    assert (finding.file, finding.done, finding.entries) == (
        bad.segment,
        "quarantined",
        1,
    )
    if damage != "missing":
        aside = store.files.quarantine / bad.segment
        assert aside.exists()
        reason = aside.with_name(f"{bad.segment}.reason.txt").read_text()
        assert finding.problem in reason
    again = assert_whole(store.path)
    assert {entry.id for entry in again.entries()} == {names[0], names[2]}
    assert list(again.manifest.lost) == [names[1]]
    assert not again.has(bad.spec, "elsewhere")
    # Measured again, it is there again.
    assert again.add(made_up_tree(scale=2), origin()) == names[1]
    assert len(assert_whole(store.path).entries()) == 3


def test_a_half_written_file_is_set_aside(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    store.add(made_up_tree(), origin())
    (segment,) = store.files.segments.iterdir()
    half = segment.read_bytes()[:1000]
    (store.files.writing / "half.parquet").write_bytes(half)
    (store.files.segments / "half.parquet").write_bytes(half)
    again = assert_whole(store.path)
    assert len(again.entries()) == 1
    aside = {file.name for file in store.files.quarantine.glob("*.parquet")}
    assert aside == {"half.parquet", "2-half.parquet"}


def test_a_superfluous_copy_saves_a_damaged_segment(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    name = store.add(made_up_tree(), origin())
    (segment,) = store.files.segments.iterdir()
    segment.with_name("copy.parquet").write_bytes(segment.read_bytes())
    segment.write_bytes(segment.read_bytes()[:-9])
    again = assert_whole(store.path)
    assert [entry.id for entry in again.entries()] == [name]
    assert again.entries()[0].segment == "copy.parquet"


def test_readers_follow_entries_to_packed_segments(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    for n in range(5):
        store.add(made_up_tree(scale=1 + n), origin())
    reader = Store.open(store.path)
    trees = reader.trees()
    next(trees)
    assert store.pack().segments_after == 1
    assert len(list(trees)) == 4
    assert len(list(Store.open(store.path).trees())) == 5


def full_disk(path: Path) -> None:
    """A file system of 600 kB of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts file systems")
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "irene-test", str(path)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("no tmpfs can be mounted here")


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    full_disk(disk)
    try:
        store = Store.open(disk / "store", create=True)
        names = [store.add(made_up_tree(scale=1 + n), origin()) for n in range(3)]
        more = (store.add(made_up_tree(scale=10 + n), origin()) for n in range(1000))
        with pytest.raises(IreneError, match=r"No space left.*make room") as caught:
            names.extend(more)
        assert not isinstance(caught.value, UsageError)
        assert len(names) > 3
        assert {e.id for e in Store.open(store.path).entries()} >= set(names)
        assert len(list(Store.open(store.path).trees())) >= len(names)
        assert store.check() == []
        for file in store.files.quarantine.iterdir():
            file.unlink()
        spare = Store.open(tmp_path / "spare", create=True)
        spare.add(made_up_tree(), origin())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_no_room_for_a_line_of_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment is whole: what was measured is taken in when there is room."""
    store = Store.open(tmp_path / "store", create=True)
    store.add(made_up_tree(), origin())
    before = store.files.manifest.read_bytes()
    write = os.write

    def some(handle: int, data: bytes) -> int:
        if len(data) > 100:
            return write(handle, data[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", some)
    with pytest.raises(IreneError, match="No space left"):
        store.add(made_up_tree(scale=2), origin())
    monkeypatch.undo()
    assert store.files.manifest.read_bytes() == before
    assert len(Store.open(store.path).entries()) == 2
    assert len(assert_whole(store.path).entries()) == 2


def test_a_manifest_that_is_gone_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.open(tmp_path / "store", create=True)
    ids = {store.add(made_up_tree(batch_size=n), origin()) for n in (1, 2)}
    store.files.manifest.unlink()
    again = Store.open(store.path)
    assert {entry.id for entry in again.entries()} == ids
    assert "was gone" in caplog.text


def test_a_store_without_store_json_says_what_to_write(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    store.files.about.unlink()
    with pytest.raises(UsageError, match=r"irene data check .* if it is a store"):
        read_data(store.path)
    with pytest.raises(UsageError, match=r'write \{"schema": "irene.store/1"\}'):
        Store.open(store.path)
