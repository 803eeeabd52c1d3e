"""The methods of the IrEne paper (Cao et al., ACL 2021) and what it compares with.

- `features`: what a regressor sees of a node.
- `folding`: trees with equal nodes once.
- `leaf`: one linear regressor per primitive class.
- `composition`: parents as weighted sums of their children, with the gradient.
- `training`: Adam, one tree at a time.
- `irene`: the methods `irene`, `stepwise` and `sum`.
- `baselines`: the methods `unstructured` and `utilisation`.
- `registry`: the five by name.
"""

from irene.predict.paper.baselines import DesktopPower, Unstructured, Utilisation
from irene.predict.paper.composition import Composition
from irene.predict.paper.irene import TreeMethod, TreeOptions
from irene.predict.paper.node_features import FEATURE_SETS, FeatureSet, feature_set
from irene.predict.paper.paper_training import Training
from irene.predict.paper.registry import PAPER_METHODS

__all__ = [
    "FEATURE_SETS",
    "PAPER_METHODS",
    "Composition",
    "DesktopPower",
    "FeatureSet",
    "Training",
    "TreeMethod",
    "TreeOptions",
    "Unstructured",
    "Utilisation",
    "feature_set",
]
