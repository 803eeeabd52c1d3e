"""Whose turn it is: an event loop on which nobody has so much that others wait."""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from irene.serve.computing.turns import Rounds
from irene.serve.http.access import MOST_CLIENTS, network_of
from irene.serve.http.connections import PatientProtocol
from irene.serve.http.passage import Passage
from irene.serve.http.settings import Settings

logger = logging.getLogger(__name__)
Factory = Callable[[], asyncio.BaseProtocol]
AT_ONCE, MOST_AT_ONCE = 1, 64
"""Addresses that go on in one round of the event loop: that waited, and in all."""
FULL_S = 1.0
"""Pause after a connection for which this process had no file, s."""


class Lines:
    """The open connections of a process.

    When there are too many, of one address or of all, the one that has kept us waiting
    longest makes room: a connection on which a request is being answered never does.

    Args:
        settings: How many there may be, their times, and whose proxies are ours.
    """

    def __init__(self, settings: Settings) -> None:
        self.limits = settings.limits
        self.is_proxy = lru_cache(MOST_CLIENTS)(settings.is_proxy)
        self._open: dict[str, dict[PatientProtocol, None]] = {}
        self._waiting: dict[PatientProtocol, None] = {}
        self.count = 0
        self.rounds = Rounds(AT_ONCE, MOST_AT_ONCE)

    def add(self, line: PatientProtocol) -> bool:
        """Take a new connection; False if there is no place for it."""
        self._open.setdefault(line.address, {})[line] = None
        self.count += 1
        of_address = self._open[line.address]
        if not line.is_proxy and len(of_address) > self.limits.client_connections:
            return self._cut_one(of_address)
        return self.count <= self.limits.connections or self._cut_one(self._waiting)

    def has_room(self, address: str) -> bool:
        """Whether a further connection of an address may wait for its turn.

        More may than are ever open: the oldest make room, also for those that wait.
        """
        limits, rounds = self.limits, self.rounds
        is_few = rounds.waiting(address) < 2 * limits.client_connections
        return is_few and rounds.count < limits.connections

    def remove(self, line: PatientProtocol) -> None:
        """Forget a connection."""
        self._waiting.pop(line, None)
        of_address = self._open.get(line.address, {})
        if line in of_address:
            del of_address[line]
            self.count -= 1
        if not of_address:
            self._open.pop(line.address, None)

    def wait(self, line: PatientProtocol, waits: bool) -> None:
        """Note whether we wait for a client, or it waits for us."""
        if not waits:
            self._waiting.pop(line, None)
        elif line not in self._waiting:
            self._waiting[line] = None

    def _cut_one(self, some: dict[PatientProtocol, None]) -> bool:
        for line in some:  # the oldest first
            if line in self._waiting:
                self.remove(line)
                line.cut()
                return True
        return False


class FairSelector(selectors.DefaultSelector):
    """Of all that is ready, in each round of the loop one connection of an address.

    Three hundred that are closed at once are heard one after the other, and others in
    between. What is left is ready in the next round, too.

    Attributes:
        addresses: Whose a connection is, by the number of its file; others go at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.addresses: dict[int, str] = {}
        self._round = 0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Those whose turn it is."""
        ready = super().select(timeout)
        if len(ready) < 2:
            return ready
        self._round += 1
        first = self._round % len(ready)  # so that nobody is always the last
        turns = {
            self.addresses.get(each[0].fd, each[0].fd): each
            for each in (*ready[first:], *ready[:first])
        }
        return list(turns.values())


class FairLoop(asyncio.SelectorEventLoop):
    """Takes whoever comes at once; then one connection of an address begins at a time.

    Three hundred of one address cost others the few microseconds that it takes to take
    them: all else about a connection is done when it is its address's turn.

    Args:
        settings: Of the server.
    """

    def __init__(self, settings: Settings) -> None:
        self.selector = FairSelector()
        super().__init__(self.selector)
        self.lines = Lines(settings)
        self.passage: Passage | None = None

    async def create_server(  # type: ignore[override]
        self, factory: Factory, *, sock: socket.socket, backlog: int, **how: Any
    ) -> asyncio.Server:
        """Listen on a socket."""
        server = await super().create_server(
            factory, sock=sock, start_serving=False, **how
        )
        sock.listen(backlog)
        self.add_reader(sock, partial(self._accept, factory, sock, backlog))
        return server

    def _accept(self, factory: Factory, sock: socket.socket, most: int) -> None:
        for _ in range(most):
            try:
                made, found = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("no connection can be taken for a while: %s", error)
                self.remove_reader(sock)
                again = partial(self._accept, factory, sock, most)
                self.call_later(FULL_S, self.add_reader, sock, again)
                return
            self._come(factory, made, found[0], b"")

    def hear(
        self,
        factory: Factory,
        passage: Passage,
        on_told: Callable[[bytes, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        """Take what the other process of this server passes on.

        Args:
            factory: Makes the protocol of a connection.
            passage: Our end of the way.
            on_told: Takes all but connections: the kind of a message, and what it says.
            on_end: Called when the other process has ended.
        """
        self.passage = passage
        self.add_reader(passage.sock, self._hear, factory, passage, on_told, on_end)

    def _hear(
        self,
        factory: Factory,
        passage: Passage,
        on_told: Callable[[bytes, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                kind, made, data = passage.receive()
            except (BlockingIOError, InterruptedError):
                return
            except EOFError:
                self.remove_reader(passage.sock)
                on_end()
                return
            if made is None:
                on_told(kind, data)
                continue
            try:
                self._come(factory, made, made.getpeername()[0], data)
            except OSError:  # its client has left meanwhile
                made.close()

    def _come(
        self, factory: Factory, made: socket.socket, host: str, data: bytes
    ) -> None:
        """Begin with a connection when it is its address's turn."""
        made.setblocking(False)
        address = network_of(host)
        begin = partial(self._begin, factory, made, data)
        if not self.lines.has_room(address):
            made.close()
        elif self.lines.is_proxy(host) or self.lines.rounds.may(address, begin):
            begin()

    def _begin(self, factory: Factory, made: socket.socket, data: bytes) -> None:
        # All at once: asyncio takes four rounds until a request that is there is read.
        steps: list[Callable[[], object]] = []
        self.call_soon = lambda work, *given, **_: steps.append(partial(work, *given))  # type: ignore[assignment,method-assign]
        try:
            line = self._make_socket_transport(made, factory())  # type: ignore[attr-defined]
        finally:
            del self.call_soon
        for step in steps:
            step()
        if data:
            line.get_protocol().take_up(data)
        else:
            line._read_ready()
