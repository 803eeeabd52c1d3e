"""Questions of analysis, each answered as the command of the same name does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from irene.errors import UsageError
from irene.serve.computing.subjects import energy_tree
from irene.serve.recent import Recent

if TYPE_CHECKING:
    from irene.analyse.pareto import TradeOff
    from irene.analyse.variant import Variant

__all__ = ["ANALYSES", "Analysis", "Found"]

Arguments = Mapping[str, Any]
MOST_FRONTS = 8
MOST_COMBINATIONS = 500
_fronts: Recent[str, TradeOff] = Recent(MOST_FRONTS)


@dataclass(frozen=True, slots=True)
class Found:
    """An answer.

    Attributes:
        document: JSON-ready values.
        rows: The same as a table, where there is one.
    """

    document: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] = ()


Analysis = Callable[[Arguments], Found]


def _compare(arguments: Arguments) -> Found:
    from irene.analyse.comparison import (
        compare,
        comparisons_document,
        comparisons_table,
    )

    known = arguments.get("trees")
    trees = [energy_tree(subject, known) for subject in arguments["subjects"]]
    found = [compare(trees[0], tree, arguments["per"]) for tree in trees[1:]]
    return Found(comparisons_document(found), comparisons_table(found))


def _bottlenecks(arguments: Arguments) -> Found:
    from irene.analyse.bottlenecks import find_bottlenecks

    tree = energy_tree(arguments, arguments.get("trees"))
    return Found(find_bottlenecks(tree).to_dict())


def _cost(arguments: Arguments) -> Found:
    from irene.analyse.costs import cost_of

    tree = energy_tree(arguments, arguments.get("trees"))
    return Found(cost_of(tree, **arguments["cost"]).to_dict())


def _suggest(arguments: Arguments) -> Found:
    from irene.analyse.suggest import suggestions

    return Found(suggestions(_variant(arguments)).to_dict())


def _what_if(arguments: Arguments) -> Found:
    from irene.analyse.grid import apply_choices, read_choices, what_if

    choices = read_choices(arguments["set"], arguments["lists"])
    base, varied = apply_choices(_variant(arguments), choices)
    if arguments["sensitivity"]:
        return _sensitivity(base)
    if not varied:
        raise UsageError(
            "nothing to vary: give set=FIELD=VALUE, several sizes "
            "(batch_size=1,8,32), or sensitivity=true"
        )
    combinations = 1
    for values in varied.values():
        combinations *= len(values)
    if combinations > MOST_COMBINATIONS:
        raise UsageError(
            f"{combinations:,} combinations, this server takes {MOST_COMBINATIONS}: "
            "choose fewer values, or use `irene what-if`"
        )
    found = what_if(base, varied)
    return Found(found.to_dict(), found.table())


def _sensitivity(base: Variant) -> Found:
    from irene.analyse.sensitivity import sensitivity, sensitivity_document

    found = sensitivity(base)
    return Found(sensitivity_document(base, found), [row.to_dict() for row in found])


def _trade_off(arguments: Arguments) -> Found:
    """The front is remembered: another budget needs no prediction."""
    key = json.dumps(
        [arguments.get("table"), arguments["run"], arguments["hardware"]],
        sort_keys=True,
    )
    front = _fronts.get(key)
    if front is None:
        front = _front(arguments)
        _fronts.put(key, front)
    found = replace(
        front,
        budget_j=arguments.get("budget_j"),
        at_least=arguments.get("at_least"),
    )
    return Found(found.to_dict(), found.table())


def _front(arguments: Arguments) -> TradeOff:
    from irene.analyse.pareto import parse_accuracies, published_accuracies, trade_off

    table = arguments.get("table")
    rows = parse_accuracies(table, "the table") if table else published_accuracies()
    return trade_off(rows, arguments["run"], arguments["hardware"])


def _ranked(arguments: Arguments) -> Found:
    """What a leaderboard needs of some models."""
    from irene.analyse.leaderboard import predict_entry
    from irene.trace import catalogue

    known = catalogue.entries()
    return Found(
        {
            name: predict_entry(known[name], arguments["run"], arguments["hardware"])
            for name in arguments["models"]
        }
    )


def _variant(arguments: Arguments) -> Variant:
    from irene.analyse.variant import Variant

    return Variant(arguments["model"], arguments["run"], on=arguments["hardware"])


ANALYSES: dict[str, Analysis] = {
    "compare": _compare,
    "bottlenecks": _bottlenecks,
    "cost": _cost,
    "suggest": _suggest,
    "what-if": _what_if,
    "trade-off": _trade_off,
    "ranked": _ranked,
}
"""Every question of analysis by name."""
