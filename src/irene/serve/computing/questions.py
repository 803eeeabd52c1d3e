"""What a computing process is asked: the questions of `irene.questions`.

Trees and fronts are remembered: the same tree in another shape, its bottlenecks and its
cost, or a front within another budget need no further prediction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from irene.questions import (
    AskBottlenecks,
    AskCost,
    AskEnergy,
    AskLeaderboard,
    AskTradeOff,
    AskTree,
    Question,
    question_named,
)
from irene.questions.question import OfModel
from irene.serve.recent import Recent

Arguments = Mapping[str, Any]
RANKED = "ranked"
"""What a leaderboard needs of some models; no question of a user."""
CHECKED = "checked"
"""Which kind of document a file holds, and a config; no question of a user."""
NOT_ASKED = ("configs", "trees", "hub", "format", "run")
MOST_NODES = 60_000
_found: Recent[str, Any] = Recent(MOST_NODES, lambda found: _size(found))


def ask(question: str, arguments: Arguments) -> bytes:
    """The answer as bytes, in the form that was asked for.

    Args:
        question: Name of a question, `RANKED` or `CHECKED`.
        arguments: Its values, perhaps with some of them together as `run`; `configs`,
            files of `trees`, and `hub`, which say what names mean; and the `format`.

    Raises:
        IreneError: The question cannot be answered; the message says why.
    """
    given = {**arguments.get("run", {}), **arguments}
    values = {k: v for k, v in given.items() if k not in NOT_ASKED}
    with only_these(arguments):
        if question == RANKED:
            return _json(_ranked(**values))
        if question == CHECKED:
            return _checked(**values)
        asked = question_named(question).asked(values)
        asked.check()
        found = _answer(asked)
        if arguments.get("format") == "csv":
            return asked.csv(found).encode()
        return _json(asked.document(found))


@contextmanager
def only_these(arguments: Arguments) -> Iterator[None]:
    """Within it a model is one of the catalogue, or of what came along.

    Args:
        arguments: Of `ask`.
    """
    from irene.analyse.subject import known_trees
    from irene.trace.sources import only_known, quiet

    hub = bool(arguments.get("hub"))
    configs = arguments.get("configs") or {}
    trees = {k: Path(v) for k, v in (arguments.get("trees") or {}).items()}
    with only_known(configs, hub=hub), known_trees(trees), quiet():
        yield


def _answer(asked: Question[Any]) -> Any:
    if isinstance(asked, AskTree):  # and AskEnergy: shaped when they are written
        return _remembered(replace(asked, level="ml", fold=True))
    if isinstance(asked, AskBottlenecks | AskCost) and not asked.subject().is_tree:
        energy = AskEnergy(run=asked.run, on=asked.on)
        return replace(asked, tree=_remembered(energy)).answer()
    if isinstance(asked, AskTradeOff):
        front = _remembered(replace(asked, budget_j=None, at_least=None))
        return replace(front, budget_j=asked.budget_j, at_least=asked.at_least)
    return asked.answer()


def _remembered(asked: Question[Any]) -> Any:
    from irene.predict.machines.finding import find_machine

    if isinstance(asked, OfModel) and asked.subject().is_tree:
        return asked.answer()
    machines = [find_machine(name).hardware.predictor for name in asked.machines()]
    key = f"{asked.key} {sorted(map(str, machines))}"
    found = _found.get(key)
    if found is None:
        found = asked.answer()
        _found.put(key, found)
    return found


def _size(found: Any) -> int:
    """Nodes of a tree; a front is small beside them."""
    from irene.tree import ModelTree

    return len(found) if isinstance(found, ModelTree) else 1


def _ranked(models: list[str], **values: Any) -> dict[str, Any]:
    from irene.analyse.leaderboard import predict_entry
    from irene.trace import catalogue

    board = AskLeaderboard.asked(values)
    known = catalogue.entries()
    return {name: predict_entry(known[name], board.run, board.on) for name in models}


def _checked(path: str, most_bytes: int) -> bytes:
    from irene.serve.uploads.documents import read_document

    found = read_document(Path(path).read_bytes(), most_bytes)
    return b"\n".join((found.kind.encode(), found.body * (found.kind == "config")))


def _json(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
