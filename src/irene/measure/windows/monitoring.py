"""Monitoring: a whole program under meters, its own output untouched.

The program is started but held before its first step until the sampler, which has a
process of its own, watches it. Its energy is what the machine used from then until it
has ended: what else runs meanwhile counts too.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from irene.errors import IreneError, MeterError, UsageError
from irene.measure.windows.monitored import Monitored
from irene.meters.sampling.recording import Recording, read_recording
from irene.meters.sampling.sampler_process import SamplerProcess
from irene.meters.sampling.totals import Snapshot

PERIOD_S = 0.1
Beside = Callable[[SamplerProcess], AbstractContextManager[object]]
NOT_FOUND, NOT_RUNNABLE, INTERRUPTED = 127, 126, 130
PASSED_ON = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP")
"""Signals that are for the program."""
SILENT_IN_PYTHON = ("SIGPIPE", "SIGXFSZ")
"""Python ignores these; the program must not inherit that."""


class CommandError(IreneError):
    """The program cannot be started; the exit code is the one a shell gives."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class HeldProgram:
    """A program that waits before its first step.

    Attributes:
        pid: Of the program, from the beginning on.
        cpu_s: CPU time of it and those it waited for, s, once it has ended.
    """

    def __init__(self, command: Sequence[str], output_to_errors: bool = False) -> None:
        self.command = tuple(command)
        self.cpu_s = 0.0
        self._code: int | None = None
        wait, self._go = os.pipe()
        self._problem, tell = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Forking with threads is risky for those who go on; this one is replaced.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _become(self.command, wait, self._go, tell, output_to_errors)
        os.close(wait)
        os.close(tell)

    def release(self) -> None:
        """Let it run."""
        with suppress(BrokenPipeError):  # it was interrupted before it began
            os.write(self._go, b"\n")
        os.close(self._go)
        self._go = -1
        told = os.read(self._problem, 64)
        os.close(self._problem)
        self._problem = -1
        if told:
            self.wait()
            raise _cannot_start(self.command[0], int(told))

    def wait(self) -> int:
        """Wait for its end; its exit code, 128 + n for signal n."""
        if self._code is None:
            _, status, used = os.wait4(self.pid, 0)
            self.cpu_s = used.ru_utime + used.ru_stime
            code = os.waitstatus_to_exitcode(status)
            self._code = 128 - code if code < 0 else code
        return self._code

    def send(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def drop(self) -> None:
        """Forget a program that was never released; else just clean up."""
        for end in (self._go, self._problem):
            if end >= 0:
                os.close(end)
        if self._go >= 0:  # it was waiting, and hears that nobody will call
            self._go = self._problem = -1
            self.wait()


class SpawnedProgram:
    """A program that begins when it is released, where none can be held: on Windows.

    What it does until the sampler knows its process is in the energy of the machine,
    but not in its own load.
    """

    pid = None
    cpu_s = math.nan

    def __init__(self, command: Sequence[str], output_to_errors: bool = False) -> None:
        self.command = tuple(command)
        self._output = sys.stderr if output_to_errors else None
        self._process: subprocess.Popen[bytes] | None = None

    def release(self) -> None:
        """Start it."""
        try:
            self._process = subprocess.Popen(self.command, stdout=self._output)
        except OSError as error:
            number = error.errno or errno.ENOEXEC
            raise _cannot_start(self.command[0], number) from error

    def wait(self) -> int:
        """Wait for its end; its exit code, 128 + n for signal n."""
        assert self._process is not None
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def send(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def drop(self) -> None:
        """There is nothing to forget."""


def _become(
    command: Sequence[str], wait: int, go: int, tell: int, output_to_errors: bool
) -> None:
    """In the new process: wait, and turn into the program. Never returns."""
    try:
        os.close(go)
        if os.read(wait, 1):
            for number in _numbers(*SILENT_IN_PYTHON):
                signal.signal(number, signal.SIG_DFL)
            if output_to_errors:
                os.dup2(2, 1)
            os.execvp(command[0], list(command))
    except OSError as error:
        os.write(tell, str(error.errno or errno.ENOEXEC).encode())
    except KeyboardInterrupt:  # before it began
        os._exit(INTERRUPTED)
    finally:
        os._exit(NOT_FOUND)


def _cannot_start(name: str, number: int) -> CommandError:
    if number == errno.ENOENT:
        return CommandError(f"there is no program {name!r}", NOT_FOUND)
    return CommandError(f"cannot run {name!r}: {os.strerror(number)}", NOT_RUNNABLE)


Program = HeldProgram | SpawnedProgram


def monitor(
    command: Sequence[str] = (),
    seconds: float | None = None,
    meters: Sequence[str] = ("auto",),
    period_s: float = PERIOD_S,
    path: Path | None = None,
    output_to_errors: bool = False,
    beside: Beside = nullcontext,
) -> Monitored:
    """Run a program under meters, or watch the machine for some time.

    Args:
        command: The program and its arguments; empty to watch the machine.
        seconds: How long to watch, without a program; Ctrl-C ends it earlier.
        meters: Names of meters.
        period_s: Time between two samples, s.
        path: File to stream the samples to; it stays. None for none.
        output_to_errors: Send the program's standard output to standard error.
        beside: What runs meanwhile, and may ask the sampler: see `exported`.

    Raises:
        CommandError: The program cannot be started.
        MeterError: A meter cannot be opened.
        UsageError: Neither a program nor a time is given, or both.
    """
    if bool(command) == (seconds is not None):
        raise UsageError("give a program to run, or --seconds to watch this machine")
    if not command:
        sampler = SamplerProcess(meters, period_s, path)
        return _watch(float(seconds or 0.0), sampler, beside)
    kind = HeldProgram if hasattr(os, "fork") else SpawnedProgram
    program = kind(command, output_to_errors)
    try:
        sampler = SamplerProcess(meters, period_s, path, program.pid)
        return _run(program, sampler, beside)
    finally:
        program.drop()


def _run(program: Program, sampler: SamplerProcess, beside: Beside) -> Monitored:
    with (
        _passing_on(program.send, program_hears_keyboard=True),
        sampler,
        beside(sampler),
    ):
        begin = _edge(sampler)
        program.release()
        code = program.wait()
        end = _edge(sampler)
    return _result(sampler, begin, end, program.command, code, program.cpu_s)


def _watch(seconds: float, sampler: SamplerProcess, beside: Beside) -> Monitored:
    enough = threading.Event()
    with _passing_on(lambda number: enough.set()), sampler, beside(sampler):
        begin = _edge(sampler)
        enough.wait(seconds if math.isfinite(seconds) else None)
        end = _edge(sampler)
    return _result(sampler, begin, end)


def _edge(sampler: SamplerProcess) -> Snapshot:
    """A sample at this moment; if the sampler has died, just the moment."""
    try:
        return sampler.sample_now()
    except MeterError:
        return Snapshot(time.monotonic_ns(), (), ())


def _result(
    sampler: SamplerProcess,
    begin: Snapshot,
    end: Snapshot,
    command: tuple[str, ...] = (),
    exit_code: int = 0,
    cpu_s: float = math.nan,
) -> Monitored:
    both = begin.integral and end.integral
    return Monitored(
        command,
        exit_code,
        begin.time_ns,
        end.time_ns,
        cpu_s,
        _recorded(sampler),
        dict(sampler.counts),
        tuple(sampler.problems),
        sampler.between(begin, end) if both else (),
    )


def _recorded(sampler: SamplerProcess) -> Recording:
    """All samples; none, and why, where the disk had no room even for the header."""
    try:
        return read_recording(sampler.path)
    except IreneError as error:
        nothing = np.zeros((0, len(sampler.channels)))
        lost = f"no samples over time: {error}"
        times = np.zeros(0, np.int64)
        return Recording(sampler.channels, times, nothing, notes=(lost,))


@contextmanager
def _passing_on(
    send: Callable[[int], object], program_hears_keyboard: bool = False
) -> Iterator[None]:
    """Signals that come meanwhile are for the program, and do not end us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(number: int, _: FrameType | None) -> None:
        from_keyboard = number in _numbers("SIGINT", "SIGQUIT")
        if not (program_hears_keyboard and from_keyboard and _has_keyboard()):
            send(number)

    before: dict[int, Any] = {}
    try:
        for number in _numbers(*PASSED_ON):
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                before[number] = signal.signal(number, heard)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _numbers(*names: str) -> list[int]:
    """Signals of these names that there are here."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _has_keyboard() -> bool:
    """Whether a terminal sends its Ctrl-C to the program as well as to us."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
