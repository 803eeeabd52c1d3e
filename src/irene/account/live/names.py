"""Names of modules while a program runs: the paths that a trace gives them too."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

__all__ = ["ModuleNames", "is_loss"]


class ModuleNames:
    """Paths of modules, learned from the models they belong to.

    The model that is accounted for is "", and its modules have the paths they have in
    its tree. A second model of a program is named by its class. A module that a forward
    makes for itself (a loss, say) is named by its class below the module that calls it.
    A wrapper for several processes has the path of what it wraps.
    """

    def __init__(self, models: Mapping[str, nn.Module] | None = None) -> None:
        self._paths: dict[int, str] = {}
        self._kept: list[nn.Module] = []  # an id is only good while its module lives
        self._roots: set[str] = set()
        for name, model in (models or {}).items():
            self._learn(name, model)

    def path(self, module: nn.Module, around: str | None) -> str:
        """Path of a module that is being called.

        Args:
            module: Any module.
            around: Path of the module whose call is around it, None for none.
        """
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
    """What is inside a wrapper for several processes or devices; else the same."""
    if isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel):
        inner: nn.Module = module.module
        return inner
    return module


def is_loss(module: nn.Module) -> bool:
    """Whether a module only compares what was predicted with what was wanted."""
    return isinstance(module, nn.modules.loss._Loss)
