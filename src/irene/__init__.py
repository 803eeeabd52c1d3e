"""irene: how much energy a model uses, and where inside it.

`irene.trace` turns a model into a `ModelTree` with the cost of every node,
`irene.predict` gives every node its energy, `irene.measure` runs it here and measures
it, `irene.account` says where a running program spends it, `irene.track` logs that to a
tracker; `irene.load` reads a saved tree, and `irene.connect` asks a server.
`irene.bottlenecks`, `compare`, `cost`, `curve`, `suggest`, `what_if`, `sensitivity`,
`trade_off`, `leaderboard`, `serve_plan`, `plan_training`, `card` and `report` ask
questions of models and trees.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from irene import lazy, presented
from irene.errors import IreneError

if TYPE_CHECKING:
    from irene.account.callbacks.trackers import track
    from irene.account.live.session import record as account
    from irene.analyse.curve import curve
    from irene.energy import Energy
    from irene.hardware import Hardware
    from irene.measure.api import measure
    from irene.measure.windows.window import session, window, windows
    from irene.predict.api import predict
    from irene.questions.asker import (
        bottlenecks,
        card,
        compare,
        cost,
        leaderboard,
        plan_training,
        report,
        sensitivity,
        serve_plan,
        suggest,
        trade_off,
        what_if,
    )
    from irene.serve.client import connect
    from irene.spec import RunSpec
    from irene.trace.tracer import trace
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
    "bottlenecks",
    "card",
    "compare",
    "connect",
    "cost",
    "curve",
    "leaderboard",
    "load",
    "measure",
    "plan_training",
    "predict",
    "report",
    "sensitivity",
    "serve_plan",
    "session",
    "suggest",
    "trace",
    "track",
    "trade_off",
    "what_if",
    "window",
    "windows",
]


class _FrontDoor(ModuleType):
    """Rooms and functions share names: here a name means the function.

    Python puts a package into its parent under its name when it is imported;
    `from irene.predict import …` and `import irene.predict` do not need that.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in __all__):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor


def _presenter() -> presented.Presenter:
    from irene.show import presenter

    return presenter


presented.register(_presenter)


__getattr__ = lazy.lazily(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
