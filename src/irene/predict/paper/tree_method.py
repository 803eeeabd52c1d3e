"""IrEne (Cao et al., ACL 2021): leaves from features, parents from children.

Leaves have a linear regressor per primitive class (equation 1). Parents are the
weighted sum of their children (equations 2 to 5):

    E(n) = Σ over children c of α(c)·E(c),   α(c) = 1 + tanh(w·feat(c)) / τ

The weights w are the same for all nodes; the last feature is a constant, so the last
weight is the bias of the paper. They are learned by Adam, one tree at a time (Kingma
and Ba 2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from irene.arrays import Floats
from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.methods import fitted
from irene.predict.paper.folded_trees import FoldedTree, FoldedTrees
from irene.predict.paper.regressors import (
    FeatureSet,
    LeafRegressors,
    Standardiser,
    feature_set,
    polynomial,
)
from irene.saved import Saved, numbers

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
        """Sum over the parents of their squared error, and its gradient by w."""
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

    Edges are weights of node j in node i, (nodes, nodes); depth counts edges.
    """
    total = own
    for _ in range(depth):
        total = own + edges @ total
    return total


class Adam:
    """Steps along the running mean of the gradient, over its running size."""

    DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, size: int, learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._mean = np.zeros(size)
        self._square = np.zeros(size)
        self._steps = 0

    def step(self, weights: Floats, gradient: Floats) -> None:
        """Change the weights in place."""
        self._steps += 1
        self._mean += (1 - self.DECAY) * (gradient - self._mean)
        self._square += (1 - self.SQUARE_DECAY) * (gradient * gradient - self._square)
        size = np.sqrt(self._square)
        size /= np.sqrt(1 - self.SQUARE_DECAY**self._steps)
        size += self.EPSILON
        pace = self._learning_rate / (1 - self.DECAY**self._steps)
        weights -= pace * self._mean / size


def train(
    composition: Composition,
    examples: Sequence[Example],
    epochs: int,
    learning_rate: float,
    seed: int,
) -> Floats:
    """Weights that make parents out of children, by Adam."""
    size = examples[0].features.shape[1]
    bound = 1.0 / np.sqrt(size - 1)  # the constant is the bias, not a feature
    weights: Floats = np.random.default_rng(seed).uniform(-bound, bound, size)
    if composition.weighting == "one":
        return weights
    adam = Adam(size, learning_rate)
    for example in list(examples) * epochs:
        adam.step(weights, composition.loss(weights, example)[1])
    return weights


@dataclass(frozen=True, slots=True)
class Learned(Saved):
    """What `fit` found: energy of leaves; scale of the features of α, and its w."""

    leaves: LeafRegressors
    standardiser: Standardiser
    weights: Floats


