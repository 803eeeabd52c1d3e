"""What was used last, up to a size: the one rule by which this server forgets."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key; the longest unused make room. Threads may share it.

    Args:
        most: Size of all values together.
        size_of: Size of one; by default each counts as 1.
        largest: Part of `most` that one value may take; a larger one is not kept.
        most_s: How long a value is kept, however often it is used, s.
    """

    def __init__(
        self,
        most: int,
        size_of: Callable[[V], int] = lambda _: 1,
        largest: float = 1.0,
        most_s: float = math.inf,
    ) -> None:
        self.most = most
        self.size = 0
        self._size_of = size_of
        self._largest = most * largest
        self._most_s = most_s
        self._values: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """What is kept under a key; None if nothing is."""
        with self._lock:
            found, ends = self._values.get(key, (None, 0.0))
            if found is None or (ends < math.inf and ends < time.monotonic()):
                return None
            self._values.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> None:
        """Keep a value in place of what was there."""
        size = self._size_of(value)
        ends = time.monotonic() + self._most_s
        with self._lock:
            self._forget(key)
            if size > self._largest:
                return
            self._values[key] = value, ends
            self.size += size
            while self.size > self.most:
                self._forget(next(iter(self._values)))

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._lock:
            self._forget(key)

    def _forget(self, key: K) -> None:
        old, _ = self._values.pop(key, (None, 0.0))
        if old is not None:
            self.size -= self._size_of(old)
