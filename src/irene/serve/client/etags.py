"""Replies that a client has, by address: a server need not send them again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.serve.client.transport import Reply

__all__ = ["KnownReplies"]

MOST_BYTES = 64_000_000


class KnownReplies:
    """The replies that were used last, up to a size; threads may share it.

    Args:
        most_bytes: How much is kept.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._bytes = 0
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, url: str) -> Reply | None:
        """What an address gave last."""
        with self._lock:
            found = self._replies.get(url)
            if found is not None:
                self._replies.move_to_end(url)
            return found

    def put(self, url: str, reply: Reply) -> None:
        """Keep a reply that has an ETag; the longest unused make room."""
        if reply.etag is None or len(reply.body) > self.most_bytes // 4:
            return
        with self._lock:
            self._drop(url)
            self._replies[url] = reply
            self._bytes += len(reply.body)
            while self._bytes > self.most_bytes:
                self._drop(next(iter(self._replies)))

    def _drop(self, url: str) -> None:
        old = self._replies.pop(url, None)
        if old is not None:
            self._bytes -= len(old.body)
