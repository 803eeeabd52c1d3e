"""The tree: a model, its modules, its ML primitives and their math operations.

- `model_tree`: `ModelTree`, what everybody passes around.
- `node`: `Node`, a view of one row.
- `columns`: the arrays inside; `features`: measured values beside the energy.
- `builder`: `TreeBuilder`, how trees are made.
- `folding`: fold, unfold, cut.
- `document`: the JSON document, out and in; `csv_table`: one row per node.
- `generation`: what a generation takes per request, token and second.
- `text`: the tree as plain text; numbers and names for people.
- `view`: which lines are shown and how they add up; `headline`: the words above them.
- `html`: the tree as a page; `html_tables`, `icicle`: what is on it.
- `notebook`: the tree as notebooks show it; `data_frame`: for pandas; `drawing`: as a
  picture.
"""

from irene.show.text import human, member_names
from irene.tree.builder import TreeBuilder
from irene.tree.columns import KINDS, Columns, EnergyColumns, Signature
from irene.tree.document import SCHEMA, load
from irene.tree.model_tree import OWN, Cost, ModelTree
from irene.tree.node import Node

__all__ = [
    "KINDS",
    "OWN",
    "SCHEMA",
    "Columns",
    "Cost",
    "EnergyColumns",
    "ModelTree",
    "Node",
    "Signature",
    "TreeBuilder",
    "human",
    "load",
    "member_names",
]
