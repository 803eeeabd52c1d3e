"""The way between the two processes of a server: connections and answers go along it.

One stands at the door: it takes whoever comes and answers what it knows. All else is
passed to the other one, inside, which has the store and the computing processes.
"""

from __future__ import annotations

import array
import multiprocessing
import socket
import sys

IS_POSSIBLE = sys.platform == "linux"
"""Elsewhere one process does all of it."""
AGAIN_S = 0.005
"""Pause before something is tried again for which there was no room, s."""
MOST_BYTES = 400_000
"""Of one message: a head and what was read with it, or an answer."""
CONNECTION, ANSWER, FORM, ASKED, REPLY = b"c", b"a", b"f", b"q", b"r"
"""Kinds of messages. From the door come connections and what is `ASKED`; it is told
each `REPLY`, an `ANSWER` to know, and a `FORM` of requests that take a moment."""
multiprocessing.allow_connection_pickling()


class Passage:
    """One end of the way.

    Args:
        sock: Of a pair, which keeps messages apart.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.is_closed = False
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

    def tell(self, kind: bytes, told: bytes) -> bool:
        """Tell the other side something; False if there is no room."""
        return self._send(kind + told, None)

    def _send(self, message: bytes, files: array.array[int] | None) -> bool:
        along = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)] if files else []
        if len(message) > MOST_BYTES:
            return False
        try:
            self.sock.sendmsg([message], along)
        except BlockingIOError:
            return False
        except OSError:  # nobody is there
            self.is_closed = True
            return False
        return True

    def receive(self) -> tuple[bytes, socket.socket | None, bytes]:
        """The kind of the next message, a connection, and what was read or told.

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
        return message[:1], made, message[1:]


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
