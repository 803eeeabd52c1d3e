"""The tree: a model, its modules, its ML primitives and their math operations.

- `model_tree`: `ModelTree`, what everybody passes around.
- `node`: `Node`, a view of one row.
- `structure`: what trees of the same rows and names have in common.
- `columns`: the arrays inside, and measured values beside the energy.
- `builder`: `TreeBuilder`, how trees are made.
- `folding`: fold, unfold, cut.
- `document`: the JSON document, out and in; the table with one row per node.
- `generation`: what a generation takes per request, token and second.
- `headline`: name, sizes and origin of a tree in words; which notes are warnings.

How trees look to people is in `irene.show`, which `irene.presented` reaches.
"""

from irene.tree.builder import TreeBuilder
from irene.tree.columns import (
    KINDS,
    MATH,
    ML,
    MODEL,
    MODULE,
    Columns,
    Cost,
    EnergyColumns,
    Signature,
)
from irene.tree.document import SCHEMA, load
from irene.tree.model_tree import OWN, ModelTree
from irene.tree.node import Node

__all__ = [
    "KINDS",
    "MATH",
    "ML",
    "MODEL",
    "MODULE",
    "OWN",
    "SCHEMA",
    "Columns",
    "Cost",
    "EnergyColumns",
    "ModelTree",
    "Node",
    "Signature",
    "TreeBuilder",
    "load",
]
