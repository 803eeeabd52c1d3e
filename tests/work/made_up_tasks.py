"""Tasks that take no time, and some that go wrong: found by the name of this module."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irene.errors import UsageError
from irene.work.bounds import give_way, limit_memory
from irene.work.lock import alone_on
from irene.work.task import report

LOG = "MADE_UP_LOG"
HERE = __name__


def note(words: str) -> None:
    """Add a line to the log, whole whoever else does."""
    handle = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{words}\n".encode())
    os.close(handle)


def noted(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def echo(argument: Mapping[str, Any]) -> bytes:
    """Gives its words back, when a file is there."""
    note(f"begin {argument['words']} {os.getpid()}")
    while not Path(argument.get("until", "/")).exists():
        time.sleep(0.01)
    note(f"end {argument['words']} {os.getpid()}")
    return str(argument["words"]).encode()


def environment(argument: Mapping[str, Any]) -> bytes:
    return json.dumps({**os.environ, "folder": str(Path.cwd())}).encode()


def lets_others_go_first(argument: Mapping[str, Any]) -> bytes:
    give_way(argument["nice"])
    session = Path("/proc/self/autogroup")
    of_session = session.read_text().split()[-1] if session.exists() else None
    return json.dumps([os.nice(0), of_session]).encode()


def hundred_reports(argument: Mapping[str, Any]) -> bytes:
    for step in range(100):
        report(step, 100, f"step {step}")
    return b"x" * argument["length"]


def wait_then_hang(argument: Mapping[str, Any]) -> bytes:
    """Waits for others, for longer than it may run; then it hangs."""
    report(0, 0, "waiting", waits=True)
    while not Path(argument["until"]).exists():
        time.sleep(0.01)
    report(0, 0, "begun")
    time.sleep(600)
    return b""


def hang_with_a_child(argument: Mapping[str, Any]) -> bytes:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    report(0, 0, f"{os.getpid()} {child.pid}")
    time.sleep(600)
    return b""


def write_a_file(argument: Mapping[str, Any]) -> bytes:
    path = Path(argument["path"])
    try:
        path.write_bytes(bytes(1_000_000))
    except OSError as error:
        return f"{error.strerror}".encode()
    return b"written"


def spin(argument: Mapping[str, Any]) -> bytes:
    while True:
        pass


def take_memory(argument: Mapping[str, Any]) -> bytes:
    limit_memory(50_000_000)
    return bytes(bytearray(200_000_000))


def trouble(kind: str) -> None:
    """What some tasks do."""
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hang":
        time.sleep(600)
    if kind == "oom":
        raise MemoryError("of 8 GiB")
    if kind == "cuda-oom":
        raise RuntimeError("CUDA error: out of memory")
    if kind == "refuse":
        raise UsageError("a forward pass needs tokens")
    if kind == "bug":
        raise ZeroDivisionError("by nothing")
    if kind == "endless":
        trouble(kind)
    if kind == "exit":
        os.write(2, b"warming up\nSegmentation of something\n")
        os._exit(3)
    if kind == "loader":  # as glibc ends a process
        os.write(2, b"cannot allocate memory for thread-local data: ABORT\n")
        os._exit(127)


def go_wrong(argument: Mapping[str, Any]) -> bytes:
    trouble(argument["kind"])
    return b"fine"


def hold_device(argument: Mapping[str, Any]) -> bytes:
    """Is alone on a device until a file is there."""
    with alone_on(argument["device"]):
        return echo(argument)
