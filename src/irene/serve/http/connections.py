"""Connections: each has its times, and nobody has so many that others have none."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from irene.serve.http.access import network_of

if TYPE_CHECKING:
    from irene.serve.http.fair_loop import FairLoop
    from irene.serve.http.passage import Passage

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
AT_ONCE_CLOSED = struct.pack("ii", 1, 0)
"""As `SO_LINGER` has it."""


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
            self._go_on()

    def _go_on(self) -> None:
        """What comes after an answer."""
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
