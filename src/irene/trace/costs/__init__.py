"""What an op costs: FLOPs and bytes from shapes, in one open table.

- `call`: `Call`, what a formula sees; `OpCost`, what it answers.
- `matrix`: products; `arithmetic`: work per element; `memory`: moving data.
- `cost_table`: `COSTS`, the table itself, and `register_cost` to extend it.
"""

from irene.trace.costs.call import Call, Formula, OpCost, TensorSpec
from irene.trace.costs.cost_table import COSTS, cost_formula, register_cost

__all__ = [
    "COSTS",
    "Call",
    "Formula",
    "OpCost",
    "TensorSpec",
    "cost_formula",
    "register_cost",
]
