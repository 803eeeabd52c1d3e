"""Where machines are that a user has added, and when that changed."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


def hardware_folder() -> Path:
    """Where added machines are kept.

    `$IRENE_HOME/hardware`; else `irene/hardware` in `$XDG_CONFIG_HOME` or `~/.config`.
    """
    told = os.environ.get
    return _folder(told("IRENE_HOME"), told("XDG_CONFIG_HOME"), told("HOME"))


@cache
def _folder(home: str | None, settings: str | None, _user: str | None) -> Path:
    if home:
        return Path(home) / "hardware"
    return Path(settings or Path.home() / ".config") / "irene" / "hardware"


def added_when_ns() -> int:
    """When a machine was last added, learned, chosen or removed, ns; 0 for never."""
    try:
        return os.stat(hardware_folder()).st_mtime_ns  # noqa: PTH116  a third quicker
    except OSError:
        return 0
