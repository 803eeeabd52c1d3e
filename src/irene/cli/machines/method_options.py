"""Options that choose a method, what it sees, and how it learns."""

from __future__ import annotations

import argparse
import ast
from typing import Any

from irene.errors import UsageError

__all__ = ["METHODS", "add_method_options", "chosen_options"]

METHODS = """\
methods:
  counters      from what each node's run measured: time, GPU energy, CPU load
  specs         from shapes alone: nothing is run
  partial       the model was run, the rest is split by specs
  irene         the paper's tree, learned end to end
  stepwise      the same tree, learned level by level
  sum           a parent is the sum of its children
  unstructured  one regressor for nodes of all types
  utilisation   the software estimate: time × (CPU + memory) + GPU, times PUE
"""


def add_method_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Add `--method`, `--features` and `--option`.

    Args:
        parser: Of a command.
        default: Name of the method if none is given.
    """
    parser.add_argument(
        "--method", default=default, metavar="M", help=f"see below (default {default})"
    )
    parser.add_argument(
        "--features", default="all", metavar="F",
        help="what the method sees of a node: all (default), model, resource",
    )  # fmt: skip
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="an option of the method, such as degree=2, tau=5, epochs=20, "
        "standardise=False; may be given several times",
    )  # fmt: skip


def chosen_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `make_method` takes, without the seed.

    Args:
        options: With `features` and `option`.

    Raises:
        UsageError: A word is not NAME=VALUE, or names what has an option of its own.
    """
    chosen: dict[str, Any] = {"features": options.features}
    for word in options.option:
        name, is_pair, value = word.partition("=")
        if not (name and is_pair and value):
            raise UsageError(f"--option takes NAME=VALUE, got {word!r}")
        if name in ("features", "seed"):
            raise UsageError(f"--option {word}: {name} has an option of its own")
        chosen[name] = _value(value)
    return chosen


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
