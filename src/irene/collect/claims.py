"""Claims: two collectors on one store do not measure the same run.

STORE/collect/id            names the collection, within which nodes are shared
STORE/collect/KEY.claim     held while somebody measures that run
"""

from __future__ import annotations

import uuid
from pathlib import Path

from irene.errors import UsageError
from irene.whole_file import whole_file
from irene.work.lock import Claim, claim

__all__ = ["Claims"]


class Claims:
    """What collectors agree on, in a folder of the store.

    Args:
        store: Folder of the store.
    """

    def __init__(self, store: Path) -> None:
        self._folder = store / "collect"
        self._held: dict[str, Claim] = {}

    def collection(self) -> str:
        """The name of the collection; it is given when the first one asks.

        Raises:
            UsageError: It cannot be written.
        """
        file = self._folder / "id"
        lock = Claim(self._folder / "lock", wait=True)
        try:
            if not file.exists():
                with whole_file(file) as new:
                    new.write(uuid.uuid4().hex[:16].encode())
            return file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {file}: {error}") from error
        finally:
            lock.release()

    def take(self, key: str) -> bool:
        """Claim a run; False if another collector has it.

        Args:
            key: Names the run.
        """
        held = claim(self._path(key))
        if held is not None:
            self._held[key] = held
        return held is not None

    def was_left(self, key: str) -> bool:
        """Whether somebody claimed a run and has not done with it."""
        return self._path(key).exists()

    def done(self, key: str) -> None:
        """Give a claim back: what became of the run is in the store."""
        self._path(key).unlink(missing_ok=True)
        self._held.pop(key).release()

    def release(self) -> None:
        """Give all claims back, whatever became of their runs."""
        for held in self._held.values():
            held.release()
        self._held.clear()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.claim"
