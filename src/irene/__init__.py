"""irene: how much energy a model uses, and where inside it.

`irene.trace` turns a model into a `ModelTree` with the cost of every node,
`irene.predict` gives every node its energy, `irene.measure` runs it here and measures
it, `irene.account` says where a running program spends it; `irene.load` reads a saved
tree, and `irene.connect` asks a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from irene.errors import IreneError

if TYPE_CHECKING:
    from irene import account, measure, predict, trace
    from irene.energy import Energy
    from irene.hardware import Hardware
    from irene.measure.windows.window import session, window, windows
    from irene.serve.client import connect
    from irene.spec import RunSpec
    from irene.tree import ModelTree, Node, load

__version__ = "0.1.0"

__all__ = [
    "Energy",
    "Hardware",
    "IreneError",
    "ModelTree",
    "Node",
    "RunSpec",
    "account",
    "connect",
    "load",
    "measure",
    "predict",
    "session",
    "trace",
    "window",
    "windows",
]

_HOMES = {
    "Energy": "irene.energy",
    "Hardware": "irene.hardware",
    "ModelTree": "irene.tree",
    "Node": "irene.tree",
    "RunSpec": "irene.spec",
    "connect": "irene.serve.client",
    "load": "irene.tree",
    "session": "irene.measure.windows.window",
    "window": "irene.measure.windows.window",
    "windows": "irene.measure.windows.window",
}


def __getattr__(name: str) -> Any:
    """Import a room only when something in it is asked for."""
    from importlib import import_module

    if name in ("account", "measure", "predict", "trace"):
        return import_module(f"irene.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
