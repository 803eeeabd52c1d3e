"""Packages that import a part of themselves when something in it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def lazily(package: str) -> Callable[[str], Any]:
    """What a package does as its `__getattr__`.

    Args:
        package: Its name. What it imports under `if TYPE_CHECKING:`, for checkers and
            editors, it has for everybody, and imports when that is asked for.
    """

    def find(name: str) -> Any:
        if name in _homes(package):
            home, there = _homes(package)[name]
            found = getattr(import_module(home), there)
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


@cache
def _homes(package: str) -> dict[str, tuple[str, str]]:
    """Module and name there of everything that a package imports for checkers."""
    import ast

    loader: Any = sys.modules[package].__loader__
    return {
        alias.asname or alias.name: (str(each.module), alias.name)
        for block in ast.parse(loader.get_source(package)).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
