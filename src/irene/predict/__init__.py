"""Predictors: learn from measured trees, predict the energy of every node of others.

The package is also the function: `irene.predict("bert-base-uncased", on="pc1")`.

- `api`: that function. `machines.finding`: machines by name or file; `machines`: what
  they are: predictors with rates of kernels (`specs`) or of ops run one after the other
  (`serial_machine`), and data-centre GPUs (`gpu`).
- `intervals`: how far a prediction can be trusted.
- `methods`: the shape all methods share, and `METHODS`, those that exist by name;
  `paper`: those of the IrEne paper and what it compares with; `learned_file`: what was
  learned, as values and in files.
- `learning`: machines and methods from measured trees: `join` matches those with
  traces, `own_data` reads them, `training_runs` fits machines and any method and keeps
  them, `machine_calibration` brings a known machine to another with the factors of
  `scaling`.
- `exams`: `splits` of a `crossvalidation`; `evaluation` compares a saved predictor with
  measured trees.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "irene.predict.api": ("predict",),
    "irene.predict.exams.crossvalidation": (
        "CrossValidation", "Errors", "Row", "crossvalidate",
    ),
    "irene.predict.exams.splits": ("SPLITS", "Fold", "Split", "make_split"),
    "irene.predict.methods": ("METHODS", "Factory", "Method", "make_method"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a part only when something in it is asked for."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
