"""Where data of a name is looked for on this machine, and configs beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from irene.errors import UsageError

__all__ = ["configs_beside", "data_folders", "home_of", "named_data"]

VARIABLE = "IRENE_DATA_DIR"
"""Environment variable that names the folder of the user's data."""

ENDINGS = ("", ".parquet", ".jsonl")


def data_folders() -> list[Path]:
    """Folders that hold data: that of the variable, then the cache of this program."""
    chosen = os.environ.get(VARIABLE)
    return [*([Path(chosen)] if chosen else []), _cache() / "irene" / "data"]


def home_of(name: str) -> Path:
    """The folder that fetched data of a name is put into."""
    return data_folders()[0] / name


def named_data(name: str) -> Path:
    """The folder or file of a name.

    Args:
        name: Such as `irene-pc1`.

    Raises:
        UsageError: There is none; it says where it was looked for and what to do.
    """
    plain = Path(name).name == name and name not in (".", "..")
    for folder in data_folders() if plain else ():
        for ending in ENDINGS:
            path = folder / f"{name}{ending}"
            if path.exists():
                return path
    raise UsageError(_not_found(name, plain))


def _not_found(name: str, plain: bool) -> str:
    if not plain:
        return f"there is no file or folder {name}"
    chosen = os.environ.get(VARIABLE)
    now = f"now {chosen}" if chosen else "it is not set"
    places = ", ".join(str(folder) for folder in data_folders())
    return (
        f"there is no data {name!r}: neither a file or folder here, nor {name}, "
        f"{name}.parquet or {name}.jsonl in {places}. Set {VARIABLE} to the "
        f"folder that holds it ({now}), or fetch the public data of 2021 "
        "with `irene data fetch irene-2021` and ask for irene-pc1"
    )


def _cache() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen)
    home = Path("~").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def configs_beside(data: Path, models: Iterable[str]) -> dict[str, str]:
    """Config files that lie in or next to data, by name of the model.

    `configs/NAME.json` is looked for inside a folder of data, then next to the data.

    Args:
        data: File or folder of the data.
        models: Names of its models; the part after the last `/` counts.
    """
    inside = [data / "configs"] if data.is_dir() else []
    folders = [*inside, data.resolve().parent / "configs"]
    found = {}
    for model in models:
        name = model.rpartition("/")[2]
        files = [folder / f"{name}.json" for folder in folders]
        file = next((file for file in files if name and file.is_file()), None)
        if file is not None:
            found[model] = str(file)
    return found
