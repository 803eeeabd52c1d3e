"""Packages that are also functions: `irene.trace(…)` beside `irene.trace.catalogue`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["make_callable"]


def make_callable(module_name: str, function_name: str) -> None:
    """Let a call of a module be a call of one of its functions.

    Python binds a package's name in its parent to the module, so the two cannot have
    the same name in any other way.

    Args:
        module_name: `__name__` of the module.
        function_name: Attribute to call, looked up at the first call.
    """

    class CallableModule(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(self, function_name)(*args, **kwargs)

    sys.modules[module_name].__class__ = CallableModule
