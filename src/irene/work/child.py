"""Child: one task in a process of its own, which may die without harm to others.

The child reads its task from standard input and answers on what was its standard
output, a file without a name: whoever is killed, nothing is left behind. Standard input
stays open as long as the parent lives; a child that finds it closed ends itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import IO

from irene.errors import IreneError
from irene.work.place import describe_place
from irene.work.task import Fault, Outcome, Task, find_work

__all__ = ["Child", "main", "run_task"]

OK, REFUSED = b"+", b"-"
ORPHANED = 75
GRACE_S = 3.0
POLL_S = 0.02
LAST_WORDS = 2000


class Child:
    """A task that is being run in a process of its own.

    Args:
        task: What to run.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._began_s = time.monotonic()
        self._ended = False
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  as long as it
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  runs
        self._process = subprocess.Popen(
            [sys.executable, "-m", "irene.work.child"],
            stdin=subprocess.PIPE,
            stdout=self._answer,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the parent, who then ends it
        )
        self._tell()

    def _tell(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once: its exit code tells
            self._process.stdin.write(self.task.to_json())
            self._process.stdin.flush()

    def poll(self) -> Outcome | None:
        """What became of it; None while it runs."""
        code = self._process.poll()
        timeout_s = self.task.timeout_s
        if code is None:
            if timeout_s is None or self._lasted_s < timeout_s:
                return None
            self.end(0.0)
            return self._outcome("timeout", f"took longer than {timeout_s:g} s")
        return self._judge(code)

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """What became of it; None if it still runs after this long.

        Args:
            timeout_s: How long to wait, s; None for as long as it takes.
        """
        until_s = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            outcome = self.poll()
            if outcome is not None or time.monotonic() >= until_s:
                return outcome
            try:
                self._process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue

    def end(self, grace_s: float = GRACE_S) -> None:
        """End it and what it started, by force after a while.

        Args:
            grace_s: How long it may take to clean up, s.
        """
        if self._ended:
            return
        self._ended = True
        if self._process.poll() is None and grace_s:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        with suppress(ProcessLookupError, PermissionError):  # all of it has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    @property
    def _lasted_s(self) -> float:
        return time.monotonic() - self._began_s

    def _judge(self, code: int) -> Outcome:
        self._answer.seek(0)
        said = self._answer.read()
        if code == 0 and said.startswith(OK):
            outcome = self._outcome("", "", said[1:])
        elif code == 0 and said.startswith(REFUSED):
            outcome = self._outcome("refused", said[1:].decode(errors="replace"))
        else:
            outcome = self._outcome("crashed", _cause(code, self._last_words()))
        self.end(0.0)
        return outcome

    def _last_words(self) -> str:
        """The last line that it wrote to standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def _outcome(
        self, fault: Fault, problem: str, payload: bytes | None = None
    ) -> Outcome:
        return Outcome(
            *(self.task.name, payload, fault, problem),
            place=describe_place(),
            duration_s=self._lasted_s,
        )

    def _close(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._answer.close()
        self._errors.close()


def _cause(code: int, last_words: str) -> str:
    """An exit code in words."""
    if code >= 0:
        cause = f"its process ended with exit code {code}"
    else:
        name = signal.Signals(-code).name
        cause = f"its process was killed by {name}"
        if name == "SIGKILL":
            cause += ", which the system does when memory runs out"
    return f"{cause}: {last_words}" if last_words else cause


def run_task(task: Task) -> Outcome:
    """Run a task in a process of its own, and wait for it.

    All engines call this, wherever they are: what is run, and how, is the same.

    Args:
        task: What to run.
    """
    child = Child(task)
    try:
        outcome = child.wait()
    finally:
        child.end(0.0)
    assert outcome is not None
    return outcome


def main() -> int:
    """Run the task on standard input; the answer goes to standard output."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the work prints is no answer
    task = Task.from_json(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with answer:
        answer.write(_answer(task))
    return 0


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(ORPHANED)


def _answer(task: Task) -> bytes:
    try:
        return OK + find_work(task.call)(task.argument)
    except IreneError as error:
        return REFUSED + str(error).encode()
    except MemoryError as error:
        return REFUSED + f"out of memory: {error}".rstrip(": ").encode()
    except Exception as error:  # noqa: BLE001  a model's own code may raise anything
        words = f"{type(error).__name__}: {error}".strip()
        if "out of memory" in words.lower() or "OutOfMemory" in words:
            words = f"out of memory: {words}"
        return REFUSED + words.encode()


if __name__ == "__main__":
    sys.exit(main())
