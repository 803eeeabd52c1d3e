"""One run of Keras under TensorFlow's profiler and the meters."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.account.align.attribution import Split, attribute
from irene.account.ledger.ledger import Ledger
from irene.account.live.steps import Schedule
from irene.account.readers.formats import read_events
from irene.account.readers.recorded_power import PROCESS_CPU, power_of_recording
from irene.errors import FormatError, UsageError
from irene.meters.sampling.recording import read_recording
from irene.meters.sampling.sampler_process import open_sampler

if TYPE_CHECKING:
    from irene.meters.channel import Meter

__all__ = ["KerasRun"]

HOST_LEVEL, DEVICE_LEVEL, PYTHON_LEVEL = 2, 1, 0
"""What the profiler records: ops, kernels, and nothing of Python."""


class KerasRun:
    """One `fit`, `evaluate` or `predict`; the meters run from the start.

    Args:
        kind: `train`, `test` or `predict`.
        schedule: Which steps to record.
        meters: Names of meters, or open ones.
        period_s: Period of the power samples, s.
        folder: Where samples and trace are kept; None for nowhere.

    Attributes:
        kind: Which it is.
    """

    def __init__(
        self,
        kind: str,
        schedule: Schedule,
        meters: Sequence[str] | Sequence[Meter],
        period_s: float,
        folder: Path | None,
    ) -> None:
        self.kind = kind
        self._schedule = schedule
        self._scratch = tempfile.TemporaryDirectory(prefix="irene-")
        self._folder = folder or Path(self._scratch.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._profile = _Profile()
        self._done = 0
        self._window_ns = (0, 0)
        self._mark: Any = None
        try:
            samples = self._folder / "samples.csv"
            self._sampler = open_sampler(meters, period_s, samples, os.getpid()).start()
        except BaseException:
            self._scratch.cleanup()
            raise

    def step_begins(self) -> None:
        """Record this step, if it is one to record."""
        state = self._schedule.state(self._done)
        if state not in ("warmup", "record"):
            return
        self._profile.run_to(self._folder / state)
        if state == "record":
            self._mark = self._profile.mark(self.kind, self._done)
            begin_ns = self._window_ns[0] or time.time_ns()
            self._window_ns = (begin_ns, 0)
            self._mark.__enter__()

    def step_ends(self) -> None:
        """Count the step, and stop the profiler after the last one."""
        if self._mark is not None:
            self._profile.wait_for_devices()
            self._mark.__exit__(None, None, None)
            self._mark = None
            self._window_ns = (self._window_ns[0], time.time_ns())
        self._done += 1
        if self._schedule.state(self._done) == "over":
            self._profile.stop()

    def ledger(self, split: Split, idle_w: float | None) -> Ledger:
        """Stop everything and make the ledger.

        Raises:
            UsageError: No step was recorded, or there is no power.
        """
        try:
            self._profile.stop()
            self._sampler.stop()
            if not self._window_ns[1]:
                raise UsageError(
                    f"nothing was recorded: {self._done} steps are over, and recording "
                    f"begins after {self._schedule.skip} skipped and "
                    f"{self._schedule.warmup} to warm up"
                )
            recording = read_recording(self._folder / "samples.csv")
            names = {channel.name for channel in recording.channels}
            cpus = os.cpu_count() if PROCESS_CPU in names else None
            notes = (f"power: {note}" for note in recording.notes)
            return attribute(
                read_events(_trace_in(self._folder / "record")).noted(*notes),
                power_of_recording(recording, idle_w, cpus=cpus),
                split=split,
                window_ns=self._window_ns,
            )
        finally:
            self.close()

    def close(self) -> None:
        """Stop everything; twice is fine."""
        self._profile.stop()
        self._sampler.stop()
        self._scratch.cleanup()


class _Profile:
    """TensorFlow's profiler, of which there is one in a process."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def run_to(self, folder: Path) -> None:
        """Record into a folder, unless that is being done."""
        if self._folder == folder:
            return
        self.stop()
        profiler = _profiler()
        options = profiler.ProfilerOptions(
            host_tracer_level=HOST_LEVEL,
            python_tracer_level=PYTHON_LEVEL,
            device_tracer_level=DEVICE_LEVEL,
        )
        try:
            profiler.start(str(folder), options=options)
        except Exception as error:  # TensorFlow's own tree of errors
            if type(error).__name__ != "AlreadyExistsError":
                raise
            raise UsageError(
                "TensorFlow's profiler is running already (TensorBoard's callback "
                "starts it: give that profile_batch=0)"
            ) from error
        self._folder = folder

    def stop(self) -> None:
        """Write what was recorded; twice is fine."""
        if self._folder is not None:
            self._folder = None
            _profiler().stop()

    def mark(self, kind: str, number: int) -> Any:
        """A mark around a step."""
        return _profiler().Trace(kind, step_num=number, _r=1)

    def wait_for_devices(self) -> None:
        """Let GPUs end what they were given."""
        tf: Any = import_module("tensorflow")
        if tf.config.list_logical_devices("GPU"):
            tf.test.experimental.sync_devices()


def _trace_in(folder: Path) -> Path:
    """The trace that the profiler wrote."""
    found = sorted(folder.rglob("*.xplane.pb"))
    if not found:
        raise FormatError(f"TensorFlow's profiler wrote no trace into {folder}")
    return found[-1]


def _profiler() -> Any:
    return import_module("tensorflow").profiler.experimental
