"""Paths, child names and parameter counts of the modules of a model."""

from __future__ import annotations

from torch import nn


class ModuleNames:
    """Looks up what a module is called where."""

    def __init__(self, model: nn.Module) -> None:
        self._paths: dict[int, list[str]] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            self._paths.setdefault(id(module), []).append(path)
        self._children: dict[str, set[str]] = {}
        for paths in self._paths.values():
            for path in paths:
                above, _, name = path.rpartition(".")
                self._children.setdefault(above, set()).add(name)
        self._params: dict[int, int] = {}
        self._owner: dict[int, str] = {}
        for path, module in model.named_modules():
            for parameter in module.parameters(recurse=False):
                self._owner.setdefault(id(parameter), path)

    def path(self, module: nn.Module, caller: str | None) -> str:
        """Dotted path of a module; of several, the one below its caller."""
        paths = self._paths[id(module)]
        if caller is None:
            return paths[0]
        prefix = f"{caller}." if caller else ""
        return next((path for path in paths if path.startswith(prefix)), paths[0])

    def children(self, path: str) -> set[str]:
        """Names of the modules directly below a path."""
        return self._children.get(path, set())

    def params(self, module: nn.Module) -> int:
        """Parameters of a module and those below it, shared ones once.

        Of quantised layers those that their bytes hold (`wrapped`).
        """
        key = id(module)
        if key not in self._params:
            held = (getattr(p, "params_held", p.numel()) for p in module.parameters())
            self._params[key] = sum(held)
        return self._params[key]

    def owner(self, parameter: object) -> str | None:
        """Path of the module that holds a parameter."""
        return self._owner.get(id(parameter))
