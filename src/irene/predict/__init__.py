"""Predictors: learn from measured trees, predict the energy of every node of others.

- `method`: the shape all predictors share, and `METHODS`, those that exist by name.
- `paper`: the methods of the IrEne paper and what it compares with.
- `splits`: what a cross-validation holds out; `families`: models that belong together.
- `evaluation`: errors per level, cross-validation.
"""

from irene.predict.evaluation import CrossValidation, Errors, Row, crossvalidate
from irene.predict.method import METHODS, Factory, Method, make_method
from irene.predict.paper import PAPER_METHODS
from irene.predict.splits import SPLITS, Fold, Split, make_split

__all__ = [
    "METHODS",
    "PAPER_METHODS",
    "SPLITS",
    "CrossValidation",
    "Errors",
    "Factory",
    "Fold",
    "Method",
    "Row",
    "Split",
    "crossvalidate",
    "make_method",
    "make_split",
]

METHODS.update(PAPER_METHODS)