class TreeMethod:
    """A regressor per primitive class, and a weighted sum for every parent.

    What is not given is as in the published configuration.

    Args:
        name: What it is called.
        features: What it sees of a node.
        seed: Where the weights of α start.
        weighting: What α may be.
        stepwise: Whether each level is learned from measured children.
        tau: Narrows α around one.
        epochs: How often every tree is seen.
        learning_rate: Size of a step.
        degree: Highest number of factors in the products of features that α sees; the
            leaves are linear.
        standardise: Whether features are brought to one scale first.
        scaled_loss: Whether errors count relative to the measured energy.
    """

    def __init__(
        self,
        name: str = "irene",
        features: str | FeatureSet = "all",
        seed: int = 0,
        *,
        weighting: Weighting = "near-one",
        stepwise: bool = False,
        tau: float = 10.0,
        epochs: int = 8,
        learning_rate: float = 1e-3,
        degree: int = 3,
        standardise: bool = True,
        scaled_loss: bool = True,
    ) -> None:
        self.name = name
        self.features = feature_set(features)
        self.composition = Composition(weighting, tau, stepwise)
        self.training = (epochs, learning_rate, seed)
        self.degree = degree
        self.standardise = standardise
        self.scaled_loss = scaled_loss
        self.learned_: Learned | None = None

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON-ready values."""
        fields = fitted(self.learned_, self.name).to_dict()
        leaves = fields.pop("leaves")
        return {"leaves": leaves["by_class"], "pooled": leaves["pooled"], **fields}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Take over what another of these options has learned."""
        leaves = {"by_class": fields["leaves"], "pooled": fields["pooled"]}
        learned = Learned.from_dict({**fields, "leaves": leaves})
        leaves_of = (*learned.leaves.by_class.values(), learned.leaves.pooled)
        for each in (learned.standardiser, *(leaf.standardiser for leaf in leaves_of)):
            each.check_width(len(self.features.columns))
        is_sum = self.composition.weighting == "one"
        products = 1 if is_sum else learned.standardiser.products(self.degree)
        numbers(learned.weights, products + 1)  # the last one is the bias
        self.learned_ = learned

    def fit(self, table: NodeTable) -> TreeMethod:
        """Learn leaves, then how they add up.

        Raises:
            UsageError: There is no tree, or a node without energy.
        """
        if not len(table) or not (table.energy_j > 0).all():
            raise UsageError(
                f"{self.name} learns from trees whose nodes all have a measured "
                f"energy above zero; {table.name} has others, or no tree at all"
            )
        folded = FoldedTrees.of(table)
        values = self.features.matrix(table)[folded.row]
        leaves = self._fit_leaves(table, folded, values)
        standardiser = Standardiser.fit(values, folded.count, self.standardise)
        leaf_j = _leaf_energies(leaves, table, folded, values)
        examples = self._examples(
            table, folded, self._columns(standardiser, values), leaf_j
        )
        weights = train(self.composition, examples, *self.training)
        self.learned_ = Learned(leaves, standardiser, weights)
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J."""
        learned = fitted(self.learned_, self.name)
        folded = FoldedTrees.of(table)
        values = self.features.matrix(table)[folded.row]
        leaf_j = _leaf_energies(learned.leaves, table, folded, values)
        columns = self._columns(learned.standardiser, values)
        alpha = self.composition.alpha(learned.weights, columns)[0]
        energy_j = np.empty(len(folded.row))
        for tree in folded.trees:
            edges = tree.children * alpha[tree.nodes]
            energy_j[tree.nodes] = subtree_energies(
                edges, leaf_j[tree.nodes], tree.depth
            )
        return energy_j[folded.node]

    def _columns(self, standardiser: Standardiser, values: Floats) -> Floats:
        """What α sees: products of features, and the constant that is its bias."""
        if self.composition.weighting == "one":
            return np.ones((len(values), 2))
        columns = polynomial(standardiser.apply(values), self.degree)
        return np.concatenate((columns, np.ones((len(values), 1))), axis=1)

    def _fit_leaves(
        self, table: NodeTable, folded: FoldedTrees, values: Floats
    ) -> LeafRegressors:
        rows = folded.row[folded.leaf]
        return LeafRegressors.fit(
            values[folded.leaf],
            table.energy_j[rows],
            folded.count[folded.leaf],
            [table.op[row] for row in rows],
            self.standardise,
        )

    def _examples(
        self, table: NodeTable, folded: FoldedTrees, columns: Floats, leaf_j: Floats
    ) -> list[Example]:
        energy_j = table.energy_j[folded.row]
        importance = np.where(folded.leaf, 0.0, folded.count)
        if self.scaled_loss:
            importance = importance / energy_j**2
        return [
            Example(
                tree,
                columns[tree.nodes],
                leaf_j[tree.nodes],
                energy_j[tree.nodes],
                importance[tree.nodes],
            )
            for tree in folded.trees
        ]


def _leaf_energies(
    leaves: LeafRegressors, table: NodeTable, folded: FoldedTrees, values: Floats
) -> Floats:
    """Energy of every distinct leaf, J; 0 for parents."""
    energy_j = np.zeros(len(folded.row))
    classes = [table.op[row] for row in folded.row[folded.leaf]]
    energy_j[folded.leaf] = leaves.predict(values[folded.leaf], classes)
    return energy_j


irene = partial(TreeMethod, "irene")
stepwise = partial(TreeMethod, "stepwise", stepwise=True)
sum_of_children = partial(TreeMethod, "sum", weighting="one")
"""The methods of this tree, as `irene.predict.methods.METHODS` names them."""
