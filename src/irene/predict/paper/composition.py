"""Parents: the weighted sum of their children (equations 2 to 5).

    E(n) = Σ over children c of α(c)·E(c),   α(c) = 1 + tanh(w·feat(c)) / τ

The weights w are the same for all nodes; the last feature is a constant, so the last
weight is the bias of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from irene.errors import UsageError
from irene.predict.method import Floats
from irene.predict.paper.folding import FoldedTree

__all__ = ["Composition", "Example", "Weighting", "subtree_energies"]

Weighting = Literal["near-one", "one", "free"]
"""α: within 1/τ of one (equation 3), always one (equation 2), or any number."""


@dataclass(frozen=True, slots=True)
class Example:
    """One tree to learn from, its nodes in the order of `FoldedTree.nodes`.

    Attributes:
        tree: Who is whose child.
        features: Nodes × features, a constant last.
        leaf_j: Predicted energy of the leaves, 0 for parents, J.
        energy_j: Measured energy, J.
        importance: Weight of every node's squared error; 0 for leaves.
    """

    tree: FoldedTree
    features: Floats
    leaf_j: Floats
    energy_j: Floats
    importance: Floats


@dataclass(frozen=True, slots=True)
class Composition:
    """How children make a parent.

    Attributes:
        weighting: What α may be.
        tau: Narrows α around one.
        stepwise: Learn each level from measured children (equation 5), not from
            predicted ones (equation 4).
    """

    weighting: Weighting = "near-one"
    tau: float = 10.0
    stepwise: bool = False

    def __post_init__(self) -> None:
        """Refuse what α cannot be made of."""
        if self.weighting not in get_args(Weighting):
            known = ", ".join(get_args(Weighting))
            raise UsageError(f"no weighting {self.weighting!r}; there are {known}")
        if not self.tau > 0:
            raise UsageError(f"tau must be above zero, got {self.tau}")

    def alpha(self, weights: Floats, features: Floats) -> tuple[Floats, Floats]:
        """α of every node, and its derivative by w·feat."""
        score = features @ weights
        if self.weighting == "one":
            return np.ones_like(score), np.zeros_like(score)
        if self.weighting == "free":
            return score, np.ones_like(score)
        bent = np.tanh(score)
        return 1.0 + bent / self.tau, (1.0 - bent * bent) / self.tau

    def loss(self, weights: Floats, example: Example) -> tuple[float, Floats]:
        """Sum over the parents of their squared error, and its gradient by w.

        Args:
            weights: w.
            example: The tree.
        """
        children, depth = example.tree.children, example.tree.depth
        alpha, slope = self.alpha(weights, example.features)
        edges = children * alpha
        if self.stepwise:
            below_j = example.energy_j
            parent_j = edges @ below_j
        else:
            below_j = parent_j = subtree_energies(edges, example.leaf_j, depth)
        error = parent_j - example.energy_j
        pull = example.importance * error
        blame = 2.0 * pull  # derivative of the loss by the energy of each node
        if not self.stepwise:
            blame = subtree_energies(edges.T, blame, depth)
        by_score = (blame @ children) * below_j * slope
        return float(pull @ error), by_score @ example.features


def subtree_energies(edges: Floats, own: Floats, depth: int) -> Floats:
    """Solve x = own + edges·x: what reaches every node through the tree.

    No way down is longer than `depth`, so that many sweeps are exact. With `edges`
    transposed the way leads up, as the gradient goes.

    Args:
        edges: Weight of node j in node i, (nodes, nodes).
        own: What every node starts with.
        depth: Longest way down, in edges.
    """
    total = own
    for _ in range(depth):
        total = own + edges @ total
    return total
