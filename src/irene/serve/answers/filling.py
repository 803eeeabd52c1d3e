"""Energies of the whole catalogue, predicted a few models at a time and kept."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irene.analyse.energy_cache import EnergyCache
from irene.analyse.leaderboard import entry_keys
from irene.serve.computing.pool import Pool
from irene.trace.catalogue import Entry

__all__ = ["Filling", "Wanted"]

AT_ONCE = 4
MOST_KEPT = 50_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Models at one size on one machine.

    Attributes:
        entries: Models of the catalogue.
        run: Arguments of `irene.trace`.
        hardware: Name of the machine.
    """

    entries: Sequence[Entry]
    run: Mapping[str, Any]
    hardware: str


class Filling:
    """What is known of models at a size, and how the rest becomes known.

    Args:
        folder: Where it is kept.
        pool: Predicts.
    """

    def __init__(self, folder: Path, pool: Pool) -> None:
        self.cache = EnergyCache(folder)
        self.pool = pool
        self._known: dict[str, dict[str, Any]] = {}
        self._turn = asyncio.Lock()

    def known(self, wanted: Wanted) -> dict[str, dict[str, Any]]:
        """What is known of the models, by name."""
        keys = entry_keys(wanted.entries, wanted.run, wanted.hardware, self.cache)
        found: dict[str, dict[str, Any]] = {}
        for name, key in keys.items():
            fields = self._known.get(key) or self.cache.get(key)
            if fields is not None:
                self._known[key] = found[name] = fields
        return found

    async def fill(
        self, wanted: Wanted, begin: Callable[[], None] = lambda: None
    ) -> float:
        """Predict the models that are not known yet.

        Args:
            wanted: The models.
            begin: Called when the first prediction begins.

        Returns:
            How long that took, s.
        """
        started = time.monotonic()
        keys = entry_keys(wanted.entries, wanted.run, wanted.hardware, self.cache)
        begin()
        while True:
            # One at a time, so that two boards do not predict the same models.
            async with self._turn:
                known = await asyncio.to_thread(self.known, wanted)
                missing = [
                    each.name for each in wanted.entries if each.name not in known
                ]
                if not missing:
                    return time.monotonic() - started
                await self._predict(missing[:AT_ONCE], keys, wanted)

    async def _predict(
        self, names: Sequence[str], keys: Mapping[str, str], wanted: Wanted
    ) -> None:
        arguments = {
            "models": list(names),
            "run": dict(wanted.run),
            "hardware": wanted.hardware,
        }
        reply = await self.pool.ask("ranked", arguments, is_long=True)
        if len(self._known) > MOST_KEPT:
            self._known.clear()
        for name, fields in json.loads(reply.body).items():
            self._known[keys[name]] = fields
            await asyncio.to_thread(self.cache.put, keys[name], fields)
