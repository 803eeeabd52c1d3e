"""Predictors: learn from measured trees, predict the energy of every node of others.

The package is also the function: `irene.predict("bert-base-uncased", on="pc1")`.

- `method`: the shape all predictors share, and `METHODS`, those that exist by name.
- `paper`: the methods of the IrEne paper and what it compares with.
- `counters`, `specs`, `partial`: from what a run measured, from shapes alone, from
  both; `join` matches measured trees with traces.
- `predictor`: a fitted machine that can be saved; `training` fits one, `intervals` and
  `domain` say how far it can be trusted, `known` finds it by name, `api` asks it,
  `assessment` compares it with measured trees.
- `calibration`: a new machine from few trees; `candidates` are what it chooses from,
  `scaling` the factors between two machines.
- `saved_methods`: any method in a file; `learned_state` takes it apart, `json_file`
  is what all files share.
- `splits`: what a cross-validation holds out; `families`: models that belong together.
- `evaluation`: errors per level, cross-validation.
"""

from irene._callable import make_callable
from irene.predict.api import predict
from irene.predict.exams.crossvalidation import (
    CrossValidation,
    Errors,
    Row,
    crossvalidate,
)
from irene.predict.exams.splits import SPLITS, Fold, Split, make_split
from irene.predict.method import METHODS, Factory, Method, make_method
from irene.predict.own_methods import OWN_METHODS
from irene.predict.paper import PAPER_METHODS

__all__ = [
    "METHODS",
    "OWN_METHODS",
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
    "predict",
]

METHODS.update(PAPER_METHODS)
METHODS.update(OWN_METHODS)

make_callable(__name__, "predict")
