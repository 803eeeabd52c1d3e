"""Configs of models that come with measured data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["configs_beside"]

FOLDER = "configs"


def configs_beside(data: Path, models: Iterable[str]) -> dict[str, str]:
    """Config files that lie in or next to data, by name of the model.

    `configs/NAME.json` is looked for inside a folder of data, then next to the data.

    Args:
        data: File or folder of the data.
        models: Names of its models; the part after the last `/` counts.
    """
    inside = [data / FOLDER] if data.is_dir() else []
    folders = [*inside, data.resolve().parent / FOLDER]
    found = {}
    for model in models:
        name = model.rpartition("/")[2]
        files = [folder / f"{name}.json" for folder in folders]
        file = next((file for file in files if name and file.is_file()), None)
        if file is not None:
            found[model] = str(file)
    return found
