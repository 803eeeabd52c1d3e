"""Child: a process for tasks, bounded, which may die without harm to others.

Parent and child talk over a socket that has no name, in JSON and bytes: nothing that is
read can run. The child reads tasks from it, one after the other, and says how far it is
and what became of each. When the parent's end is closed, by whatever, the child ends
itself and all that it has started; a parent that ends a child does the same to it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, Any

from irene.errors import IreneError
from irene.work.task import (
    Fault,
    Outcome,
    Progress,
    Task,
    describe_place,
    find_work,
    listen,
)

PROGRAM = "irene.work.child"
GRACE_S = 3.0
POLL_S = 0.1
START_S = 600.0
"""Even a machine that is very busy has started Python by then, s."""
NO_MEMORY = "cannot allocate memory"
LAST_WORDS = 2000
LONGEST_TEXT = 300


# From outside -----------------------------------------------------------------


class Child:
    """A process that runs tasks, one at a time, and says how far they are in `wait`.

    If it keeps errors, the last line of what it writes to standard error can be told;
    else that goes where that of this process does.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        keeps_errors: bool = True,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._on_progress = on_progress
        self._task: Task
        self._began_s = self._deadline_s = 0.0
        self._clock_stands = True
        self._errors: IO[bytes] | None = None
        if keeps_errors:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  as long as it runs
        self._line, theirs = Pipe()
        with theirs, ExitStack() as opened:
            opened.callback(self._close)
            self.process = subprocess.Popen(
                [sys.executable, "-sP", "-m", PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._errors or 2,  # what the work prints is no answer
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                cwd=folder,
                env={
                    **(os.environ if environment is None else environment),
                    # It finds the same modules as this process.
                    "PYTHONPATH": os.pathsep.join(
                        str(Path(p).absolute()) for p in sys.path
                    ),
                },
                start_new_session=True,  # Ctrl-C is for the parent, who then ends it
            )
            opened.pop_all()

    def begin(self, task: Task) -> None:
        """Have a task run; the one before it has ended."""
        self._task = task
        self._began_s = time.monotonic()
        self._deadline_s = self._began_s + START_S
        self._clock_stands = True
        with suppress(OSError):  # it has died: its exit code tells
            self._line.send_bytes(task.to_json())

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """What became of the task; None if it still runs then; without a time, wait."""
        until_s = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            left_s = min(until_s, self._deadline_s) - time.monotonic()
            if (outcome := self._heard(max(0.0, min(POLL_S, left_s)))) is not None:
                return outcome
            now_s = time.monotonic()
            if now_s >= self._deadline_s:
                self.kill()
                limit_s = self._task.bounds.wall_s or START_S
                return self._outcome("timeout", f"took longer than {limit_s:g} s")
            if now_s >= until_s:
                return None

    def kill(self) -> None:
        """Kill it and what it started; returns at once."""
        with suppress(ProcessLookupError, PermissionError):  # all of it has ended
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self, grace_s: float = GRACE_S) -> None:
        """End it and what it started, by force if it has not cleaned up by then."""
        if self.process.poll() is None and grace_s:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        if not self._line.closed:
            self.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        self._line.close()
        if self._errors is not None:
            self._errors.close()

    def _heard(self, timeout_s: float) -> Outcome | None:
        """Take in one message; what became of the task if that says so, or it died."""
        died = self.process.poll() is not None  # asked first: it may have spoken before
        try:
            if self._line.poll(timeout_s):
                message = json.loads(self._line.recv_bytes())
                if "outcome" in message:
                    return self._read_outcome(message["outcome"])
                self._take_in(Progress(**message["progress"]))
                return None
        except (EOFError, OSError):
            self.kill()  # what is left of it
            died = True
        return self._post_mortem() if died else None

    def _take_in(self, progress: Progress) -> None:
        wall_s = self._task.bounds.wall_s
        if wall_s is None or progress.waits:
            self._deadline_s = float("inf")
        elif self._clock_stands:
            self._deadline_s = time.monotonic() + wall_s
        self._clock_stands = progress.waits
        if progress.text:
            self._on_progress(progress)

    def _read_outcome(self, said: Mapping[str, Any]) -> Outcome:
        if said["fault"]:
            return self._outcome(said["fault"], said["problem"], said["error"])
        most = self._task.bounds.result_bytes
        if most is not None and said["length"] > most:
            words = f"a result of {said['length']:,} bytes is past the limit"
            return self._outcome("refused", words, "LimitError")
        return self._outcome("", payload=self._line.recv_bytes())

    def _post_mortem(self) -> Outcome:
        """What became of a task whose process has died."""
        code = self.process.wait()
        fault: Fault = "crashed" if code >= 0 else "killed"
        cause = f"its process ended with exit code {code}"
        if code < 0:
            name = signal.Signals(-code).name
            cause = f"its process was killed by {name}"
            if name == "SIGKILL":
                cause += ", which the system does when memory runs out"
        if NO_MEMORY in self._last_words():
            # The C library ends a process by itself that has none for a thread.
            fault, cause = "memory", f"out of memory: {cause}"
        if code == -signal.SIGXCPU:
            fault = "timeout"
            cause = f"used more than {self._task.bounds.cpu_s:g} s of CPU time"
        return self._outcome(fault, cause)

    def _last_words(self) -> str:
        """The end of what it wrote to standard error, if that is kept."""
        if self._errors is None:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS))
        return self._errors.read().decode(errors="replace")

    def _outcome(
        self,
        fault: Fault,
        problem: str = "",
        error: str = "",
        payload: bytes | None = None,
    ) -> Outcome:
        return Outcome(
            *(self._task.name, payload, fault, problem, error),
            last_words=self._last_words() if fault else "",
            place=describe_place(),
            duration_s=time.monotonic() - self._began_s,
        )


