"""Waiting in tests: until something is so, and never for ever."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
LONGEST_S = 300.0
"""What a test or a fixture may take on the busiest machine, s."""


def until(is_so: Callable[[], T | None], what: str, seconds: float = 240.0) -> T:
    """What is found when there is something; else the test fails with these words."""
    ends = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < ends, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)
    return found


def first_line(process: subprocess.Popen[str], seconds: float = 240.0) -> str:
    """The next line that a process writes; "" if it ends or writes none in time."""
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()


@contextmanager
def not_for_ever() -> Iterator[None]:
    """Whatever waits in it is ended after a while, where it waits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"this has taken more than {LONGEST_S:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
