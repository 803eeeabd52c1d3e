"""Captor: who is handed the call behind every node while a recorder watches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import CellType, FrameType, FunctionType
from typing import Any

from irene.trace.values import run_with_values
from irene.tree import TreeBuilder


class Captor:
    """Is told what each node calls, so that the node can be run again alone.

    This one keeps nothing: whoever wants the calls, inherits from it. Handles are those
    of the builder. A handle that was dropped is given out again.
    """

    def enter(
        self,
        handle: int,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        """A node begins: what is called, and with what."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an aten op; whoever wants to watch that, runs it another way."""
        return run_with_values(func, args, kwargs)

    def math(
        self, handle: int, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """An aten op has become the node of this handle."""

    def split(self, product: int, copies: int) -> None:
        """The copies that a product makes first have become a node of their own."""

    def leave(self, handle: int, builder: TreeBuilder) -> None:
        """A node has ended; its row and the rows below it are complete."""

    def drop(self, handle: int) -> None:
        """A node was taken back: it did no math."""


def composite_call(
    frame: FrameType,
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The function that runs in a frame, and the arguments it was called with.

    Must be asked before the function gives its arguments new values.
    """
    code, values = frame.f_code, frame.f_locals
    names = list(code.co_varnames)
    positional, names = names[: code.co_argcount], names[code.co_argcount :]
    by_name, names = names[: code.co_kwonlyargcount], names[code.co_kwonlyargcount :]
    args = tuple(values[name] for name in positional)
    kwargs = {name: values[name] for name in by_name}
    more = values[names.pop(0)] if code.co_flags & inspect.CO_VARARGS else ()
    if more or code.co_posonlyargcount:
        args += tuple(more)
    else:  # by name, which says what an argument is
        args, kwargs = (), {name: values[name] for name in (*positional, *by_name)}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= values[names.pop(0)]
    cells = tuple(CellType(values.get(name)) for name in code.co_freevars)
    return FunctionType(code, frame.f_globals, closure=cells), args, kwargs
