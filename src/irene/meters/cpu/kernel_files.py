"""Files of the kernel: where they are, and how they are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


def _root(variable: str, usual: str) -> Path:
    return Path(os.environ.get(variable) or usual)


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the kernel shows a machine.

    Attributes:
        sysfs: Where sysfs is; else `IRENE_SYSFS_ROOT` or `/sys`.
        proc: Where procfs is; else `IRENE_PROC_ROOT` or `/proc`.
    """

    sysfs: Path = field(default_factory=lambda: _root("IRENE_SYSFS_ROOT", "/sys"))
    proc: Path = field(default_factory=lambda: _root("IRENE_PROC_ROOT", "/proc"))

    @property
    def cpus(self) -> Path:
        """The folder of sysfs with a folder for each CPU."""
        return self.sysfs / "devices" / "system" / "cpu"


class KeptFile:
    """A file of the kernel that stays open: reading it again costs one system call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY)

    def read(self, size: int = 4096) -> bytes:
        """Its beginning, as it is now."""
        return os.pread(self._fd, size, 0)

    def close(self) -> None:
        """Close it; closing twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def text_in(path: Path) -> str:
    """What a small file says, without blanks around it; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def number_in(path: Path) -> int:
    """The whole number in a small file; 0 if there is none."""
    text = text_in(path)
    return int(text) if text.isdecimal() else 0
