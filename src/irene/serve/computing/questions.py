"""What a computing process is asked: the questions of `irene.questions`.

Trees and fronts are remembered: the same tree in another shape, its bottlenecks and its
cost, or a front within another budget need no further prediction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from irene.analyse.subject import known_trees
from irene.predict.api import predict_runs
from irene.predict.machines.added import added_when_ns
from irene.predict.machines.finding import Machine, find_machine
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
from irene.serve.answers.memory import SIZES
from irene.serve.recent import Recent
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.sources import only_known, quiet
from irene.tree.document import to_text

Arguments = Mapping[str, Any]
RANKED = "ranked"
"""What a leaderboard needs of some models; no question of a user."""
CHECKED = "checked"
"""Which kind of document a file holds, and a config; no question of a user."""
MOMENTS = ("energy", "bottlenecks", "cost", "card")
"""Questions that take a moment where the tree of a run is known at once."""
NOT_ASKED = {"configs", "trees", "hub", "format", "run"}
MOST_NODES = 60_000
MOST_FORMS = 1_000
_forms: Recent[tuple[Any, ...], _Form] = Recent(MOST_FORMS)
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
        return _written(asked, _answer(asked), arguments.get("format", "json"))


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A question, for others that differ by their sizes alone."""

    asked: AskEnergy
    why: tuple[str, ...]
    machine: Machine


def ask_several(asked: Sequence[tuple[str, Arguments]]) -> list[bytes | Exception]:
    """Answers to some questions as `ask` has them, and why others have none.

    Energies of one model are found together, whatever the sizes.

    Args:
        asked: Name of each question and its values, none of which is a file.
    """
    found: dict[int, bytes | Exception] = {}
    runs: dict[_Form, dict[int, RunSpec]] = {}
    with only_these({}):
        for place, (question, arguments) in enumerate(asked):
            try:
                form = _form(question, arguments)
                if form is None:
                    found[place] = ask(question, arguments)
                else:
                    sizes = {k: v for k, v in arguments.items() if k in SIZES}
                    run = form.asked.run.changed(**sizes)
                    runs.setdefault(form, {})[place] = run
            except Exception as error:  # noqa: BLE001  whatever it is, it is of this one
                found[place] = error
        for form, several in runs.items():
            trees = predict_runs(list(several.values()), form.machine)
            for place, tree in zip(several, trees, strict=True):
                found[place] = (
                    tree
                    if isinstance(tree, Exception)
                    else _written(form.asked, tree.with_notes(*form.why), "json")
                )
    return [found[place] for place in range(len(asked))]


def _form(question: str, arguments: Arguments) -> _Form | None:
    """What is known of a question but for its sizes; None if it is no energy."""
    rest = {k: v for k, v in arguments.items() if k not in SIZES}
    is_plain = rest.pop("format", "json") == "json" and not rest.keys() & NOT_ASKED
    if question != AskEnergy.name or not is_plain:
        return None
    key = added_when_ns(), json.dumps(rest), tuple(k for k in SIZES if k in arguments)
    form = _forms.get(key)
    if form is None:
        values = {k: v for k, v in arguments.items() if k not in NOT_ASKED}
        asked = AskEnergy.asked(values)
        asked.check()
        subject = asked.subject()
        if subject.is_tree or subject.run != asked.run or asked.step_ms is not None:
            return None
        form = _Form(asked, subject.why, find_machine(subject.on))
        _forms.put(key, form)
    return form


def _written(asked: Question[Any], found: Any, form: str) -> bytes:
    if form == "csv":
        return asked.csv(found).encode()
    if isinstance(asked, AskTree):
        return to_text(asked.shaped(found)).encode()
    return _json(asked.document(found))


@contextmanager
def only_these(arguments: Arguments) -> Iterator[None]:
    """Within it a model is one of the catalogue, or of what came along.

    Args:
        arguments: Of `ask`.
    """
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

    board = AskLeaderboard.asked(values)
    known = catalogue.entries()
    return {name: predict_entry(known[name], board.run, board.on) for name in models}


def _checked(path: str, most_bytes: int) -> bytes:
    from irene.serve.uploads.documents import read_document

    found = read_document(Path(path).read_bytes(), most_bytes)
    return b"\n".join((found.kind.encode(), found.body * (found.kind == "config")))


def _json(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
