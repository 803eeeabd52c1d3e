"""Ranks: which of several processes this one is, and what it leaves in a folder."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from irene.errors import UsageError

__all__ = ["EVENTS_FILES", "SAMPLES", "Rank", "this_rank"]

SAMPLES = "samples.csv"
EVENTS_FILES = "events*.npz"


@dataclass(frozen=True, slots=True)
class Rank:
    """One of the processes that run a program together.

    Attributes:
        number: Its number, from 0.
        count: How many there are.
        local: Its number on its machine, from 0.
        local_count: How many there are on its machine.
    """

    number: int = 0
    count: int = 1
    local: int = 0
    local_count: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not (0 <= self.number < self.count and 0 <= self.local < self.local_count):
            raise UsageError(
                f"this process cannot be rank {self.number} of {self.count} and "
                f"{self.local} of {self.local_count} on its machine"
            )

    @property
    def is_alone(self) -> bool:
        """Whether the program is one process."""
        return self.count == 1

    @property
    def samples_power(self) -> bool:
        """Whether it is the one process of its machine that reads the meters."""
        return self.local == 0

    @property
    def family(self) -> int:
        """Process whose descendants are the program: its own, or that which started it.

        Whoever starts several ranks (torchrun, `mp.spawn`, `mpirun`) is the parent of
        all those on its machine.
        """
        return os.getpid() if self.is_alone else os.getppid()

    def home(self, folder: Path) -> Path:
        """Where its machine's files are: each of several machines has its own place."""
        return folder / platform.node() if self.local_count < self.count else folder

    def file(self, folder: Path, name: str) -> Path:
        """Path of a file of its own, `trace.json` or `trace-3.json`."""
        stem, _, ending = name.rpartition(".")
        own = name if self.is_alone else f"{stem}-{self.number}.{ending}"
        return self.home(folder) / own


def this_rank() -> Rank:
    """Which process this is: by `RANK` and `WORLD_SIZE`, else by torch.distributed.

    Without `LOCAL_RANK` all processes are taken to be on one machine.

    Raises:
        UsageError: What the environment says cannot be.
    """
    number, count = _number("RANK"), _number("WORLD_SIZE")
    if number is None or count is None:
        number, count = _distributed()
    local = _number("LOCAL_RANK")
    if count == 1:
        return Rank()
    if local is None:
        return Rank(number, count, number, count)
    return Rank(number, count, local, _number("LOCAL_WORLD_SIZE") or count)


def _number(name: str) -> int | None:
    word = os.environ.get(name)
    if not word:
        return None
    try:
        return int(word)
    except ValueError as error:
        raise UsageError(f"{name}={word!r} in the environment is no number") from error


def _distributed() -> tuple[int, int]:
    """Rank and number of processes of torch.distributed; without it, 0 of 1."""
    if "torch.distributed" in sys.modules:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
