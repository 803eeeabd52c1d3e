"""The methods of the IrEne paper (Cao et al., ACL 2021) and what it compares with.

- `regressors`: what a regressor sees of a node; one linear regressor per class.
- `folded_trees`: trees with equal nodes once.
- `tree_method`: the methods `irene`, `stepwise` and `sum`.
- `baselines`: the methods `unstructured` and `utilisation`, and our own from counters.
"""

from irene.predict.paper.baselines import Unstructured, Utilisation
from irene.predict.paper.regressors import FEATURE_SETS, FeatureSet, feature_set
from irene.predict.paper.tree_method import Composition, TreeMethod

__all__ = [
    "FEATURE_SETS",
    "Composition",
    "FeatureSet",
    "TreeMethod",
    "Unstructured",
    "Utilisation",
    "feature_set",
]
