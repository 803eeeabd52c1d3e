"""Connections: each has its times, and nobody has so many that others have none."""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from irene.serve.computing.turns import Rounds
from irene.serve.http.access import MOST_CLIENTS, network_of
from irene.serve.http.passage import Passage
from irene.serve.http.settings import Settings

logger = logging.getLogger(__name__)
Factory = Callable[[], asyncio.BaseProtocol]
LINE = "line"
"""Where the state of a request has its connection."""

LARGEST_HEAD = 32_768
LARGEST_READ = 65_536
"""Bytes that are read of a connection at a time, for each of which memory is kept."""
STALLED_MS = 60_000
"""Time after which a client that takes nothing more is given up, ms."""
LATE_S = 5.0
"""The application says itself that a body came too slowly; this is for others, s."""
REST_S = 2.0
"""Time for the rest of a body that nobody wants any more, s."""
AT_ONCE, MOST_AT_ONCE = 1, 64
"""Addresses that go on in one round of the event loop: that waited, and in all."""
AT_ONCE_CLOSED = struct.pack("ii", 1, 0)
"""As `SO_LINGER` has it."""
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
        on_answer: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        """Take what the other process of this server passes on.

        Args:
            factory: Makes the protocol of a connection.
            passage: Our end of the way.
            on_answer: Takes an answer that is to be known.
            on_end: Called when the other process has ended.
        """
        self.passage = passage
        self.add_reader(passage.sock, self._hear, factory, passage, on_answer, on_end)

    def _hear(
        self,
        factory: Factory,
        passage: Passage,
        on_answer: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                made, data = passage.receive()
            except (BlockingIOError, InterruptedError):
                return
            except EOFError:
                self.remove_reader(passage.sock)
                on_end()
                return
            if made is None:
                on_answer(data)
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


class PatientProtocol(H11Protocol):
    """Waits for heads and bodies only so long; tells streams when the server stops.

    Its loop is a `FairLoop`; the state that the app's lifespan gives has `stopping`,
    the event to set.
    """

    loop: FairLoop
    address = ""
    is_proxy = False
    returns = False
    """Whether it goes back to the door when its request is answered."""
    is_passed = False
    """Whether the request came from the door, which had no answer."""
    _file = -1
    _timer: asyncio.TimerHandle | None = None
    _timed: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        transport.max_size = LARGEST_READ  # type: ignore[attr-defined]
        found: Any = transport.get_extra_info("socket")
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if found is not None and option is not None and found.family != socket.AF_UNIX:
            found.setsockopt(socket.IPPROTO_TCP, option, STALLED_MS)
        self._lines = self.loop.lines
        self.app_state = {**self.app_state, LINE: self}
        if self.client:
            self.address = network_of(self.client[0])
            self.is_proxy = self._lines.is_proxy(self.client[0])
        if self.address and not self.is_proxy and found is not None:
            self._file = found.fileno()
            self.loop.selector.addresses[self._file] = self.address
        if self._lines.add(self):
            self._watch()
        else:
            transport.abort()

    async def give(self, head: h11.Response, own: bytes, body: bytes) -> None:
        """Send a whole answer at once.

        Args:
            head: Status and headers, made and checked once for many answers.
            own: Further lines of the head of this one.
            body: All of it.
        """
        cycle: RequestResponseCycle | None = self.cycle
        if self.flow.write_paused:
            await self.flow.drain()
        if cycle is None or cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        told = self.conn.send(head) or b""
        self.conn.send(h11.Data(data=body))
        self.conn.send(h11.EndOfMessage())
        usual = b"".join(b"%s: %s\r\n" % each for each in cycle.default_headers)
        self.transport.write(b"".join((told[:-2], usual, own, b"\r\n", body)))
        cycle.message_event.set()
        if self.conn.our_state is h11.MUST_CLOSE or not cycle.keep_alive:
            self.conn.send(h11.ConnectionClosed())
            self.transport.close()
        self.on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Read on; what has begun must be whole in time."""
        super().data_received(data)
        self._watch()

    def take_up(self, data: bytes) -> None:
        """Go on with what the process at the door has read."""
        self.is_passed = True
        self.data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request, or a short time for the rest of this one."""
        self.is_passed = False
        if not self._goes_back():
            super().on_response_complete()
            self._watch()

    def _goes_back(self) -> bool:
        """Whether the process at the door waits for the next request."""
        passage, conn = self.loop.passage, self.conn
        is_done = conn.our_state is h11.DONE and conn.their_state is h11.DONE
        if passage is None or not (self.returns and is_done):
            return False
        return self.is_drained and self.leave(passage, conn.trailing_data[0])

    @property
    def is_drained(self) -> bool:
        """Whether all that was written is on its way."""
        transport: Any = self.transport
        is_open = not transport.is_closing()
        return is_open and transport.get_write_buffer_size() == 0

    def leave(self, passage: Passage, data: bytes) -> bool:
        """Go to the other process with what was not answered; False: no room there."""
        found: Any = self.transport.get_extra_info("socket")
        has_left = passage.pass_on(found, data)
        if has_left:
            self.transport.abort()  # here; there it stays open
        return has_left

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it, and let go of all that it has: nothing of it waits for garbage."""
        self._lines.remove(self)
        self.loop.selector.addresses.pop(self._file, None)
        self._time(None, 0.0)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # also of one that was reset
        self.app_state = {}
        self.scope = self.cycle = None  # type: ignore[assignment]

    def shutdown(self) -> None:
        """Finish what is under way; streams without an end are told to end."""
        self.app_state["stopping"].set()
        super().shutdown()

    def pause_writing(self) -> None:
        """Wait for a client that takes its answer slowly."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing more is asked."""
        super().timeout_keep_alive_handler()
        self._watch()

    def cut(self) -> None:
        """End it at once; the system, too, forgets what was not taken."""
        found: Any = self.transport.get_extra_info("socket")
        with suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE_CLOSED)
        self.transport.abort()

    def _watch(self) -> None:
        """Have a clock for what we wait for now, which runs until that is over."""
        limits, state = self._lines.limits, self.conn.their_state
        cycle: RequestResponseCycle | None = self.cycle
        answered = cycle is None or cycle.response_complete
        is_behind = self.flow.write_paused or self.transport.is_closing()
        self._lines.wait(self, answered or is_behind or state is h11.SEND_BODY)
        if is_behind:
            self._time("answer", limits.send_s)
        elif state is h11.IDLE:
            # Between two requests uvicorn has a clock, until the first byte.
            has_clock = self.timeout_keep_alive_task is not None
            self._time(None if has_clock else "head", limits.headers_s)
        elif state is h11.SEND_BODY and answered:
            self._time("rest", REST_S)
        elif state is h11.SEND_BODY:
            self._time("body", limits.body_s + LATE_S)
        else:
            self._time(None, 0.0)

    def _time(self, what: str | None, seconds: float) -> None:
        if what is not None and what == self._timed and self._timer is not None:
            return  # it runs already: dripping bytes do not turn it back
        self._timed = what
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if what is not None:
            self._timer = self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing() or self.flow.write_paused:
            self.cut()
        else:
            self.transport.close()
            self._watch()
