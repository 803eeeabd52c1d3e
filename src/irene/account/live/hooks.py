"""Hooks that tell a collector what a PyTorch program does, and leave no trace.

All hooks are PyTorch's own global ones, so the program needs to tell us nothing; a
loader of data has none, so its `__next__` is wrapped while we watch. Modules are called
by the paths that a trace gives them too.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.fx import GraphModule
from torch.nn.modules import module as module_hooks
from torch.optim import Optimizer
from torch.optim import optimizer as optimizer_hooks
from torch.utils.data import dataloader

if TYPE_CHECKING:
    from irene.account.live.levels import ModuleLevel, OpLevel

Mark = Literal["forward", "optimizer", "data"]


class Hooks:
    """Everything that is hooked between `install` and `remove`.

    `on_mark` is called with `forward` before the whole model is called, `optimizer`
    after a step of one, and `data` before a batch is loaded; all from the thread in
    which it is.
    """

    def __init__(
        self,
        collector: ModuleLevel | OpLevel,
        names: ModuleNames,
        on_mark: Callable[[Mark], None],
    ) -> None:
        self._collector = collector
        self._names = names
        self._on_mark = on_mark
        self._thread = threading.local()
        self._handles: list[Any] = []
        self._plain_next: Callable[[Any], Any] | None = None
        self._plain_calls: dict[nn.Module, Any] = {}
        self._looked_at: weakref.WeakSet[nn.Module] = weakref.WeakSet()

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
        while self._plain_calls:
            module, plain = self._plain_calls.popitem()
            module._compiled_call_impl = plain

    def _wrap_compiled(self, model: nn.Module) -> None:
        """Have modules that were compiled in place tell: no hook is called."""
        self._looked_at.add(model)
        for module in model.modules():
            plain = module._compiled_call_impl
            if plain is not None and module not in self._plain_calls:
                self._plain_calls[module] = plain
                module._compiled_call_impl = partial(self._call, module, plain)

    def _call(self, module: nn.Module, plain: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = None
        self._enter(module, args)
        try:
            outputs = plain(*args, **kwargs)
            return outputs
        finally:
            self._leave(module, args, outputs)

    def _stack(self) -> list[tuple[int, str]]:
        """Calls of modules that this thread is in: id and path."""
        try:
            stack: list[tuple[int, str]] = self._thread.stack
        except AttributeError:
            stack = self._thread.stack = []
        return stack

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        # What is compiled runs as one, for the module around it: a hook in its graph
        # would break it into pieces.
        if torch.compiler.is_dynamo_compiling():
            return
        stack = self._stack()
        if stack and isinstance(module, GraphModule) and module not in self._names:
            return  # a compiled graph, whose modules are found otherwise
        if not stack and module not in self._looked_at:
            self._wrap_compiled(module)
        path = self._names.path(module, stack[-1][1] if stack else None)
        if not stack and path == "":
            self._on_mark("forward")
        stack.append((id(module), path))
        self._collector.enter(path, module, inputs)

    def _leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if torch.compiler.is_dynamo_compiling():
            return
        stack = self._stack()
        if all(identity != id(module) for identity, _ in stack):
            return
        # A forward that raised may have left calls behind that never ended.
        while stack:
            identity, path = stack.pop()
            if identity == id(module):
                self._collector.leave(path, module, outputs)
                return
            self._collector.leave(path, module, None)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._collector.begin(f"{type(optimizer).__name__}.step", "optimizer")

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._collector.end(f"{type(optimizer).__name__}.step", "optimizer")
        self._on_mark("optimizer")

    def _wrap_loader(self) -> None:
        plain = dataloader._BaseDataLoaderIter.__next__

        def watched_next(loader: Any) -> Any:
            self._on_mark("data")
            self._collector.begin("DataLoader", "data")
            try:
                return plain(loader)
            finally:
                self._collector.end("DataLoader", "data")

        self._plain_next = plain
        dataloader._BaseDataLoaderIter.__next__ = watched_next  # type: ignore[assignment, method-assign]


class ModuleNames:
    """Paths of modules, learned from the models they belong to.

    The model that is accounted for is "", and its modules have the paths they have in
    its tree. A second model of a program is named by its class. A module that a forward
    makes for itself (a loss, say) is named by its class below the module that calls it.
    A wrapper for several processes, or a compiled model, has the path of what it wraps.
    """

    def __init__(self, models: Mapping[str, nn.Module] | None = None) -> None:
        self._paths: dict[int, str] = {}
        self._kept: list[nn.Module] = []  # an id is only good while its module lives
        self._roots: set[str] = set()
        for name, model in (models or {}).items():
            self._learn(name, model)

    def path(self, module: nn.Module, around: str | None) -> str:
        """Path of a module that is being called, inside a call of the one around it."""
        known = self._paths.get(id(module))
        if known is not None:
            return known
        inner = _unwrapped(module)
        if inner is not module and id(inner) in self._paths:
            self._paths[id(module)] = self._paths[id(inner)]
            self._kept.append(module)
            return self._paths[id(module)]
        name = type(module).__name__
        if around is not None or is_loss(module):
            name = f"{around}.{name}" if around else name
            if next(module.children(), None) is None:
                return name  # often made anew for every call: not kept
        elif not self._roots:
            name = ""
        self._learn(self._free(name), module)
        return self._paths[id(module)]

    def __contains__(self, module: nn.Module) -> bool:
        return id(module) in self._paths

    def known(self) -> set[str]:
        """All paths so far."""
        return set(self._paths.values())

    def _learn(self, root: str, model: nn.Module) -> None:
        self._roots.add(root)
        self._paths.setdefault(id(model), root)
        for name, module in _unwrapped(model).named_modules():
            path = ".".join(filter(None, (root, name)))
            self._paths.setdefault(id(module), path)
        self._kept.append(model)

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self._roots:
            number += 1
            free = f"{name}-{number}"
        return free


def _unwrapped(module: nn.Module) -> nn.Module:
    """What is inside wrappers for processes, devices and compilation; else the same."""
    while True:
        if isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel):
            module = module.module
        elif "_orig_mod" in (parts := vars(module)["_modules"]):
            module = parts["_orig_mod"]  # of `torch.compile`: Dynamo alone knows it
        else:
            return module


def is_loss(module: nn.Module) -> bool:
    """Whether a module only compares what was predicted with what was wanted."""
    return isinstance(module, nn.modules.loss._Loss)
