"""Energies that were predicted before, on disk, so that asking again costs nothing.

An entry is named by everything that decides it: the config and run, the predictor's
digest, the versions of torch and transformers, and this program's own code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from irene.dataset.measured_data import data_folders
from irene.errors import UsageError
from irene.trace.templates.keeping import code_digest, versions
from irene.whole_file import whole_file

DECIDING = ("trace", "predict", "tree")
"""Rooms whose code decides a prediction."""


class EnergyCache:
    """JSON values in files that are named by a digest.

    Args:
        folder: Where; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under a key; None if nothing readable is there."""
        if self.folder is None:
            return None
        try:
            value = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a value; a folder that cannot be written is no reason to stop."""
        if self.folder is not None:
            with suppress(UsageError), whole_file(self._path(key)) as file:
                file.write(json.dumps(dict(value)).encode())

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.json"

    def key(self, *parts: Any) -> str:
        """The digest that names what these values decide."""
        text = json.dumps([_program(DECIDING), *parts], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def default_cache() -> EnergyCache:
    """In the cache folder of this user (`XDG_CACHE_HOME`)."""
    return EnergyCache(data_folders()[-1].parent / "energies")


def program_identity() -> list[str]:
    """Versions below us, and a digest of all our code: any may decide an answer."""
    return _program(("",))


def _program(rooms: tuple[str, ...]) -> list[str]:
    return [*versions().values(), code_digest(*rooms)]
