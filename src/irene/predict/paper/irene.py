"""IrEne (Cao et al., ACL 2021): leaves from features, parents from children."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.predict.method import Floats, fitted
from irene.predict.paper.composition import Composition, Example, subtree_energies
from irene.predict.paper.folding import FoldedTrees
from irene.predict.paper.leaf import LeafRegressors
from irene.predict.paper.node_features import (
    FeatureSet,
    Standardiser,
    feature_set,
    polynomial,
)
from irene.predict.paper.paper_training import Training, train

__all__ = ["Learned", "TreeMethod", "TreeOptions"]


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The published configuration.

    Attributes:
        composition: How children make a parent.
        training: How its weights are learned.
        degree: Highest number of factors in the products of features that α sees; the
            leaves are linear.
        standardise: Whether features are brought to one scale first.
        scaled_loss: Whether errors count relative to the measured energy.
    """

    composition: Composition = field(default_factory=Composition)
    training: Training = field(default_factory=Training)
    degree: int = 3
    standardise: bool = True
    scaled_loss: bool = True


@dataclass(frozen=True, slots=True)
class Learned:
    """What `fit` found.

    Attributes:
        leaves: Energy of leaves.
        standardiser: Scale of the features of α.
        weights: w of α.
    """

    leaves: LeafRegressors
    standardiser: Standardiser
    weights: Floats


class TreeMethod:
    """A regressor per primitive class, and a weighted sum for every parent.

    Args:
        name: What it is called.
        features: What it sees of a node.
        options: How it learns.
    """

    def __init__(
        self,
        name: str = "irene",
        features: str | FeatureSet = "all",
        options: TreeOptions | None = None,
    ) -> None:
        self.name = name
        self.features = feature_set(features)
        self.options = options or TreeOptions()
        self.learned_: Learned | None = None

    def fit(self, table: NodeTable) -> TreeMethod:
        """Learn leaves, then how they add up.

        Args:
            table: Trees with the energy of every node.

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
        standardiser = Standardiser.fit(values, folded.count, self.options.standardise)
        leaf_j = _leaf_energies(leaves, table, folded, values)
        examples = self._examples(
            table, folded, self._columns(standardiser, values), leaf_j
        )
        weights = train(self.options.composition, examples, self.options.training)
        self.learned_ = Learned(leaves, standardiser, weights)
        return self

    def predict(self, table: NodeTable) -> Floats:
        """Energy of every row, J."""
        learned = fitted(self.learned_, self.name)
        folded = FoldedTrees.of(table)
        values = self.features.matrix(table)[folded.row]
        leaf_j = _leaf_energies(learned.leaves, table, folded, values)
        columns = self._columns(learned.standardiser, values)
        alpha = self.options.composition.alpha(learned.weights, columns)[0]
        energy_j = np.empty(len(folded.row))
        for tree in folded.trees:
            edges = tree.children * alpha[tree.nodes]
            energy_j[tree.nodes] = subtree_energies(
                edges, leaf_j[tree.nodes], tree.depth
            )
        return energy_j[folded.node]

    def _columns(self, standardiser: Standardiser, values: Floats) -> Floats:
        """What α sees: products of features, and the constant that is its bias."""
        if self.options.composition.weighting == "one":
            return np.ones((len(values), 2))
        columns = polynomial(standardiser.apply(values), self.options.degree)
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
            self.options.standardise,
        )

    def _examples(
        self, table: NodeTable, folded: FoldedTrees, columns: Floats, leaf_j: Floats
    ) -> list[Example]:
        energy_j = table.energy_j[folded.row]
        importance = np.where(folded.leaf, 0.0, folded.count)
        if self.options.scaled_loss:
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
