"""A Keras callback that accounts for training, evaluation or prediction.

    energy = EnergyCallback(skip=10, steps=20)
    model.fit(x, y, callbacks=[energy])
    for row in energy.ledger.by_module(): …

TensorFlow is imported when one is made, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from irene.account.align.attribution import Split
from irene.account.callbacks.keras_run import KerasRun
from irene.account.ledger.ledger import Ledger
from irene.account.live.steps import Schedule
from irene.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from irene.meters.channel import Meter

__all__ = ["EnergyCallback"]


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
        self._schedule = Schedule(skip, warmup, steps)
        self._meters, self._period_s = meters, period_s
        self._split, self._idle_w = split, idle_w
        self._folder = None if folder is None else Path(folder)
        self._run: KerasRun | None = None

    # What Keras calls -----------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        """Start the meters."""
        self._begin("train")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step begins."""
        self._step_begins("train")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step is over."""
        self._step_ends("train")

    def on_train_end(self, logs: Any = None) -> None:
        """Make the ledger."""
        self._end("train")

    def on_test_begin(self, logs: Any = None) -> None:
        """Start the meters."""
        self._begin("test")

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step begins."""
        self._step_begins("test")

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step is over."""
        self._step_ends("test")

    def on_test_end(self, logs: Any = None) -> None:
        """Make the ledger."""
        self._end("test")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Start the meters."""
        self._begin("predict")

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step begins."""
        self._step_begins("predict")

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step is over."""
        self._step_ends("predict")

    def on_predict_end(self, logs: Any = None) -> None:
        """Make the ledger."""
        self._end("predict")

    # ------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop meters and profiler without a ledger; for a run that failed."""
        if self._run is not None:
            run, self._run = self._run, None
            run.close()

    def _begin(self, kind: str) -> None:
        if self._run is not None and self._run.kind != kind:
            return  # validation inside training
        self.close()  # of a run that failed
        self._run = KerasRun(
            kind, self._schedule, self._meters, self._period_s, self._folder
        )

    def _step_begins(self, kind: str) -> None:
        if self._run is not None and self._run.kind == kind:
            self._run.step_begins()

    def _step_ends(self, kind: str) -> None:
        if self._run is not None and self._run.kind == kind:
            self._run.step_ends()

    def _end(self, kind: str) -> None:
        if self._run is None or self._run.kind != kind:
            return
        run, self._run = self._run, None
        self.ledger = run.ledger(self._split, self._idle_w)


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
