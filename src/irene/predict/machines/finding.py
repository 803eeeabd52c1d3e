"""Machines that are known by name: predictors and GPUs that ship, or were added."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from irene.errors import UsageError
from irene.hardware import Hardware
from irene.predict.machines.predictor import Predictor, load_predictor
from irene.predict.machines.user_hardware import added_files
from irene.spec import Attention, DType
from irene.tree import ModelTree

if TYPE_CHECKING:
    from irene.predict.machines.gpu.gpu_machine import GpuMachine

__all__ = [
    "Machine",
    "find_gpu",
    "find_predictor",
    "find_trained",
    "is_gpu",
    "known_gpus",
    "known_machines",
    "known_predictors",
]


class Machine(Protocol):
    """Anything that can be asked for the energy of a tree."""

    @property
    def hardware(self) -> Hardware:
        """The machine, as trees carry it."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where it comes from."""

    @property
    def usual_dtype(self) -> DType:
        """Type that is run unless somebody says otherwise."""

    @property
    def usual_attention(self) -> Attention:
        """Attention that is run unless somebody says otherwise."""

    @property
    def serves(self) -> bool:
        """Whether servings of language models can be predicted for it."""

    def predict(self, tree: ModelTree, step_s: float | None = None) -> ModelTree:
        """The same tree carrying predicted energies.

        Args:
            tree: A traced tree, or a serving's where the machine serves.
            step_s: Measured time between two tokens of a stream, s, of a serving.
        """

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, as JSON-ready values."""


def known_predictors() -> dict[str, Path]:
    """Files of predictors, which were fitted to measured trees, by name.

    Those that ship, and those a user added.
    """
    return {**_shipped_predictors(), **added_files(".json")}


@cache
def _shipped_predictors() -> dict[str, Path]:
    folder = resources.files("irene.predict").joinpath("machines", "files")
    return {
        Path(str(file)).stem: Path(str(file))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".json")
    }


def known_gpus() -> dict[str, Path]:
    """Files of data-centre GPUs by name: those that ship, and those a user added."""
    from irene.predict.machines.gpu.known_devices import known_devices

    return known_devices()


def known_machines() -> dict[str, Path]:
    """Files of all machines by name: predictors first, then GPUs."""
    return {**known_predictors(), **known_gpus()}


def is_gpu(on: str) -> bool:
    """Whether a name is that of a data-centre GPU."""
    return on in known_gpus() and on not in known_predictors()


@cache
def find_gpu(on: str) -> GpuMachine:
    """The GPU of a name, with how servings on it differ from single kernels.

    Raises:
        UsageError: There is none.
    """
    from irene.predict.machines.gpu.device import find_device
    from irene.predict.machines.gpu.gpu_machine import GpuMachine
    from irene.predict.machines.gpu.serving_calibration import calibration_of

    return GpuMachine(find_device(on), calibration_of(on))


def find_predictor(on: str) -> Machine:
    """The machine of a name, or the predictor in a file.

    Raises:
        UsageError: No such machine and no such file.
    """
    return find_gpu(on) if is_gpu(on) else find_trained(on)


@cache
def find_trained(on: str) -> Predictor:
    """The predictor of a machine that was fitted to measured trees, or in a file.

    Raises:
        UsageError: No such machine and no such file, or it is a GPU that is predicted
            kernel by kernel.
    """
    if on in known_predictors():
        return load_predictor(known_predictors()[on])
    if is_gpu(on):
        raise UsageError(
            f"{on} is predicted kernel by kernel, and was fitted to no measured trees: "
            "this needs the file of a predictor, or pc1"
        )
    if on.endswith(".json") or Path(on).is_file():
        return load_predictor(on)
    names = ", ".join(known_machines())
    raise UsageError(
        f"unknown hardware {on!r}; there is {names}, or give the file of a predictor"
    )
