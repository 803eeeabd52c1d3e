"""Hooks that tell an observer what a PyTorch program does, and leave no trace.

All hooks are PyTorch's own global ones, so the program needs to tell us nothing; a
loader of data has none, so its `__next__` is wrapped while we watch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.optim import Optimizer
from torch.optim import optimizer as optimizer_hooks
from torch.utils.data import dataloader

from irene.account.live.names import ModuleNames

__all__ = ["Hooks", "Observer", "tensors_in"]


class Observer(Protocol):
    """Is told what happens; every call comes from the thread in which it happens."""

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        """A module's forward begins."""

    def leave(self, path: str, module: nn.Module, outputs: Any) -> None:
        """A module's forward has ended."""

    def begin(self, name: str, phase: str) -> None:
        """An optimizer's step or the loading of a batch begins."""

    def end(self, name: str, phase: str) -> None:
        """It has ended."""


class Hooks:
    """Everything that is hooked between `install` and `remove`."""

    def __init__(
        self,
        observer: Observer,
        names: ModuleNames,
        on_step: Callable[[int], None],
        on_forward: Callable[[int], None],
    ) -> None:
        self._observer = observer
        self._names = names
        self._on_step = on_step
        self._on_forward = on_forward
        self._thread = threading.local()
        self._handles: list[Any] = []
        self._plain_next: Callable[[Any], Any] | None = None

    def install(self) -> None:
        """Begin to watch."""
        try:
            self._handles += [
                module_hooks.register_module_forward_pre_hook(self._enter),
                module_hooks.register_module_forward_hook(
                    self._leave, always_call=True
                ),
                optimizer_hooks.register_optimizer_step_pre_hook(self._before_step),
                optimizer_hooks.register_optimizer_step_post_hook(self._after_step),
            ]
            self._wrap_loader()
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Leave PyTorch as it was; twice is fine."""
        while self._handles:
            self._handles.pop().remove()
        if self._plain_next is not None:
            dataloader._BaseDataLoaderIter.__next__ = self._plain_next  # type: ignore[assignment, method-assign]
            self._plain_next = None

    def _stack(self) -> list[tuple[int, str]]:
        """Calls of modules that this thread is in: id and path."""
        try:
            stack: list[tuple[int, str]] = self._thread.stack
        except AttributeError:
            stack = self._thread.stack = []
        return stack

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        stack = self._stack()
        path = self._names.path(module, stack[-1][1] if stack else None)
        if not stack and path == "":
            self._on_forward(time.time_ns())
        stack.append((id(module), path))
        self._observer.enter(path, module, inputs)

    def _leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        stack = self._stack()
        # A forward that raised may have left calls behind that never ended.
        while stack:
            identity, path = stack.pop()
            if identity == id(module):
                self._observer.leave(path, module, outputs)
                return
            self._observer.leave(path, module, None)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._observer.begin(f"{type(optimizer).__name__}.step", "optimizer")

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._observer.end(f"{type(optimizer).__name__}.step", "optimizer")
        self._on_step(time.time_ns())

    def _wrap_loader(self) -> None:
        plain = dataloader._BaseDataLoaderIter.__next__
        observer = self._observer

        def watched_next(loader: Any) -> Any:
            observer.begin("DataLoader", "data")
            try:
                return plain(loader)
            finally:
                observer.end("DataLoader", "data")

        self._plain_next = plain
        dataloader._BaseDataLoaderIter.__next__ = watched_next  # type: ignore[assignment, method-assign]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Tensors inside tuples, lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
