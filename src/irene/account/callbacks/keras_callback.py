"""A Keras callback that accounts for training, evaluation or prediction.

    energy = EnergyCallback(skip=10, steps=20)
    model.fit(x, y, callbacks=[energy])
    for row in energy.ledger.by_module(): …

TensorFlow is imported when one is made, not before. Its profiler and the meters run
side by side.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partialmethod
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from irene.account.align.attribution import Split
from irene.account.ledger.ledger import Ledger
from irene.account.live.ranks import KeptEvents, Rank
from irene.account.live.sampling import Sampling
from irene.account.live.session import Wanted
from irene.account.live.steps import Schedule
from irene.account.readers.recorded import read_trace
from irene.errors import FormatError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from irene.meters.channel import Meter

HOST_LEVEL, DEVICE_LEVEL, PYTHON_LEVEL = 2, 1, 0
"""What the profiler records: ops, kernels, and nothing of Python."""


class EnergyCallback:
    """Records some steps of `fit`, `evaluate` or `predict` and makes their ledger.

    It becomes a `keras.callbacks.Callback` when it is made.

    Args:
        meters: Names of meters as in `irene doctor`, or open ones.
        period_s: Period of the power samples, s.
        skip: Steps at the start that are not recorded; the first ones build the graph.
        warmup: Steps after these that are recorded and thrown away.
        steps: Steps to record; None for all that follow. A trace grows by about 100 kB
            for every step of a small model.
        split: How ops that run at once share.
        idle_w: Power of the machine while nothing runs, W, if known.
        folder: Where samples and trace are kept; None for nowhere.

    Attributes:
        ledger: The ledger, once the run is over; None before.

    Raises:
        MissingExtraError: TensorFlow or Keras is not installed.
        UsageError: Keras runs on another backend, or the schedule records nothing.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make one that is a callback of the Keras that is installed."""
        base = _callback_class()
        kind = type(cls.__name__, (cls, base), {"__doc__": cls.__doc__})
        made: Self = object.__new__(kind)
        return made

    def __init__(
        self,
        *,
        meters: Sequence[str] | Sequence[Meter] = ("auto",),
        period_s: float = 0.01,
        skip: int = 2,
        warmup: int = 1,
        steps: int | None = 10,
        split: Split = "equal",
        idle_w: float | None = None,
        folder: str | Path | None = None,
    ) -> None:
        super().__init__()
        self.ledger: Ledger | None = None
        self._wanted = Wanted(
            meters=meters,
            period_s=period_s,
            schedule=Schedule(skip, warmup, steps),
            split=split,
            idle_w=idle_w,
            folder=None if folder is None else Path(folder),
        )
        self._run: _KerasRun | None = None

    def close(self) -> None:
        """Stop meters and profiler without a ledger; for a run that failed."""
        if self._run is not None:
            run, self._run = self._run, None
            run.close()

    # What Keras calls ---------------------------------------------------------------

    def _begin(self, kind: str, logs: Any = None) -> None:
        if self._run is not None and self._run.kind != kind:
            return  # validation inside training
        self.close()  # of a run that failed
        self._run = _KerasRun(kind, self._wanted)

    def _step_begins(self, kind: str, batch: int, logs: Any = None) -> None:
        if self._run is not None and self._run.kind == kind:
            self._run.step_begins()

    def _step_ends(self, kind: str, batch: int, logs: Any = None) -> None:
        if self._run is not None and self._run.kind == kind:
            self._run.step_ends()

    def _end(self, kind: str, logs: Any = None) -> None:
        if self._run is not None and self._run.kind == kind:
            run, self._run = self._run, None
            self.ledger = run.ledger()

    on_train_begin = partialmethod(_begin, "train")
    on_train_batch_begin = partialmethod(_step_begins, "train")
    on_train_batch_end = partialmethod(_step_ends, "train")
    on_train_end = partialmethod(_end, "train")
    on_test_begin = partialmethod(_begin, "test")
    on_test_batch_begin = partialmethod(_step_begins, "test")
    on_test_batch_end = partialmethod(_step_ends, "test")
    on_test_end = partialmethod(_end, "test")
    on_predict_begin = partialmethod(_begin, "predict")
    on_predict_batch_begin = partialmethod(_step_begins, "predict")
    on_predict_batch_end = partialmethod(_step_ends, "predict")
    on_predict_end = partialmethod(_end, "predict")


def _callback_class() -> type:
    """`keras.callbacks.Callback` of a Keras that runs on TensorFlow."""
    try:
        keras: Any = import_module("keras")
        import_module("tensorflow")
    except ImportError as error:
        raise MissingExtraError(
            f"EnergyCallback needs TensorFlow and Keras ({error}): "
            "pip install 'tensorflow>=2.16'"
        ) from error
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UsageError(
            f"EnergyCallback is for Keras on TensorFlow, and this runs on {backend}: "
            "set KERAS_BACKEND=tensorflow, or use irene.account for torch"
        )
    found: type = keras.callbacks.Callback
    return found


class _KerasRun:
    """One `fit`, `evaluate` or `predict`; the meters run from the start."""

    def __init__(self, kind: str, wanted: Wanted) -> None:
        self.kind, self._wanted = kind, wanted
        self._scratch = tempfile.TemporaryDirectory(prefix="irene-")
        self._folder = wanted.folder or Path(self._scratch.name)
        self._profile = _Profile()
        self._done = 0
        self._window_ns = (0, 0)
        self._mark: Any = None
        try:
            self._sampling = Sampling(wanted.meters, wanted.period_s, wanted.idle_s)
            self._sampling.start(Rank(), self._folder)
        except BaseException:
            self._scratch.cleanup()
            raise

    def step_begins(self) -> None:
        """Record this step, if it is one to record."""
        state = self._wanted.schedule.state(self._done)
        if state not in ("warmup", "record"):
            return
        self._profile.run_to(self._folder / state)
        if state == "record":
            self._mark = _profiler().Trace(self.kind, step_num=self._done, _r=1)
            begin_ns = self._window_ns[0] or time.time_ns()
            self._window_ns = (begin_ns, 0)
            self._mark.__enter__()

    def step_ends(self) -> None:
        """Count the step, and stop the profiler after the last one."""
        if self._mark is not None:
            tf: Any = import_module("tensorflow")
            if tf.config.list_logical_devices("GPU"):  # which end what they were given
                tf.test.experimental.sync_devices()
            self._mark.__exit__(None, None, None)
            self._mark = None
            self._window_ns = (self._window_ns[0], time.time_ns())
        self._done += 1
        if self._wanted.schedule.state(self._done) == "over":
            self._profile.stop()

    def ledger(self) -> Ledger:
        """Stop everything and make the ledger."""
        try:
            self._profile.stop()
            recording = self._sampling.stop()
            if not self._window_ns[1] or recording is None:
                raise UsageError(self._wanted.schedule.why_nothing(self._done))
            folder = self._folder / "record"
            written = sorted(folder.rglob("*.xplane.pb"))
            if not written:
                raise FormatError(f"TensorFlow's profiler wrote no trace into {folder}")
            events = read_trace(written[-1]).events
            facts = self._sampling.facts(recording)
            kept = KeptEvents(events, self._window_ns, **facts)
            return kept.ledger(recording, self._wanted.split, self._wanted.idle_w)
        finally:
            self.close()

    def close(self) -> None:
        self._profile.stop()
        self._sampling.abandon()
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


def _profiler() -> Any:
    return import_module("tensorflow").profiler.experimental
