"""After an import: do something as soon as a program has imported a module."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["after_import"]


@contextmanager
def after_import(name: str, then: Callable[[], None]) -> Iterator[None]:
    """Call something once a module is there; at once if it is already.

    A program may choose devices and threads in its environment before it imports
    PyTorch. To import it in the program's place would take that choice away.

    Args:
        name: Name of the module.
        then: Is called in the thread that imports it.
    """
    if name in sys.modules:
        then()
        yield
        return
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.leave()


class _Finder(MetaPathFinder):
    """Asks the other finders, and has their loader report the end of its work."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name, self._then = name, then

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.leave()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader, plain = spec.loader, spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                plain(module)
                self._then()

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
