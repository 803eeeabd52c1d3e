"""Reading a Chrome trace as a stream: one event at a time, however large the file.

A trace is one JSON object whose `traceEvents` holds nearly all of it; what stands
before and after is metadata. Events are parsed one by one from a buffer of a few
megabytes. A file that was cut off gives all events that are whole, and says where it
ends.
"""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from irene.errors import FormatError
from irene.whole_file import trying_to

CHUNK = 2**20
LARGEST_VALUE = 16 * 2**20
"""No event is larger than this many characters; if one seems to be, it is broken."""
BLANK = " \t\r\n"
GZIP_MAGIC, GZIP = b"\x1f\x8b", 31


class TraceFile:
    """A trace in a file, plain or compressed.

    Attributes:
        metadata: What stands beside the events; complete after `events`.
        cut_at: Byte of the (uncompressed) text where a file ends too early, or None.
        cut_why: What is missing there, in words.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.cut_at: int | None = None
        self.cut_why = ""
        self._file = _open(path)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # Names of kernels may hold control characters, which strict JSON forbids.
        self._scan = json.JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined]
        self._text, self._place = "", 0
        self._bytes_read, self._ended = 0, False

    def events(self) -> Iterator[dict[str, Any]]:
        """All events that are whole, in the order of the file."""
        with closing(self._file):
            try:
                yield from self._document()
            except _EndError as end:
                self.cut_at, self.cut_why = self._position(), str(end)

    # The document -------------------------------------------------------------

    def _document(self) -> Iterator[dict[str, Any]]:
        first = self._peek("the file is empty")
        if first == "[":
            yield from self._array()
            return
        if first != "{":
            raise FormatError(f"{self.path} is not a trace: it begins with {first!r}")
        self._place += 1
        while (char := self._peek("the end of the trace is missing")) != "}":
            if char == ",":
                self._place += 1
                continue
            key = self._value("the end of the trace is missing")
            if self._peek("the end of the trace is missing") != ":":
                raise self._broken("no colon after a name")
            self._place += 1
            if key != "traceEvents":
                self.metadata[str(key)] = self._value(f"{key} is not complete")
                continue
            if self._peek("there are no events") != "[":
                raise self._broken("traceEvents is no list")
            yield from self._array()
        self._place += 1

    def _array(self) -> Iterator[dict[str, Any]]:
        self._place += 1
        while True:
            char = self._peek("the list of events does not end")
            if char == "]":
                self._place += 1
                return
            if char == ",":
                self._place += 1
                continue
            event = self._value("the last event is not complete")
            if isinstance(event, dict):
                yield event

    def _value(self, missing: str) -> Any:
        """The next value, whole."""
        self._peek(missing)
        while True:
            try:
                value, end = self._scan(self._text, self._place)
            except (StopIteration, json.JSONDecodeError) as error:
                if len(self._text) - self._place > LARGEST_VALUE:
                    raise self._broken(str(error)) from error
                if not self._fill():
                    if _looks_cut(error, self._text):
                        raise _EndError(missing) from error
                    raise self._broken(str(error)) from error
                continue
            # A number at the end of the buffer may go on in the next one.
            if end == len(self._text) and self._fill():
                continue
            self._place = end
            return value

    # The buffer ---------------------------------------------------------------

    def _peek(self, missing: str) -> str:
        """The next character that is not blank."""
        while True:
            text, place = self._text, self._place
            while place < len(text) and text[place] in BLANK:
                place += 1
            self._place = place
            if place < len(text):
                return text[place]
            if not self._fill():
                raise _EndError(missing)

    def _fill(self) -> bool:
        """Read on; False at the end."""
        if self._ended:
            return False
        try:
            data = self._file.read(CHUNK)
        except zlib.error as error:
            raise FormatError(f"{self.path} is damaged: {error}") from error
        if not data:
            self._ended = True
        self._bytes_read += len(data)
        more = self._decoder.decode(data, final=self._ended)
        self._text = self._text[self._place :] + more
        self._place = 0
        return bool(more)

    def _position(self) -> int:
        return self._bytes_read - len(self._text[self._place :].encode())

    def _broken(self, what: str) -> FormatError:
        return FormatError(
            f"{self.path} is not a readable trace at byte {self._position():,}: {what}"
        )


class _EndError(Exception):
    """The file ends before the document does."""


def _looks_cut(error: Exception, text: str) -> bool:
    """Whether a parser failed because the text ends, and not in the middle of it."""
    if isinstance(error, StopIteration):
        return int(error.value) >= len(text)
    assert isinstance(error, json.JSONDecodeError)
    near_end = error.pos >= len(text.rstrip()) - 1
    return near_end or error.msg.startswith("Unterminated string")


class _Unpacked:
    """Reads a gzip file as far as it goes; one that was cut gives all that is there."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpack = zlib.decompressobj(wbits=GZIP)

    def read(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        while packed := self._unpack.unused_data or self._file.read(size // 8):
            if self._unpack.eof:  # another member follows
                self._unpack = zlib.decompressobj(wbits=GZIP)
            if data := self._unpack.decompress(packed):
                return data
        return b""

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _open(path: Path) -> IO[bytes] | _Unpacked:
    with trying_to("read", path):
        file = path.open("rb")
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
    return _Unpacked(file) if packed else file
