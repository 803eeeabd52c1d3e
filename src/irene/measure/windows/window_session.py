"""Session: meters that are sampled for as long as there are windows."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from irene.energy import Energy, source_of_sum
from irene.errors import UsageError
from irene.meters.channel import Channel, Meter
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.totals import Snapshot

if TYPE_CHECKING:
    from irene.measure.windows.window import EnergyWindow

PERIOD_S = 0.05
LINGER_S = 2.0
"""Sampling goes on this long after the last window, s: opening meters takes a moment,
and the next window often follows at once."""


@dataclass(frozen=True, slots=True)
class WindowTotal:
    """All windows of one name together; those without energy are not in it."""

    name: str
    count: int = 0
    unknown: int = 0
    duration_s: float = 0.0
    energy: Energy | None = None

    def plus(self, duration_s: float, energy: Energy | None) -> WindowTotal:
        """With one more window."""
        return WindowTotal(
            self.name,
            self.count + 1,
            self.unknown + (energy is None),
            self.duration_s + duration_s,
            _sum(self.energy, energy),
        )


class WindowSession:
    """Samples meters while windows are open; `with session:` samples all the time.

    One session may be used by many threads. Sampling begins with the first window and
    ends a moment after the last one. Open meters that it is given are closed with it.
    Windows do not depend on the period: a sample of their own is taken at both ends.
    """

    def __init__(
        self,
        meters: Sequence[str | Meter] | None = None,
        period_s: float = PERIOD_S,
        path: Path | None = None,
    ) -> None:
        self._meters = None if meters is None else tuple(meters)
        self._period_s, self._path = period_s, path
        self._totals: dict[str, WindowTotal] = {}
        self.forget_sampling()
        _SESSIONS.add(self)

    def forget_sampling(self) -> None:
        """Begin anew, in a forked process: the sampling thread is not there."""
        self._lock = threading.RLock()
        self._sampler: Sampler | None = None
        self._users = 0
        self._timer: threading.Timer | None = None
        self._begun: dict[str, EnergyWindow] = {}

    # Sampling -----------------------------------------------------------------

    def acquire(self) -> Sampler:
        """The sampler, running; it runs on until `release`."""
        with self._lock:
            self._cancel_timer()
            if self._sampler is None:
                self._sampler = self._started()
            self._users += 1
            return self._sampler

    def _started(self) -> Sampler:
        """A sampler that runs; what was opened for one that cannot is closed again."""
        from irene.meters.finding import AUTO, open_meters

        meters = (AUTO,) if self._meters is None else self._meters
        names = [meter for meter in meters if isinstance(meter, str)]
        given = [meter for meter in meters if not isinstance(meter, str)]
        with ExitStack() as undone:
            opened = open_meters(names) if names else []
            for meter in opened:
                undone.callback(meter.close)
            path = self._path or Path(os.devnull)
            sampler = Sampler([*given, *opened], self._period_s, path).start()
            undone.pop_all()
        return sampler

    def release(self) -> None:
        """One user less; the last one ends the sampling, a moment later."""
        with self._lock:
            self._users -= 1
            given = any(not isinstance(meter, str) for meter in self._meters or ())
            if self._users > 0 or given:  # given meters cannot be opened again
                return
            self._cancel_timer()
            self._timer = threading.Timer(LINGER_S, self._stop_if_idle)
            self._timer.daemon = True
            self._timer.start()

    def _stop_if_idle(self) -> None:
        with self._lock:
            if self._users <= 0:
                self.close()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def edge(self, sampler: Sampler) -> Snapshot | None:
        """A sample now; None if that sampler has been stopped."""
        with self._lock:
            return sampler.sample_now() if sampler is self._sampler else None

    def close(self) -> None:
        """End the sampling now; windows that are still open have no energy then."""
        with self._lock:
            self._cancel_timer()
            sampler, self._sampler = self._sampler, None
            if sampler:
                sampler.stop()

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Channels that are being sampled."""
        with self._lock:
            return self._sampler.channels if self._sampler else ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong with the meters since sampling began, in words."""
        with self._lock:
            return tuple(self._sampler.problems) if self._sampler else ()

    def __enter__(self) -> Self:
        """Sample from now on; `irene.window` uses this session inside the block."""
        self.acquire()
        with _CURRENT_LOCK:
            _CURRENT.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _CURRENT_LOCK:
            _CURRENT.remove(self)
        with self._lock:
            self._users -= 1
        self.close()

    # Windows ------------------------------------------------------------------

    def window(self, name: str) -> EnergyWindow:
        """A window for a `with` block, or a decorator; see `irene.window`."""
        from irene.measure.windows.window import EnergyWindow

        return EnergyWindow(name, self)

    def begin(self, name: str) -> EnergyWindow:
        """Begin a window that `end` ends; such windows may overlap in any way."""
        window = self.window(name)
        with self._lock:
            if name in self._begun:
                raise UsageError(f"a window {name!r} has begun and not ended")
            self._begun[name] = window
        try:
            window.start()
        except BaseException:
            with self._lock:
                self._begun.pop(name, None)
            raise
        return window

    def end(self, name: str) -> EnergyWindow:
        """End the window of that name."""
        with self._lock:
            window = self._begun.pop(name, None)
        if window is None:
            raise UsageError(f"no window {name!r} has begun")
        window.stop()
        return window

    def windows(self) -> list[WindowTotal]:
        """Totals of all ended windows by name, in the order of their first end."""
        with self._lock:
            return list(self._totals.values())

    def add_up(self, name: str, duration_s: float, energy: Energy | None) -> None:
        """Take an ended window into the totals."""
        with self._lock:
            known = self._totals.get(name) or WindowTotal(name)
            self._totals[name] = known.plus(duration_s, energy)


def _sum(one: Energy | None, other: Energy | None) -> Energy | None:
    if one is None or other is None:
        return one or other
    by = dict.fromkeys((*one.produced_by.split(" + "), *other.produced_by.split(" + ")))
    return Energy(
        one.joules + other.joules,
        one.low + other.low,
        one.high + other.high,
        source_of_sum((one.source, other.source)),
        " + ".join(by),
    )


_SESSIONS: weakref.WeakSet[WindowSession] = weakref.WeakSet()
_CURRENT_LOCK = threading.Lock()
_CURRENT: list[WindowSession] = []
"""Sessions that were entered; below them is the one that is always there."""


def current_session() -> WindowSession:
    """The session that was entered last; else the one with this machine's meters."""
    with _CURRENT_LOCK:
        if not _CURRENT:
            _CURRENT.append(WindowSession())
        return _CURRENT[-1]


def _after_fork() -> None:
    global _CURRENT_LOCK
    _CURRENT_LOCK = threading.Lock()
    for session in list(_SESSIONS):
        session.forget_sampling()


def _at_exit() -> None:
    for session in list(_SESSIONS):
        session.close()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
