"""The two torch modes that let somebody see calls and math ops, and make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Run = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Runs a function with its arguments and keyword arguments."""


class WatchFunctions(TorchFunctionMode):
    """Hands the outermost torch call to a function that runs it."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.run(func, args, kwargs or {})


class WatchMath(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every aten op to a function that runs it."""

    def __init__(self, run: Run) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.run = run

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.run(func, args, kwargs or {})
