"""Who is next: clients take turns, at the computing processes and before them.

Whoever asks a hundred questions waits for all of them as long as a hundred take; the
one question of somebody else is answered in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from irene.serve.http.problems import Problem

T = TypeVar("T")
SOON_S = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Waiting(Generic[T]):
    """A question that waits.

    Attributes:
        client: Whose it is.
        is_long: Whether it may take long.
        turn: Has what was waited for when its turn has come.
    """

    client: str
    is_long: bool
    turn: asyncio.Future[T] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Turns(Generic[T]):
    """The questions that wait, by client.

    Args:
        most: How many may wait.
        of_client: How many of one client may; "", this machine's own user, has all.
    """

    def __init__(self, most: int, of_client: int) -> None:
        self._most = most
        self._of_client = of_client
        self._lines: dict[str, deque[Waiting[T]]] = {}

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def join(self, new: Waiting[T]) -> None:
        """Wait behind the other questions of the same client.

        Where as many wait as may, the client with the most of them loses its last one.

        Raises:
            Problem: There is no place for this one.
        """
        line = self._lines.get(new.client, ())
        if new.client and len(line) >= self._of_client:
            words = f"{len(line)} of your computations wait already: ask again"
            raise Problem(429, words, again_s=SOON_S)
        if len(self) >= self._most:
            words = f"{len(self)} computations are waiting already: ask again later"
            longest = max(self._lines.values(), key=len, default=None)
            if longest is None or len(longest) <= len(line) + 1:
                raise Problem(503, words, again_s=SOON_S)
            last = longest[-1]
            self.leave(last)
            last.turn.set_exception(Problem(503, words, again_s=SOON_S))
        self._lines.setdefault(new.client, deque()).append(new)

    def leave(self, waiting: Waiting[T]) -> None:
        """Wait no more."""
        line = self._lines.get(waiting.client)
        if line is not None and waiting in line:
            line.remove(waiting)
            if not line:
                del self._lines[waiting.client]

    def next(self, may: Callable[[Waiting[T]], bool]) -> Waiting[T] | None:
        """The first that may begin, of the client whose last turn is longest ago.

        Args:
            may: Whether one may begin now.
        """
        for client, line in self._lines.items():
            for waiting in line:
                if may(waiting):
                    self.leave(waiting)
                    if line:  # behind all other clients
                        self._lines[client] = self._lines.pop(client)
                    return waiting
        return None


class Rounds:
    """In each round of the event loop one of a client goes on, and few in all.

    Whoever comes with two hundred at once waits for itself; others come in between.

    Args:
        at_once: How many clients that had to wait go on in one round.
        most: How many in all; who has nothing that waits goes on at once.
    """

    def __init__(self, at_once: int, most: int) -> None:
        self._at_once, self._most = at_once, most
        self._went: set[str] = set()
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        self.count = 0

    def waiting(self, client: str) -> int:
        """How many of a client wait."""
        return len(self._waiting.get(client, ()))

    def may(self, client: str, later: Callable[[], None]) -> bool:
        """Whether one of a client may go on at once.

        Args:
            client: Whose it is.
            later: Called when its turn comes, if it may not.
        """
        if not self._went:
            asyncio.get_running_loop().call_soon(self._next)
        has_place = len(self._went) < self._most and client not in self._went
        if has_place and client not in self._waiting:
            self._went.add(client)
            return True
        self._waiting.setdefault(client, deque()).append(later)
        self.count += 1
        return False

    async def enter(self, client: str) -> None:
        """Wait until one of a client may go on."""
        turn = asyncio.Event()
        if not self.may(client, turn.set):
            await turn.wait()

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        self._went = set(islice(self._waiting, self._at_once))
        if self._went:
            loop.call_soon(self._next)
        for client in [*islice(self._waiting, self._at_once)]:
            line = self._waiting.pop(client)
            self.count -= 1
            loop.call_soon(line.popleft())
            if line:  # behind all others
                self._waiting[client] = line
