"""Machines that are known by name: predictors that ship with the package."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from irene.errors import UsageError
from irene.predict.predictor import Predictor, load_predictor

__all__ = ["find_predictor", "known_machines"]


@cache
def known_machines() -> dict[str, Path]:
    """Files of the shipped predictors by name of the machine."""
    folder = resources.files("irene.predict").joinpath("machines")
    return {
        Path(str(file)).stem: Path(str(file))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".json")
    }


@cache
def find_predictor(on: str) -> Predictor:
    """The predictor of a machine by name, or in a file.

    Raises:
        UsageError: No such machine and no such file.
    """
    if on in known_machines():
        return load_predictor(known_machines()[on])
    if on.endswith(".json") or Path(on).is_file():
        return load_predictor(on)
    names = ", ".join(known_machines())
    raise UsageError(
        f"unknown hardware {on!r}; there is {names}, or give the file of a predictor"
    )
