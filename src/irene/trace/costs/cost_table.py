"""The one table of costs, open to the user, and how an op is looked up in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irene.trace.costs.arithmetic import ARITHMETIC, elementwise
from irene.trace.costs.call import Call, Formula, OpCost, TensorSpec, tensors_in
from irene.trace.costs.matrix import MATRIX
from irene.trace.costs.memory import MEMORY

COSTS: dict[str, Formula] = {**MEMORY, **ARITHMETIC, **MATRIX}
"""Formula of every op that has one.

Keys are aten and custom ops (`aten.addmm`, `mylib.my_op`), functions
(`scaled_dot_product_attention`) and module classes (`LSTM`). A function or module in
the table is one indivisible primitive: its formula replaces the ops inside it.
"""

_POINTWISE = elementwise(1)
_OUR_OWN = dict(COSTS)


def is_changed() -> bool:
    """Whether somebody put formulas of their own into the table."""
    return COSTS != _OUR_OWN


def register_cost(name: str, formula: Formula) -> None:
    """Add or replace the formula of an op, function or module class.

    Args:
        name: A key as in `COSTS`.
        formula: From a `Call` to an `OpCost`.
    """
    COSTS[name] = formula


def cost_formula(name: str) -> Callable[[Formula], Formula]:
    """`register_cost` as a decorator."""

    def register(formula: Formula) -> Formula:
        register_cost(name, formula)
        return formula

    return register


def math_name(func: Any) -> str:
    """Name of an aten or custom op without its overload: `aten.addmm`."""
    namespace, _, rest = func._schema.name.partition("::")
    return f"{namespace}.{rest}"


def math_cost(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any
) -> tuple[OpCost, bool]:
    """Cost of one aten or custom op, and whether its FLOPs are known.

    A view moves nothing. An op without a formula that torch tags as pointwise is one
    FLOP per element. Of any other, the bytes are counted and the FLOPs are unknown.
    """
    import torch

    name = math_name(func)
    formula = COSTS.get(name)
    if formula is None:
        if func.is_view or name == "aten._unsafe_view":
            return OpCost(), True
        if torch.Tag.pointwise in func.tags:
            formula = _POINTWISE
        else:  # in place, an op costs what it costs
            formula = COSTS.get(name.removesuffix("_"))
    inputs = [TensorSpec.of(t) for t in tensors_in((*args, *kwargs.values()))]
    outputs = [TensorSpec.of(t) for t in tensors_in((out,))]
    call = Call(name, inputs, outputs, args, kwargs)
    if formula is None:
        return call.streamed(0), False
    return formula(call), True
