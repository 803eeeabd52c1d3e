"""The shape that every predictor shares, and the list of those that exist by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from irene.dataset.table import NodeTable
from irene.errors import UsageError

__all__ = ["METHODS", "Factory", "Floats", "Method", "fitted", "make_method"]

Floats = npt.NDArray[np.float64]

Learned = TypeVar("Learned")


class Method(Protocol):
    """Learns from measured trees, then predicts the energy of every node of others."""

    @property
    def name(self) -> str:
        """What the method is called in `METHODS`."""

    def fit(self, table: NodeTable) -> Method:
        """Learn from trees whose energy is known.

        Args:
            table: Trees to learn from.

        Returns:
            The method, fitted.
        """

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J; NaN where the method gives none.

        Args:
            table: Trees to predict; their `energy_j` is not looked at.
        """


Factory = Callable[..., Method]
"""Makes a method that is not fitted; takes `features` and `seed`, both by name, and
options of its own."""

METHODS: dict[str, Factory] = {}
"""Every method by name. A package adds its own when it is imported."""


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
    _check_options(name, options)
    return METHODS[name](**options)


def _check_options(name: str, options: Mapping[str, object]) -> None:
    parameters = inspect.signature(METHODS[name]).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    own = [option for option in parameters if option not in ("features", "seed")]
    for option, value in options.items():
        if option not in parameters:
            there = f"there are {', '.join(own)}" if own else "it has none"
            raise UsageError(f"{name} has no option {option!r}; {there}")
        if option != "features":
            _check_value(option, value, parameters[option].default)


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

    Args:
        learned: None as long as `fit` was not called.
        name: Name of the method.

    Raises:
        UsageError: It has learned nothing yet.
    """
    if learned is None:
        raise UsageError(f"the method {name!r} is not fitted: call fit(table) first")
    return learned
