"""Pace: how fast a collection goes, and how long the rest of it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Pace"]

HOUR_S = 3600.0


class Pace:
    """Learns from what has been done how long the rest takes.

    All of it is by the collector's own monotonic clock: those of machines differ.

    Args:
        guesses: Guess of every task that is to be done, s; None where there is none.
        slower: Factor between guesses and what was measured before.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        guesses: dict[str, float | None],
        slower: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        known = [guess for guess in guesses.values() if guess]
        usual = sum(known) / len(known) if known else 0.0
        self._open = {key: guess or usual for key, guess in guesses.items()}
        self._slower = slower
        self._clock = clock
        self._began_s = clock()
        self._done = 0
        self._done_guess_s = 0.0

    def finish(self, key: str, worked: bool = True) -> None:
        """A task has ended.

        Args:
            key: Which.
            worked: Whether somebody worked on it here; one that another collector
                has done says nothing of how fast this one is.
        """
        guess_s = self._open.pop(key, 0.0)
        if worked:
            self._done += 1
            self._done_guess_s += guess_s

    @property
    def rate_per_hour(self) -> float:
        """Tasks per hour, so far."""
        return HOUR_S * self._done / max(self.lasted_s, 1e-9)

    @property
    def lasted_s(self) -> float:
        """Time since the beginning, s."""
        return self._clock() - self._began_s

    @property
    def left_s(self) -> float:
        """About how long the rest takes, s."""
        left = sum(self._open.values())
        if self._done and self._done_guess_s:
            return left * self.lasted_s / self._done_guess_s
        if self._done:
            return len(self._open) * self.lasted_s / self._done
        return left * self._slower
