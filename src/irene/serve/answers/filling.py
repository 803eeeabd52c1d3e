"""Energies of the whole catalogue, predicted one model at a time and kept.

What cannot be predicted is kept too, with its reason: for good where the model cannot
run at this size, and for a while where the server had too little time or memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irene.analyse.energy_cache import EnergyCache
from irene.analyse.leaderboard import entry_keys
from irene.errors import IreneError
from irene.questions import AskLeaderboard
from irene.serve.computing.pool import Pool
from irene.serve.computing.questions import RANKED
from irene.serve.http.problems import Problem, problem_of
from irene.serve.recent import Recent
from irene.spec import RunSpec
from irene.trace.catalogue import Entry

logger = logging.getLogger(__name__)
Fields = Mapping[str, Any]
"""What `predict_entry` says of a model."""
MOST_KEPT = 4_000
"""Models at one size that are kept in memory, at 2 kB each; all are in files."""
BUSY = 503
BOARDS = "boards"
"""Who asks for all leaderboards: they take one turn together."""
MOST_TRIES = 3
BUSY_S = 2.0
"""Pause before a busy server is asked again, s."""
WANTED_S = 90.0
"""Time after which a board that nobody has asked for again is left as it is, s."""
FAILED_S = 600.0
"""Time after which a model that failed is tried again, s."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Models at one size on one machine.

    Attributes:
        entries: Models of the catalogue.
        run: The run; its model does not count.
        hardware: Name of the machine.
    """

    entries: Sequence[Entry]
    run: RunSpec
    hardware: str

    @property
    def board(self) -> tuple[str, ...]:
        """What names it."""
        return (self.hardware, repr(self.run), *(each.name for each in self.entries))


@dataclass(slots=True)
class _Board:
    """A board that is being filled: for whom, until when, and whether nobody waits."""

    client: str
    until: float
    is_polled: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of models.

    Attributes:
        fields: What a prediction says, or the `problem` that there was, by name.
        failed: Names of those that failed here, and may not fail next time.
        missing: Names of those that are not predicted yet.
    """

    fields: Mapping[str, Fields]
    failed: Sequence[str]
    missing: Sequence[str]


class Filling:
    """What is known of models at a size, and how the rest becomes known.

    Args:
        folder: Where it is kept.
        pool: Predicts.
        busy_s: Pause before a busy pool is asked again, s.
        clock: Gives the time, s.
    """

    def __init__(
        self,
        folder: Path,
        pool: Pool,
        busy_s: float = BUSY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cache = EnergyCache(folder)
        self.pool = pool
        self._clock = clock
        self._boards: dict[tuple[str, ...], _Board] = {}
        self._busy_s = busy_s
        self._recent: Recent[str, Fields] = Recent(MOST_KEPT)
        self._failed: Recent[str, tuple[float, Fields]] = Recent(MOST_KEPT)
        self._turn = asyncio.Lock()

    def known(self, wanted: Wanted) -> Known:
        """What is known of the models."""
        keys = entry_keys(wanted.entries, wanted.run, wanted.hardware, self.cache)
        found: dict[str, Fields] = {}
        failed: list[str] = []
        for name, key in keys.items():
            fields, has_failed = self._kept(key)
            if fields is not None:
                found[name] = fields
                failed += [name] if has_failed else []
        return Known(found, failed, [name for name in keys if name not in found])

    def _kept(self, key: str) -> tuple[Fields | None, bool]:
        """What is known under a key, if anything is, and whether it failed here."""
        fields = self._recent.get(key) or self.cache.get(key)
        if fields is not None:
            self._recent.put(key, fields)
            return fields, False
        until, problem = self._failed.get(key) or (0.0, {})
        return (problem, True) if time.monotonic() < until else (None, False)

    def want(self, wanted: Wanted, client: str, is_polled: bool = False) -> None:
        """Note that a client wants the models, and will for a while.

        Whoever goes on from board to board leaves the one that was asked for longest
        ago, as far as it is filled.

        Args:
            wanted: The models.
            client: Who it is.
            is_polled: Whether it takes what is known, and asks again for the rest.

        Raises:
            Problem: Too many boards are being filled.
        """
        now = self._clock()
        until = now + WANTED_S
        self._boards = {k: b for k, b in self._boards.items() if b.until >= now}
        board = _Board(client, until, is_polled)
        board = self._boards.setdefault(wanted.board, board)
        board.until = until
        board.is_polled &= is_polled  # who waits for it is not left alone
        limits = self.pool.limits
        own = [k for k, each in self._boards.items() if each.client == client]
        of_client = len(own)
        polled = [k for k in own if self._boards[k].is_polled and k != wanted.board]
        if of_client > limits.client_boards and polled:
            del self._boards[min(polled, key=lambda k: self._boards[k].until)]
            of_client -= 1
        if len(self._boards) > limits.boards or of_client > limits.client_boards:
            if board.client == client:
                del self._boards[wanted.board]
            words = "other leaderboards are being filled: ask again when one is there"
            raise Problem(429, words, again_s=30)

    async def fill(
        self, wanted: Wanted, begin: Callable[[], None] = lambda: None
    ) -> float:
        """Predict the models that are not known yet, whatever becomes of each.

        Args:
            wanted: The models, of which `want` has been told.
            begin: Called when the first prediction begins.

        Returns:
            How long that took, s.

        Raises:
            Problem: Nobody wants them any more.
        """
        started = time.monotonic()
        told = (wanted.entries, wanted.run, wanted.hardware, self.cache)
        keys = await asyncio.to_thread(entry_keys, *told)
        try:
            while missing := (await asyncio.to_thread(self.known, wanted)).missing:
                begin()
                for name in missing:
                    # One at a time, so that two boards do not predict the same models.
                    async with self._turn:
                        if self._kept(keys[name])[0] is None:
                            self._check_wanted(wanted)
                            await self._predict(name, keys[name], wanted)
        finally:
            self._boards.pop(wanted.board, None)
        return time.monotonic() - started

    def _check_wanted(self, wanted: Wanted) -> None:
        board = self._boards.get(wanted.board)
        if board is None or board.until < self._clock():
            raise Problem(503, "nobody waits for this leaderboard any more")

    async def _predict(self, name: str, key: str, wanted: Wanted) -> None:
        """Predict one model, and keep what comes of it."""
        try:
            fields = await self._ask(name, wanted)
        except IreneError as error:
            logger.warning("%s is left out of a leaderboard: %s", name, error)
            until = time.monotonic() + FAILED_S
            self._failed.put(key, (until, {"problem": str(error)}))
            return
        self._recent.put(key, fields)
        await asyncio.to_thread(self.cache.put, key, fields)

    async def _ask(self, name: str, wanted: Wanted) -> Fields:
        board = AskLeaderboard(run=wanted.run, on=wanted.hardware)
        arguments = {"models": [name], **board.values()}
        for tries in range(1, MOST_TRIES + 1):
            try:
                reply = await self.pool.ask(
                    RANKED, arguments, is_long=True, client=BOARDS
                )
                break
            except IreneError as error:
                if problem_of(error).status != BUSY or tries == MOST_TRIES:
                    raise
            await asyncio.sleep(self._busy_s)
        fields: Fields = json.loads(reply.body)[name]
        return fields
