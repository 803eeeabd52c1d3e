"""The way between the two processes of a server: connections and answers go along it.

One stands at the door: it takes whoever comes and answers what it knows. All else is
passed to the other one, inside, which has the store and the computing processes.
"""

from __future__ import annotations

import array
import multiprocessing
import socket
import sys
from contextlib import suppress

IS_POSSIBLE = sys.platform == "linux"
"""Elsewhere one process does all of it."""
MOST_BYTES = 400_000
"""Of one message: a head and what was read with it, or an answer."""
CONNECTION, ANSWER = b"c", b"a"
multiprocessing.allow_connection_pickling()


class Passage:
    """One end of the way.

    Args:
        sock: Of a pair, which keeps messages apart.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)

    def pass_on(self, made: socket.socket, data: bytes) -> bool:
        """Pass a connection, with what was read of it; False if there is no room.

        Args:
            made: The connection; ours is to be closed then, and stays open there.
            data: Not answered yet.
        """
        files = array.array("i", [made.fileno()])
        return self._send(CONNECTION + data, files)

    def tell(self, known: bytes) -> bool:
        """Tell the other side an answer; False if there is no room.

        Args:
            known: Of `Memory.told`.
        """
        return self._send(ANSWER + known, None)

    def _send(self, message: bytes, files: array.array[int] | None) -> bool:
        along = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)] if files else []
        if len(message) > MOST_BYTES:
            return False
        with suppress(OSError):  # full, or nobody is there
            self.sock.sendmsg([message], along)
            return True
        return False

    def receive(self) -> tuple[socket.socket | None, bytes]:
        """The next connection with what was read of it, or what is to be known.

        Raises:
            BlockingIOError: There is none.
            EOFError: The other side has ended.
        """
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        flags = socket.MSG_CMSG_CLOEXEC
        try:
            message, along, _, _ = self.sock.recvmsg(MOST_BYTES, room, flags)
        except ConnectionError as error:
            raise EOFError from error
        if not message:
            raise EOFError
        files = array.array("i")
        for _, _, data in along:
            files.frombytes(data)
        made = socket.socket(fileno=files[0]) if files else None
        return made, message[1:]


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
