"""Predictors: learn from measured trees, predict the energy of every node of others.

The package is also the function: `irene.predict("bert-base-uncased", on="pc1")`.

- `api`: that function. `machines.finding`: machines by name or file; `machines`: what
  they are: predictors with rates of kernels (`specs`) or of ops run one after the other
  (`serial_machine`), and data-centre GPUs (`gpu`).
- `intervals`: how far a prediction can be trusted.
- `methods`: the shape all methods share, and `METHODS`, those that exist by name;
  `paper`: those of the IrEne paper and what it compares with.
- `learning`: machines and methods from measured trees: `join` matches those with
  traces, `own_data` reads them, `training_runs` fits machines and any method and keeps
  them, `machine_calibration` brings a known machine to another with the factors of
  `scaling`.
- `exams`: `splits` of a `crossvalidation`; `evaluation` compares a saved predictor with
  measured trees.
"""

from typing import TYPE_CHECKING

from irene.lazy import lazily

if TYPE_CHECKING:
    from irene.predict.api import predict
    from irene.predict.exams.crossvalidation import (
        CrossValidation,
        Errors,
        Row,
        crossvalidate,
    )
    from irene.predict.exams.splits import SPLITS, Fold, Split, make_split
    from irene.predict.methods import METHODS, Factory, Method, make_method

__all__ = [
    "METHODS",
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

__getattr__ = lazily(__name__)
