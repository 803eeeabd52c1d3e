"""Machines that a user added: files in the folder of their settings."""

from __future__ import annotations

import os
from pathlib import Path

from irene.errors import UsageError
from irene.whole_file import whole_file

__all__ = ["added_files", "hardware_folder", "keep", "remove"]

SUFFIXES = (".json.gz", ".json", ".toml")
"""Files of machines: learned GPUs, predictors, datasheets."""


def hardware_folder() -> Path:
    """Where added machines are kept.

    `$IRENE_HOME/hardware`; else `irene/hardware` in `$XDG_CONFIG_HOME` or `~/.config`.
    """
    home = os.environ.get("IRENE_HOME")
    if home:
        return Path(home) / "hardware"
    settings = os.environ.get("XDG_CONFIG_HOME")
    return Path(settings or Path.home() / ".config") / "irene" / "hardware"


def added_files(*suffixes: str) -> dict[str, Path]:
    """Files of added machines by name.

    Args:
        suffixes: Kinds of files; all that there are if none is given.
    """
    folder = hardware_folder()
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    found = {}
    for file in files:
        suffix = _suffix(file.name)
        if (
            suffix
            and suffix in (suffixes or SUFFIXES)
            and not file.name.startswith(".")
        ):
            found[file.name.removesuffix(suffix)] = file
    return found


def _suffix(name: str) -> str:
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def keep(name: str, suffix: str, content: bytes) -> Path:
    """Add a machine, or put it in the place of an added one of that name.

    Raises:
        UsageError: The name cannot be that of a file, or the file cannot be written.
    """
    if (
        not name
        or name.startswith(".")
        or not all(c.isalnum() or c in "-_." for c in name)
    ):
        raise UsageError(
            f"{name!r} cannot name a machine: use letters, digits, - _ and ."
        )
    for other in [file for known, file in added_files().items() if known == name]:
        other.unlink()
    path = hardware_folder() / f"{name}{suffix}"
    with whole_file(path) as file:
        file.write(content)
    return path


def remove(name: str) -> Path:
    """Forget an added machine.

    Raises:
        UsageError: None of that name was added.
    """
    files = added_files()
    if name not in files:
        names = ", ".join(files) or "none"
        raise UsageError(f"no machine {name!r} was added; those added: {names}")
    files[name].unlink()
    return files[name]
