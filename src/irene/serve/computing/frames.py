"""Messages between the server and its computing processes.

A message is a JSON object and, if need be, bytes: two lengths of four bytes each, then
the two parts. Nothing that is read can run.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

__all__ = ["pack", "read_frame", "receive_frame"]

LENGTHS = struct.Struct(">II")


def pack(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message as bytes.

    Args:
        head: JSON-ready values.
        body: Anything.
    """
    text = json.dumps(head, separators=(",", ":")).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def read_frame(pipe: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The next message of a pipe; None at its end."""
    start = pipe.read(LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    head, body = LENGTHS.unpack(start)
    text, rest = pipe.read(head), pipe.read(body)
    if len(text) < head or len(rest) < body:
        return None
    return json.loads(text), rest


async def receive_frame(pipe: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    """The next message of a pipe.

    Raises:
        asyncio.IncompleteReadError: The pipe has ended.
    """
    head, body = LENGTHS.unpack(await pipe.readexactly(LENGTHS.size))
    text = await pipe.readexactly(head)
    return json.loads(text), await pipe.readexactly(body)
