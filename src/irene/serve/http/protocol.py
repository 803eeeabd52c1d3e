"""HTTP for clients that are slow, or that never finish what they began."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PatientProtocol"]

STALLED_MS = 60_000
"""Time after which a client that takes nothing more is given up, ms."""


class PatientProtocol(H11Protocol):
    """Waits for a head only so long, and tells open streams when the server stops.

    What it needs to know is in the state that the app's lifespan gives: `headers_s`,
    the time for a head, s, and `stopping`, the event to set.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        found: Any = transport.get_extra_info("socket")
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if found is not None and option is not None and found.family != socket.AF_UNIX:
            found.setsockopt(socket.IPPROTO_TCP, option, STALLED_MS)
        self._begin_head()

    def data_received(self, data: bytes) -> None:
        """Read on; a head that has begun must be whole in time."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._end_head()
        elif self._head_timer is None and not self.transport.is_closing():
            self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._end_head()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Finish what is under way; streams without an end are told to end."""
        self.app_state["stopping"].set()
        super().shutdown()

    def _begin_head(self) -> None:
        seconds = self.app_state["headers_s"]
        self._head_timer = self.loop.call_later(seconds, self._too_slow)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
