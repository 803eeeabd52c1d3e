"""SamplerProcess: the same as Sampler, with the sampling in a process of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from irene.errors import IreneError, MeterError, UsageError
from irene.meters.channel import Channel, Meter
from irene.meters.finding import resolved
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.totals import RunningTotals, Snapshot, Window

__all__ = ["SamplerProcess", "open_sampler"]

PATIENCE_S = 10.0


def open_sampler(
    meters: Sequence[str] | Sequence[Meter],
    period_s: float,
    path: Path | None = None,
    pid: int | None = None,
    no_finer: bool = False,
) -> Sampler | SamplerProcess:
    """A sampler, not started: a process of its own for names, a thread for open meters.

    Args:
        meters: Names of meters, or open ones.
        period_s: Period of the samples, s.
        path: File the samples are streamed to.
        pid: Process whose load is watched; open meters know their own.
        no_finer: Sample no oftener than named meters have something new.

    Raises:
        UsageError: There are none, or names and open ones are mixed.
    """
    names = [meter for meter in meters if isinstance(meter, str)]
    opened = [meter for meter in meters if not isinstance(meter, str)]
    if bool(names) == bool(opened):
        raise UsageError("meters are either all names or all open meters, at least one")
    if names:
        return SamplerProcess(names, period_s, path, pid, no_finer)
    return Sampler(opened, period_s, path)


class SamplerProcess:
    """Samples meters, given by name, in another process, from `start` to `stop`.

    Args:
        meters: Names of meters; see `irene.meters.finding`.
        period_s: Period of the samples, s.
        path: File the samples are streamed to.
        pid: Process whose load is watched.
        no_finer: Sample no oftener than the finest counted sensor has something new.

    Attributes:
        path: The file the samples are streamed to; without one given, a temporary one
            that is gone after `stop`.
        counts: Samples taken, begun late and missed, once it has stopped.
        problems: What went wrong, in words.
    """

    def __init__(
        self,
        meters: Sequence[str] = ("auto",),
        period_s: float = 0.05,
        path: Path | None = None,
        pid: int | None = None,
        no_finer: bool = False,
    ) -> None:
        self._folder = None if path else tempfile.TemporaryDirectory(prefix="irene-")
        self.path = path or Path(self._folder.name, "samples.csv")  # type: ignore[union-attr]
        self.counts: dict[str, int] = {}
        self.problems: tuple[str, ...] = ()
        self._meters, self._period_s, self._pid = tuple(meters), period_s, pid
        self._no_finer = no_finer
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._totals: RunningTotals | None = None

    def start(self) -> Self:
        """Begin.

        Raises:
            MeterError: No meter could be opened, or the process did not come up.
        """
        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        try:
            first = self._hear()
        except BaseException:
            self._end()
            self._forget_folder()
            raise
        if "error" in first:
            self._end()
            self._forget_folder()
            raise MeterError(str(first["error"]))
        channels = [Channel(**fields) for fields in first["channels"]]
        self._totals = RunningTotals(channels, first["period_s"])
        return self

    def _command(self) -> list[str]:
        # The best meters are looked for here, so that the small process has to import
        # nothing of those it does not use.
        try:
            names = resolved(self._meters)
        except IreneError as error:
            self._forget_folder()
            raise MeterError(str(error)) from error
        return [
            *(sys.executable, "-m", "irene.meters.sampling.sampling_process"),
            *("--period-s", str(self._period_s), "--out", str(self.path)),
            *(word for name in names for word in ("--meter", name)),
            *(("--pid", str(self._pid)) if self._pid is not None else ()),
            *(("--no-finer",) if self._no_finer else ()),
        ]

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Channels of all meters."""
        return self._totals.channels if self._totals else ()

    def sample_now(self) -> Snapshot:
        """Have a sample taken at this moment and return the totals."""
        with self._lock:
            if self._process is None or self._process.stdin is None:
                raise MeterError("the sampler is not running")
            try:
                self._process.stdin.write("\n")
                self._process.stdin.flush()
            except OSError as error:
                raise MeterError(self._death()) from error
            answer = self._hear()
        return Snapshot(
            answer["time_ns"], tuple(answer["integral"]), tuple(answer["known_s"])
        )

    def between(self, begin: Snapshot, end: Snapshot) -> tuple[Window, ...]:
        """What every channel gave from one snapshot to a later one."""
        return self._totals.between(begin, end) if self._totals else ()

    def stop(self) -> None:
        """Have the last sample taken and everything closed; twice is fine."""
        with self._lock:
            if self._process is None or self._process.stdin is None:
                return
            try:
                self._process.stdin.close()
                last = self._hear()
                self.problems = tuple(last.pop("problems"))
                self.counts = last
            except MeterError as error:
                self.problems = (*self.problems, str(error))
            except OSError:  # it died with a question still in the pipe
                self.problems = (*self.problems, self._death())
            self._end()
        self._forget_folder()

    def _forget_folder(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _hear(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise MeterError(self._death())
        answer: dict[str, Any] = json.loads(
            line, parse_constant=lambda word: math.nan if word == "NaN" else math.inf
        )
        return answer

    def _death(self) -> str:
        return f"the sampler has died; what it had sampled is in {self.path}"

    def _end(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        self._process = None

    def __enter__(self) -> Self:
        """Begin."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, whatever happened."""
        self.stop()
