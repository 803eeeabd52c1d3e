"""Tokens: who may read, compute and measure, by name and until when.

They are kept in a file of the data folder, as digests: whoever reads it has none. A
token has 256 random bits, so that a plain digest cannot be turned back.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from irene.errors import UsageError
from irene.whole_file import whole_file

logger = logging.getLogger(__name__)
SCOPES = ("read", "compute", "measure")
"""Answers and files; uploads and predictions; measurements on the server's machine."""
NAME = re.compile(r"[A-Za-z0-9][\w.@-]{0,63}", re.ASCII)
PREFIX = "irene_"
OF_THE_START = "the server's token"
"""Name of the token that a server is started with; no other can have it."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token.

    Attributes:
        name: Whose it is.
        digest: SHA-256 of the token.
        scopes: What it is for, of `SCOPES`.
        created: When it was made, s since 1970.
        expires: When it ends, s since 1970; None: never.
    """

    name: str
    digest: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None = None

    def is_valid(self) -> bool:
        """Whether it has not ended."""
        return self.expires is None or time.time() < self.expires


def _digest(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file; none where there is no file.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["tokens"]
        return [Token(**{**each, "scopes": tuple(each["scopes"])}) for each in found]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise UsageError(f"cannot read the tokens of {path}: {error}") from error


def add_token(
    path: Path, name: str, scopes: Sequence[str], expires: float | None
) -> str:
    """Make a token; it is told this once.

    Args:
        path: The file.
        name: Whose it is; one that has the name already is replaced.
        scopes: What it is for.
        expires: When it ends, s since 1970; None: never.

    Raises:
        UsageError: The name or a scope is none, or the file cannot be written.
    """
    if NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is no name for a token: letters, digits, . _ @ -")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        words = repr(unknown[0]) if unknown else "nothing"
        raise UsageError(f"a token is for {', '.join(SCOPES)}, not for {words}")
    text = PREFIX + secrets.token_urlsafe(32)
    kept = [each for each in read_tokens(path) if each.name != name]
    new = Token(name, _digest(text.encode()), tuple(scopes), time.time(), expires)
    _write(path, [*kept, new])
    return text


def remove_token(path: Path, name: str) -> None:
    """Forget a token; a server that runs refuses it from now on.

    Raises:
        UsageError: There is none of that name.
    """
    tokens = read_tokens(path)
    kept = [each for each in tokens if each.name != name]
    if len(kept) == len(tokens):
        known = ", ".join(each.name for each in tokens) or "none"
        raise UsageError(f"no token {name!r}; there is {known}")
    _write(path, kept)


def _write(path: Path, tokens: Sequence[Token]) -> None:
    with whole_file(path, mode=0o600) as file:
        document = {"tokens": [asdict(each) for each in tokens]}
        file.write(json.dumps(document, indent=1).encode())


class Tokens:
    """The tokens of a running server; the file is read again when it has changed.

    Args:
        path: The file.
        main: A further token, for everything.
    """

    def __init__(self, path: Path, main: str | None = None) -> None:
        self._path = path
        self._main: list[Token] = []
        if main is not None:
            self._main = [Token(OF_THE_START, _digest(main.encode()), SCOPES, 0.0)]
        self._seen: object = None
        self._tokens: list[Token] = []

    @property
    def are_needed(self) -> bool:
        """Whether something has to be shown: there are tokens, or there were some."""
        return bool(self._main or self._known() or self._seen)

    def find(self, shown: bytes) -> Token | None:
        """The token that somebody shows; None if it is none, or has ended."""
        digest = _digest(shown)
        for each in (*self._main, *self._known()):
            if hmac.compare_digest(each.digest, digest):
                return each if each.is_valid() else None
        return None

    def _known(self) -> list[Token]:
        try:
            stat = self._path.stat()
            now = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if now != self._seen:
                self._seen = now
                self._tokens = read_tokens(self._path)
        except (OSError, UsageError) as error:
            # A file that has gone, or that nobody can read, opens nothing.
            if self._tokens:
                logger.error("no token is valid any more: %s", error)
            self._tokens = []
        return self._tokens
