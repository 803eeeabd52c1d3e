"""The trees that questions are asked of, remembered for the next question."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from irene.errors import UsageError
from irene.serve.recent import Recent
from irene.tree import ModelTree

__all__ = ["energy_tree", "only_these", "predicted", "traced"]

MOST_NODES = 60_000
_trees: Recent[str, ModelTree] = Recent(MOST_NODES, len)


@contextmanager
def only_these(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Within it a model is one of the catalogue or of the configs that came along."""
    from irene.trace.sources import only_known, quiet

    hub = bool(arguments.get("hub"))
    with only_known(arguments.get("configs") or {}, hub=hub), quiet():
        yield


def traced(model: str, run: Mapping[str, Any]) -> ModelTree:
    """The tree of a model with its costs.

    Args:
        model: A name.
        run: Arguments of `irene.trace`.
    """
    from irene.predict.api import without_serving
    from irene.trace.tracer import trace

    options = without_serving(run, "a trace")
    return _remembered([model, run], lambda: trace(model, **options))


def predicted(model: str, run: Mapping[str, Any], hardware: str) -> ModelTree:
    """The tree of a model with predicted energy.

    Args:
        model: A name.
        run: Arguments of `irene.trace`.
        hardware: Name of a machine.
    """
    from irene.predict.api import predict
    from irene.predict.machines.finding import find_predictor

    machine = find_predictor(hardware).hardware.predictor
    return _remembered(
        [model, run, machine], lambda: predict(model, on=hardware, **run)
    )


def _remembered(key: Sequence[Any], make: Callable[[], ModelTree]) -> ModelTree:
    text = json.dumps(key, sort_keys=True)
    tree = _trees.get(text)
    if tree is None:
        tree = make()
        _trees.put(text, tree)
    return tree


def energy_tree(
    subject: Mapping[str, Any], trees: Mapping[str, str] | None = None
) -> ModelTree:
    """The tree that a question is about, with energy.

    Args:
        subject: Its `model`, `run` and `hardware`.
        trees: Trees that are known already, by name, as JSON.

    Raises:
        UsageError: The model is unknown, or the known tree carries no energy.
    """
    model = subject["model"]
    text = (trees or {}).get(model)
    if text is None:
        return predicted(model, subject["run"], subject["hardware"])
    tree = ModelTree.from_json(text)
    if tree.energy_of(0) is None:
        raise UsageError(f"{model} carries no energy: it was traced, not predicted")
    return tree
