"""SamplerProcess: the same as Sampler, with the sampling in a process of its own.

A busy program does not hold it up. `python -m irene.meters.sampling.sampler_process`
samples until its standard input ends, so it does not outlive its parent. A line on
standard input asks for a sample at once; the answer is one line of JSON with the
totals. It needs neither numpy nor torch, and imports what only the parent needs late.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from irene.errors import IreneError, MeterError, UsageError
from irene.meters.channel import Channel, Meter
from irene.meters.finding import open_meters, resolved
from irene.meters.sampling.sampler import Sampler, Streaming
from irene.meters.sampling.totals import RunningTotals, Snapshot, Window

if TYPE_CHECKING:
    import subprocess

PATIENCE_S = 10.0


def open_sampler(
    meters: Sequence[str] | Sequence[Meter],
    period_s: float,
    path: Path | None = None,
    pid: int | None = None,
    no_finer: bool = False,
) -> Sampler | SamplerProcess:
    """A sampler, not started: a process of its own for names, a thread for open meters.

    `pid` is the process whose load is watched; open meters know their own. With
    `no_finer` it samples no oftener than named meters have something new.
    """
    names = [meter for meter in meters if isinstance(meter, str)]
    opened = [meter for meter in meters if not isinstance(meter, str)]
    if bool(names) == bool(opened):
        raise UsageError("meters are either all names or all open meters, at least one")
    if names:
        return SamplerProcess(names, period_s, path, pid, no_finer)
    return Sampler(opened, period_s, path)


class SamplerProcess(Streaming):
    """Samples meters, given by name, in another process, from `start` to `stop`."""

    def __init__(
        self,
        meters: Sequence[str] = ("auto",),
        period_s: float = 0.05,
        path: Path | None = None,
        pid: int | None = None,
        no_finer: bool = False,
    ) -> None:
        super().__init__(path)
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
        import subprocess

        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        try:
            first = self._hear()
            if "error" in first:
                raise MeterError(str(first["error"]))
        except BaseException:
            self._end()
            raise
        channels = [Channel(**fields) for fields in first["channels"]]
        self._totals = RunningTotals(channels, first["period_s"])
        return self

    def _command(self) -> list[str]:
        # The best meters are looked for here, so that the small process has to import
        # nothing of those it does not use.
        try:
            names = resolved(self._meters)
        except IreneError as error:
            raise MeterError(str(error)) from error
        return [
            *(sys.executable, "-m", "irene.meters.sampling.sampler_process"),
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

    def _hear(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise MeterError(self._death())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _death(self) -> str:
        return f"the sampler has died; what it had sampled is in {self.path}"

    def _end(self) -> None:
        import subprocess

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


# In the process of its own --------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample until standard input ends."""
    parser = argparse.ArgumentParser(prog="irene.meters.sampling.sampler_process")
    parser.add_argument("--meter", action="append", default=[], dest="meters")
    parser.add_argument("--period-s", type=float, required=True)
    parser.add_argument("--no-finer", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pid", type=int, default=None)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    try:
        sampler = _open(options).start()
    except IreneError as error:
        _answer({"error": str(error)})
        return error.exit_code
    gc.disable()  # nothing here is made of cycles
    channels = [asdict(channel) for channel in sampler.channels]
    _answer({"channels": channels, "period_s": sampler.period_s})
    while words := os.read(sys.stdin.fileno(), 64):
        for _ in range(words.count(b"\n")):
            _answer(asdict(sampler.sample_now()))
    sampler.stop()
    _answer({**sampler.counts, "problems": sampler.problems})
    return 0


def _open(options: argparse.Namespace) -> Sampler:
    meters = open_meters(options.meters or ["auto"], pid=options.pid)
    period_s = options.period_s
    if options.no_finer:
        counted = [c for meter in meters for c in meter.channels if c.in_total]
        steps = [c.resolution_s for c in counted if c.resolution_s > 0]
        period_s = max(period_s, min(steps, default=0.0))
    return Sampler(meters, period_s, options.out)


def _answer(document: dict[str, object]) -> None:
    try:
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the parent is gone; standard input ends too
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


if __name__ == "__main__":
    sys.exit(main())
