"""Scripts: a program that knows nothing of us, run in this process and accounted for.

It runs as `python script.py` or `python -m module` would run it: as `__main__`, with
its own `sys.argv` and `sys.path[0]`. Its exceptions are shown as Python shows them, and
what ran before is accounted for all the same.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType, TracebackType

from irene.account.live.session import LiveLedger, Wanted
from irene.errors import IreneError, UsageError

FAILED, STOPPED, TERMINATED = 1, 130, 143


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: a script by its path, or a module, as after `python -m`."""

    name: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    def __post_init__(self) -> None:
        if not self.is_module and not Path(self.name).is_file():
            raise UsageError(f"there is no script {self.name}")


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that has ended, and its ledger or the problem that kept us from it."""

    exit_code: int
    live: LiveLedger
    problem: IreneError | None = None


def run_program(program: Program, wanted: Wanted) -> ProgramRun:
    """Run a program to its end and account for it from its import of PyTorch on."""
    live = LiveLedger(None, wanted)
    with _as_main(program):
        if program.is_module and importlib.util.find_spec(program.name) is None:
            raise UsageError(f"there is no module {program.name}")
        live.start()
        with after_import("torch", live.watch), _terminated_as_exit():
            exit_code = _run(program)
    problem = None
    try:
        live.finish(failed=exit_code != 0)
    except IreneError as error:
        problem = error
    return ProgramRun(exit_code, live, problem)


@contextmanager
def _as_main(program: Program) -> Iterator[None]:
    """`sys` as the program expects it, and as it was afterwards."""
    argv, path, main = sys.argv, sys.path[:], sys.modules["__main__"]
    folder = Path.cwd()
    sys.argv = [program.name, *program.arguments]
    sys.path[0] = (
        str(Path.cwd())
        if program.is_module
        else str(Path(program.name).resolve().parent)
    )
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        sys.modules["__main__"] = main
        os.chdir(folder)  # files that we write are where the user said


@contextmanager
def _terminated_as_exit() -> Iterator[None]:
    """A scheduler that ends a program (SIGTERM) leaves us time for its ledger.

    A handler that the program sets for itself takes the place of ours.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _run(program: Program) -> int:
    """Run until the program and the threads it started have ended; its exit code."""
    before = set(threading.enumerate())
    try:
        if program.is_module:
            runpy.run_module(program.name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program.name, run_name="__main__")
        _join(before)
    except SystemExit as end:
        return _exit_code(end)
    except KeyboardInterrupt as error:
        _show(error)
        return STOPPED
    except BaseException as error:  # noqa: BLE001  it is the program's, not ours
        _show(error)
        return FAILED
    return 0


def _join(before: set[threading.Thread]) -> None:
    """Python does not end while a thread of the program runs."""
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join()


def _exit_code(end: SystemExit) -> int:
    """What a shell sees of `sys.exit(…)`."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    sys.stderr.write(f"{end.code}\n")
    return FAILED


def _show(error: BaseException) -> None:
    """Show an exception as Python does, without the frames that are ours."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    # An error before the first line of the program has no frame of its own.
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _is_ours(trace: TracebackType) -> bool:
    name = trace.tb_frame.f_code.co_filename
    return name == __file__ or name.endswith(("<frozen runpy>", f"{os.sep}runpy.py"))


@contextmanager
def after_import(name: str, then: Callable[[], None]) -> Iterator[None]:
    """Call something once a module is there; at once if it is already.

    A program may choose devices and threads in its environment before it imports
    PyTorch. To import it in the program's place would take that choice away.
    """
    if name in sys.modules:
        then()
        yield
        return
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.leave()


class _Finder(MetaPathFinder):
    """Asks the other finders, and has their loader report the end of its work."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.leave()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader, plain = spec.loader, spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                plain(module)
                self._then()

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
