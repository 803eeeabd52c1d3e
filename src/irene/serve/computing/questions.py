"""What a computing process can be asked; the documents are those of the commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from irene.serve.computing import analysis
from irene.serve.computing.subjects import energy_tree, only_these, traced
from irene.tree import ModelTree

__all__ = ["QUESTIONS", "ask", "tree_bytes"]

Arguments = Mapping[str, Any]


def ask(question: str, arguments: Arguments) -> bytes:
    """The answer as bytes, in the form that was asked for.

    Args:
        question: A key of `QUESTIONS`.
        arguments: JSON-ready values, as the question wants them.

    Raises:
        IreneError: The question cannot be answered; the message says why.
    """
    with only_these(arguments):
        return QUESTIONS[question](arguments)


def _energy(arguments: Arguments) -> bytes:
    return tree_bytes(energy_tree(arguments, arguments.get("trees")), arguments)


def _tree(arguments: Arguments) -> bytes:
    return tree_bytes(traced(arguments["model"], arguments["run"]), arguments)


def tree_bytes(tree: ModelTree, arguments: Arguments) -> bytes:
    """A tree in the form that was asked for.

    Args:
        tree: Any tree.
        arguments: Its `level`, `fold` and `format` count.
    """
    tree = tree.at_level(arguments.get("level", "ml"))
    if arguments.get("fold", True):
        tree = tree.fold()
    if arguments.get("format") == "csv":
        from irene.tree.node_table import tree_csv

        return tree_csv(tree).encode()
    return _json(tree.to_dict())


def _json(document: Any) -> bytes:
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.encode()


def _document(question: analysis.Analysis) -> Callable[[Arguments], bytes]:
    """A question whose answer is a document, and perhaps a table."""

    def answer(arguments: Arguments) -> bytes:
        found = question(arguments)
        if arguments.get("format") != "csv":
            return _json(found.document)
        from irene.tables import csv_of_records

        return csv_of_records(found.rows).encode()

    return answer


QUESTIONS: dict[str, Callable[[Arguments], bytes]] = {
    "energy": _energy,
    "tree": _tree,
    **{name: _document(question) for name, question in analysis.ANALYSES.items()},
}
"""Every question by name."""
