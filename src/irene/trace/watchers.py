"""The two torch modes that let a recorder see calls and math ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Listener", "WatchFunctions", "WatchMath"]


class Listener(Protocol):
    """Who is told of calls, and makes them."""

    def call_function(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Run one outermost torch call."""

    def call_math(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Run one aten op."""


class WatchFunctions(TorchFunctionMode):
    """Sees the outermost torch call."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.listener = listener

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.listener.call_function(func, args, kwargs or {})


class WatchMath(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every aten op."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.listener = listener

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.listener.call_math(func, args, kwargs or {})