def run_task(task: Task) -> Outcome:
    """Run a task in a process of its own, and wait for it.

    All engines call this, wherever they are: what is run, and how, is the same.
    """
    child = Child()
    try:
        child.begin(task)
        outcome = child.wait()
    finally:
        child.end(0.0)
    assert outcome is not None
    return outcome


# From inside ------------------------------------------------------------------


def main(handle: int) -> None:
    """Run the tasks that come over a socket, by its number, until there are no more."""
    parent = Connection(handle)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_hear, args=(parent, tasks), daemon=True).start()

    def tell(progress: Progress) -> None:
        fields = {**asdict(progress), "text": progress.text[:LONGEST_TEXT]}
        parent.send_bytes(json.dumps({"progress": fields}).encode())

    listen(tell)
    while True:
        task = Task.from_json(tasks.get())
        tell(Progress(0, 0, ""))  # it begins
        outcome, payload = _run(task)
        parent.send_bytes(json.dumps({"outcome": outcome}).encode())
        if payload is not None:
            parent.send_bytes(payload)


def _hear(parent: Connection, tasks: queue.SimpleQueue[bytes]) -> None:
    """Take in tasks; at the end of the parent, end everything."""
    with suppress(EOFError, OSError):
        while True:
            tasks.put(parent.recv_bytes())
    os.killpg(0, signal.SIGKILL)


def _run(task: Task) -> tuple[dict[str, Any], bytes | None]:
    """What became of a task, for the parent, and what it returned."""
    fault: Fault = "refused"
    try:
        task.bounds.set_here()
        payload = find_work(task.call)(task.argument)
    except IreneError as error:
        words, name = str(error), type(error).__name__
    except Exception as error:  # noqa: BLE001  a model's own code may raise anything
        name = type(error).__name__
        words = f"{name}: {error}".strip()
        if _is_out_of_memory(error):
            fault = "memory"
            kind = type(error) is MemoryError
            words = f"out of memory: {error if kind else words}".rstrip(": ")
        else:
            traceback.print_exc()
    else:
        return {"fault": "", "length": len(payload)}, payload
    return {"fault": fault, "problem": words, "error": name}, None


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory was short, which libraries say in many ways.

    An extension that got none and does not say so is a SystemError.
    """
    if isinstance(error, MemoryError | SystemError):
        return True
    words = f"{type(error).__name__} {error}".lower()
    return any(hint in words for hint in ("alloc", "out of memory", "outofmemory"))


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the parent is gone
        main(int(sys.argv[1]))
