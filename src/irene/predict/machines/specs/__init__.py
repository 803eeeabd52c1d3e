"""`specs`: energy from shapes alone; nothing is run.

- `work`: what a tree makes a machine do: kernels, bytes, calls.
- `kernels`: energy of single kernels; `tilings`, `rates`, `residual`: how they are
  fitted.
- `composition`: from kernels to modules.
- `model`: `SpecsModel`, a machine; `method`: the same as a method of `METHODS`.
- `fallback`: models without a config.
"""

from irene.predict.machines.specs.method import SHARED_JOINER, SpecsMethod, measurements
from irene.predict.machines.specs.model import (
    Measurements,
    NodeEnergies,
    SpecsModel,
    fit_specs,
)
from irene.predict.machines.specs.work import TreeWork, work_of

__all__ = [
    "SHARED_JOINER",
    "Measurements",
    "NodeEnergies",
    "SpecsMethod",
    "SpecsModel",
    "TreeWork",
    "fit_specs",
    "measurements",
    "work_of",
]
