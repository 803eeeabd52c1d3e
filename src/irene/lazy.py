"""Packages that import a part of themselves when something in it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """What a package does as its `__getattr__`.

    Args:
        package: Its name.
        homes: The names that each module has, separated by spaces; `there=here` for one
            that is called otherwise here. A module that begins with a dot is inside.
    """
    places = {}
    for home, names in homes.items():
        for there, _, here in (name.partition("=") for name in names.split()):
            places[here or there] = home, there

    def find(name: str) -> Any:
        if name in places:
            home, there = places[name]
            found = getattr(import_module(home, package), there)
            setattr(sys.modules[package], name, found)
            return found
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":  # it lacks something itself
                raise
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            ) from None

    return find
