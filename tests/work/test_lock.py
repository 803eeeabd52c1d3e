"""One at a time, between processes, whatever becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from irene.errors import UsageError
from irene.work import lock
from irene.work.bounds import Bounds
from irene.work.child import Child
from irene.work.lock import alone_on, take
from irene.work.task import Progress, Task

from .made_up_tasks import HERE, noted

NEVER = "/no/such/file"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of these tests are not those of the machine."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@contextmanager
def holding(words: str, heard: list[Progress], **argument: Any) -> Iterator[Child]:
    """A process that is, or waits to be, alone on a device."""
    child = Child(on_progress=heard.append)
    given = {"words": words, "device": "test", "until": NEVER, **argument}
    try:
        child.begin(Task(words, f"{HERE}:hold_device", given, Bounds(wall_s=300)))
        yield child
    finally:
        child.end(0.0)


def begun(log: Path) -> list[str]:
    return [line.split()[1] for line in noted(log) if line.startswith("begin")]


def test_a_killed_process_leaves_a_device_to_who_waits_and_says_for_whom(
    log: Path,
) -> None:
    first_heard: list[Progress] = []
    heard: list[Progress] = []
    with holding("first", first_heard) as first:
        while begun(log) != ["first"]:
            assert first.wait(0.01) is None
        with holding("second", heard, until="/") as second:
            while not heard:
                assert second.wait(0.01) is None
            assert heard[0].waits
            assert f"process {first.process.pid} of" in heard[0].text
            assert "measures on test" in heard[0].text
            assert begun(log) == ["first"]
            first.kill()
            outcome = second.wait()
    assert outcome is not None
    assert outcome.payload == b"second"
    assert not first_heard


def test_who_is_alone_may_ask_again() -> None:
    with alone_on("cpu"), alone_on("cpu"):
        pass
    with alone_on("cpu"):
        pass


@pytest.mark.parametrize(
    ("visible", "device", "same"),
    [
        ("", "cuda:1", "cuda-1"),
        ("2,3", "cuda:1", "cuda-3"),
        ("3", "cuda:0", "cuda-3"),
        ("2,3", "cpu", "cpu"),
        ("2,3", "mps:0", "mps-0"),
    ],
)
def test_a_device_is_known_by_its_number_in_the_machine(
    visible: str, device: str, same: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert lock._machine_name(device) == same


def test_locks_of_a_device_are_for_all_users(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with alone_on("cpu"):
            pass
    finally:
        os.umask(before)
    folder = tmp_path / "irene-locks"
    assert folder.stat().st_mode & 0o777 == 0o777
    assert (folder / "cpu.lock").stat().st_mode & 0o666 == 0o666


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("mode", [0o666, 0o600])
def test_another_user_waits_too_or_is_told(tmp_path: Path, mode: int) -> None:
    """Where the owner of a lock has closed it to others, that is said in words."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o1777)  # as a folder for temporary files is
    source = Path(lock.__file__).parents[2]
    code = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(source)!r})\n"
        "from irene.errors import UsageError\n"
        "from irene.work import lock\n"
        "lock.PATIENCE_S = 0.01\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "lock.report = lambda *words, **more: sys.exit(words[2])\n"
        "try:\n"
        "    with lock.alone_on('cpu'): sys.exit('alone')\n"
        "except UsageError as error: sys.exit(str(error))\n"
    )
    with alone_on("cpu"):
        (tmp_path / "irene-locks" / "cpu.lock").chmod(mode)
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
    assert "Traceback" not in done.stderr
    words = "measures on cpu" if mode == 0o666 else "belongs to another user"
    assert words in done.stderr


def test_a_lock_of_a_file_is_taken_once(tmp_path: Path) -> None:
    held = take(tmp_path / "made" / "lock")
    assert held is not None
    assert take(tmp_path / "made" / "lock") is None
    held.release()
    again = take(tmp_path / "made" / "lock", wait=True)
    assert again is not None
    again.release()


def test_a_link_and_a_folder_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").touch()
    for path in (tmp_path / "link", tmp_path / "file" / "lock"):
        with pytest.raises(UsageError, match="cannot lock"):
            take(path)
    assert not (tmp_path / "elsewhere").exists()
