"""The shape that every method shares, and those that exist by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from irene.arrays import Floats
from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.dataset.table import NodeTable
    from irene.predict.learning.join import Joiner

Learned = TypeVar("Learned")


class Method(Protocol):
    """Learns from measured trees, then predicts the energy of every node of others."""

    @property
    def name(self) -> str:
        """What the method is called in `METHODS`."""

    def fit(self, table: NodeTable) -> Method:
        """Learn from trees whose energy is known.

        Returns:
            The method, fitted.
        """

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J; NaN where the method gives none.

        Args:
            table: Trees to predict; their `energy_j` is not looked at.
        """


@runtime_checkable
class Savable(Protocol):
    """A method that can be kept in a file."""

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON-ready values."""

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take over what another of its kind and options has learned.

        Args:
            fields: What `state` returned.
        """


@runtime_checkable
class Joining(Protocol):
    """A method that matches measured trees with traces."""

    joiner: Joiner


Factory = Callable[..., Method]
"""Makes a method that is not fitted; takes options by name, `features` and `seed` among
them where they mean something."""

METHODS: dict[str, Factory | str] = {
    "irene": "irene.predict.paper.tree_method:irene",
    "stepwise": "irene.predict.paper.tree_method:stepwise",
    "sum": "irene.predict.paper.tree_method:sum_of_children",
    "unstructured": "irene.predict.paper.baselines:Unstructured",
    "utilisation": "irene.predict.paper.baselines:Utilisation",
    "counters": "irene.predict.paper.baselines:CountersMethod",
    "specs": "irene.predict.machines.specs.specs_method:specs",
    "partial": "irene.predict.paper.baselines:partial",
}
"""Every method by name: what makes it, or where that is, so that only those are
imported that are asked for."""


def make_method(name: str, **options: object) -> Method:
    """A method that is not fitted yet.

    Args:
        name: A key of `METHODS`.
        **options: Passed on: `features`, `seed`, and options of the method's own.

    Raises:
        UsageError: No such method or option, or an impossible value.
    """
    if name not in METHODS:
        raise UsageError(f"no method {name!r}; there are {', '.join(METHODS)}")
    factory = METHODS[name]
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        factory = cast(Factory, getattr(import_module(module), attribute))
    return factory(**_checked(name, factory, options))


def _checked(
    name: str, factory: Factory, options: Mapping[str, object]
) -> dict[str, object]:
    """The options that a method takes; those that all have may mean nothing to it."""
    parameters = inspect.signature(factory).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(options)
    own = [option for option in parameters if option not in ("features", "seed")]
    for option, value in options.items():
        if option not in (*own, "features", "seed"):
            there = f"there are {', '.join(own)}" if own else "it has none"
            raise UsageError(f"{name} has no option {option!r}; {there}")
        if option != "features":
            default = 0 if option == "seed" else parameters[option].default
            _check_value(option, value, default)
    return {option: v for option, v in options.items() if option in parameters}


def _check_value(option: str, value: object, default: object) -> None:
    """A value is of its default's kind; numbers are finite and not negative."""
    if isinstance(default, bool):
        wanted, is_good = "True or False", isinstance(value, bool)
    elif isinstance(default, int):
        wanted = "a whole number, not negative"
        is_good = type(value) is int and value >= 0
    elif isinstance(default, float):
        wanted = "a number, not negative"
        is_good = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and 0 <= value < math.inf
        )
    else:
        return
    if not is_good:
        raise UsageError(f"{option} takes {wanted}, got {value!r}")


def fitted(learned: Learned | None, name: str) -> Learned:
    """What a method has learned.

    Raises:
        UsageError: It has learned nothing yet.
    """
    if learned is None:
        raise UsageError(f"the method {name!r} is not fitted: call fit(table) first")
    return learned
