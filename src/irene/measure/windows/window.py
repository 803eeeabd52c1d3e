"""Windows: the energy of any stretch of a program.

    with irene.window("epoch") as w:
        train()
    print(w.energy)

A window measures the machine, not a thread: what else runs meanwhile counts too.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

from irene.energy import Energy
from irene.errors import UsageError
from irene.measure.readings import window_energy
from irene.measure.windows.window_session import (
    PERIOD_S,
    WindowSession,
    WindowTotal,
    current_session,
)
from irene.meters.channel import Meter
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.totals import Snapshot, Window

F = TypeVar("F", bound=Callable[..., Any])
MOST_CHILDREN = 10_000
"""Children kept one by one; totals go on."""
OPEN = "the window has not ended"
NOTHING: Mapping[str, Window] = MappingProxyType({})

_INNERMOST: ContextVar[EnergyWindow | None] = ContextVar("irene-window", default=None)


class EnergyWindow:
    """A stretch of time and what was used in it; made by `irene.window`.

    Attributes:
        name: What it is called.
        children: Windows that were opened inside it by the same thread or task.
        channels: What every channel of the meters gave, by its name.
        duration_s: How long it was; 0 while it is open.
        energy: What was used, with its interval; None where that is not known.
        notes: Why it is not known, and what else a reader should know.
    """

    def __init__(self, name: str, session: WindowSession | None = None) -> None:
        self.name = name
        self.children: list[EnergyWindow] = []
        self.channels = NOTHING
        self.duration_s = 0.0
        self.energy: Energy | None = None
        self.notes: tuple[str, ...] = (OPEN,)
        self._session = session
        self._sampler: Sampler | None = None
        self._begin: Snapshot | None = None
        self._token: Token[EnergyWindow | None] | None = None
        self._process = 0
        self._warnings: list[str] = []

    @property
    def energy_j(self) -> float | None:
        """Energy, J; None where it is not known."""
        return self.energy.joules if self.energy else None

    @property
    def mean_power_w(self) -> float | None:
        """Mean power, W; None where the energy is not known."""
        if self.energy is None or self.duration_s <= 0:
            return None
        return self.energy.joules / self.duration_s

    @property
    def complete(self) -> bool:
        """Whether its energy is known, and nothing of the machine is missing in it."""
        parts = [w for w in self.channels.values() if w.channel.in_total]
        missing = any(w.channel.missing for w in self.channels.values())
        return bool(parts) and all(w.complete for w in parts) and not missing

    def __repr__(self) -> str:
        known = f"{self.energy_j:.4g} J" if self.energy else "energy unknown"
        return f"<EnergyWindow {self.name!r}: {known}, {self.duration_s:.4g} s>"

    def start(self) -> Self:
        """Begin, after the devices have done what they were given before.

        Raises:
            UsageError: It has begun before.
            MeterError: A meter cannot be opened.
        """
        if self._session is None:
            self._session = current_session()
        if self._process:
            raise UsageError(
                f"the window {self.name!r} was used before: make a new one"
            )
        self._process = os.getpid()
        sampler = self._session.acquire()
        try:
            self._synchronise()
            self._begin = self._session.edge(sampler)
        except BaseException:  # such as Ctrl-C while a device is waited for
            self._session.release()
            raise
        self._sampler = sampler
        return self

    def stop(self) -> None:
        """End, after the devices have done their work; ending twice is fine."""
        sampler, self._sampler = self._sampler, None
        if sampler is None or self._session is None:
            return
        if os.getpid() != self._process:
            self.notes = ("it began in another process, and cannot end in this one",)
            return
        try:
            self._synchronise()
            end = self._session.edge(sampler)
        finally:
            self._session.release()
        self._take(sampler, self._begin, end)
        self._session.add_up(self.name, self.duration_s, self.energy)

    def _take(
        self, sampler: Sampler, begin: Snapshot | None, end: Snapshot | None
    ) -> None:
        if begin is None or end is None:
            self.notes = ("its session was closed before it ended",)
            return
        between = sampler.between(begin, end)
        self.duration_s = (end.time_ns - begin.time_ns) * 1e-9
        self.channels = MappingProxyType({w.channel.name: w for w in between})
        self.energy, notes = window_energy(between)
        lost = () if self.energy else tuple(sampler.problems)
        self.notes = (*self._warnings, *notes, *lost)

    def _synchronise(self) -> None:
        problem = _synchronise_devices()
        if problem:
            self._warnings.append(problem)

    def __enter__(self) -> Self:
        """Begin, inside the window that is open in this thread or task."""
        self.start()
        parent = _INNERMOST.get()
        if parent is not None and parent._process == self._process:
            parent._adopt(self)
        self._token = _INNERMOST.set(self)
        return self

    def _adopt(self, child: EnergyWindow) -> None:
        note = f"only the first {MOST_CHILDREN} children are kept"
        if len(self.children) < MOST_CHILDREN:
            self.children.append(child)
        elif note not in self._warnings:
            self._warnings.append(note)

    def __exit__(self, *_: object) -> None:
        """End; what was raised inside goes on."""
        token, self._token = self._token, None
        if token is not None:
            with suppress(ValueError):  # it ends in another task than it began in
                _INNERMOST.reset(token)
        self.stop()

    def __call__(self, function: F) -> F:
        """As a decorator: every call is a window of this name.

        An `async` function is one window from its first step to its end, with all that
        the machine does meanwhile.

        Raises:
            UsageError: It is a generator, whose work is done after it has returned.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(
            function
        ):
            raise UsageError(
                f"{getattr(function, '__qualname__', function)} is a generator: its "
                "work is done between the calls; put the window into it"
            )
        name, session = self.name, self._session
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with EnergyWindow(name, session):
                    return await function(*args, **kwargs)

            return cast(F, awaited)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with EnergyWindow(name, session):
                return function(*args, **kwargs)

        return cast(F, called)


def window(name: str) -> EnergyWindow:
    """A window for a `with` block or as a decorator, under the best meters there are.

    Args:
        name: What it is called; windows of one name are added up by `irene.windows`.
    """
    return EnergyWindow(name)


def windows() -> list[WindowTotal]:
    """Totals of the windows that have ended, by name."""
    return current_session().windows()


def session(
    meters: Sequence[str | Meter] | None = None,
    period_s: float = PERIOD_S,
    path: Path | None = None,
) -> WindowSession:
    """Meters of your choice for the windows in a `with` block, sampled all along.

    Args:
        meters: Names, as `irene doctor` lists them, or open meters; None for the best.
        period_s: Time between two samples, s.
        path: File to stream the samples to; None for none.
    """
    return WindowSession(meters, period_s, path)


def _synchronise_devices() -> str:
    """Wait for the GPUs in use; why that failed, or "".

    PyTorch is not imported here: a program that has not done so has no work on a GPU
    that we could wait for.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return ""
    try:
        busy = {cuda.current_device()}
        # Asking for memory touches no device that the program has not touched itself.
        busy |= {i for i in range(cuda.device_count()) if cuda.memory_reserved(i) > 0}
        for device in sorted(busy):
            cuda.synchronize(device)
    except RuntimeError as error:  # the program's own failure; it will hear of it
        return f"a GPU could not be waited for: {str(error).splitlines()[0]}"
    return ""
