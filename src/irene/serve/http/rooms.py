"""Two processes for one server: one at the door, and this one, inside."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from irene.serve.http.fair_loop import Factory, FairLoop
from irene.serve.http.passage import IS_POSSIBLE, Passage, pair
from irene.serve.http.settings import Settings

if TYPE_CHECKING:
    from irene.serve.http.front import Front

logger = logging.getLogger(__name__)
AGAIN_S = 0.5
"""Pause before a process at the door that has ended is replaced, s."""
END_S = 6.0
"""How long a stop waits for the one at the door, s."""
NICE = 5
"""Who is inside lets the one at the door go first."""


class InsideLoop(FairLoop):
    """Has a process of its own at the door, and takes what that one passes on.

    Args:
        settings: Of the server.
        options: Of uvicorn, for both processes.
        sock: Where to listen.
    """

    front: Front | None = None
    """Answers what the one at the door asks."""

    def __init__(
        self, settings: Settings, options: dict[str, Any], sock: socket.socket
    ) -> None:
        super().__init__(settings)
        self._door = Door(self, (settings, options, sock)) if IS_POSSIBLE else None
        if self._door is not None:
            with suppress(OSError):  # forbidden to many services
                os.nice(NICE)

    async def create_server(  # type: ignore[override]
        self, factory: Factory, *, sock: socket.socket, **how: Any
    ) -> Any:
        """Listen on a socket, where it is possible by another process."""
        if self._door is None:
            return await super().create_server(factory, sock=sock, **how)
        self._door.hear(factory)
        return self._door

    def asked(self, _kind: bytes, told: bytes) -> None:
        """Answer what the one at the door has, who gives it to its client."""
        if self.front is not None and self.passage is not None:
            self.front.begin_reply(self.passage, told)

    def close(self) -> None:
        """Close it, and the door."""
        super().close()
        if self._door is not None:
            self._door.close()
            self._door.passage.sock.close()


class Door:
    """The process at the door; it is replaced when it ends, until it is closed.

    Args:
        loop: Takes what is passed on.
        given: What the process is to know: settings, options, where to listen.
    """

    def __init__(self, loop: InsideLoop, given: tuple[Any, ...]) -> None:
        self._loop, self._given = loop, given
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        from irene.serve.http.doorway import stand

        ours, theirs = pair()
        self._process = multiprocessing.get_context("spawn").Process(
            target=stand, args=(*self._given, theirs), name="door", daemon=True
        )
        with theirs:
            self._process.start()
        self.passage = Passage(ours)

    def hear(self, factory: Factory) -> None:
        """Begin to take what is passed on.

        Args:
            factory: Makes the protocol of a connection.
        """
        ended = partial(self._ended, factory)
        self._loop.hear(factory, self.passage, self._loop.asked, ended)

    def close(self) -> None:
        """Have nobody come in any more; the process ends when it has answered."""
        self._is_closed = True
        with suppress(OSError):  # it has ended already
            self.passage.sock.shutdown(socket.SHUT_WR)

    async def wait_closed(self) -> None:
        """Wait for the process, not for long."""
        await asyncio.to_thread(self._process.join, END_S)

    def _ended(self, factory: Factory) -> None:
        self.passage.sock.close()
        self._loop.passage = None
        if not self._is_closed:
            logger.warning("the process at the door has ended: there will be another")
            self._loop.call_later(AGAIN_S, self._open_again, factory)

    def _open_again(self, factory: Factory) -> None:
        if not self._is_closed:
            self._open()
            self.hear(factory)
