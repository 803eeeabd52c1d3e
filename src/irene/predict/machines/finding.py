"""Machines by name or file: predictors and GPUs that ship, or that a user added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from irene.errors import UsageError
from irene.predict.machines.added import hardware_folder
from irene.predict.machines.learned.learned_machine import (
    LEARNED_SCHEMA,
    LearnedMachine,
)
from irene.predict.machines.predictor import Predictor
from irene.saved import load_file
from irene.spec import Runs
from irene.tree import ModelTree
from irene.whole_file import trying_to, whole_file

if TYPE_CHECKING:
    from irene.predict.machines.gpu.gpu_machine import GpuMachine

DEFAULT = "default"
"""Name that means the machine of `default_machine`."""
THIS_MACHINE = "this-machine"
LEARNED = ".json.gz"
PREDICTOR = ".json"
SHEET = ".toml"
SUFFIXES = (LEARNED, PREDICTOR, SHEET)
"""Files of machines: learned GPUs, predictors, datasheets of GPUs."""


class Machine(Runs, Protocol):
    """Anything that can be asked for the energy of a tree."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where it comes from."""

    @property
    def digest(self) -> str:
        """What names its content: SHA-256 of everything that decides predictions."""

    def predict(self, tree: ModelTree, step_s: float | None = None) -> ModelTree:
        """The same tree carrying predicted energies.

        Args:
            tree: A traced tree, or a serving's where the machine serves.
            step_s: Measured time between two tokens of a stream, s, of a serving.
        """

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, as JSON-ready values."""


@cache
def _shipped() -> tuple[Path, ...]:
    files = resources.files("irene.predict").joinpath("machines", "files")
    folders = [Path(str(files)), Path(str(files)) / "gpu"]
    return tuple(file for folder in folders for file in sorted(folder.iterdir()))


@cache
def shipped_files(*suffixes: str) -> Mapping[str, Path]:
    """Files of machines that ship, by name; of one name the last suffix counts."""
    return _by_name(_shipped(), suffixes)


def _added(*suffixes: str) -> dict[str, Path]:
    folder = hardware_folder()
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return dict(sorted(_by_name(files, suffixes).items()))


def _by_name(files: Iterable[Path], suffixes: Iterable[str]) -> dict[str, Path]:
    files = [file for file in files if not file.name.startswith(".")]
    return {
        file.name.removesuffix(suffix): file
        for suffix in suffixes
        for file in files
        if _suffix(file) == suffix
    }


def _suffix(file: Path) -> str:
    return next((suffix for suffix in SUFFIXES if file.name.endswith(suffix)), "")


def machine_files(*suffixes: str) -> dict[str, Path]:
    """The same of machines that ship, and of those a user added."""
    return {**shipped_files(*suffixes), **_added(*suffixes)}


def known_predictors() -> dict[str, Path]:
    """Files of predictors, which were fitted to measured trees, by name."""
    return machine_files(PREDICTOR)


def known_machines() -> dict[str, Path]:
    """Files of all machines by name: predictors first, then GPUs."""
    predictors, gpus = known_predictors(), machine_files(SHEET, LEARNED)
    return {**predictors, **{k: v for k, v in gpus.items() if k not in predictors}}


def find_machine(on: str) -> Machine:
    """The machine of a name, or in a file.

    A file counts as it is now, whatever this process has read of it before.

    Raises:
        UsageError: No such machine and no such file.
        FormatError: The file is not that of a machine, or is damaged.
    """
    files = known_machines()
    if on == DEFAULT:
        from irene.predict.machines.chosen import default_machine

        on = default_machine().name
    if on not in files and not on.endswith(SUFFIXES) and not Path(on).is_file():
        there = f"there is {', '.join(files)}, or give the file of a predictor"
        if on == THIS_MACHINE:
            there = "nothing was learned here yet: `irene learn --quick`, in 3 minutes"
        raise UsageError(f"unknown hardware {on!r}; {there}")
    path = files.get(on, Path(on))
    with trying_to("read", path):
        state = path.stat()
    return _read(path, (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=64)
def _read(path: Path, state: tuple[int, int, int]) -> Machine:
    """Read once for as long as the file stays as it is."""
    del state  # only tells two contents of one file apart
    suffix = _suffix(path)
    if suffix not in (SHEET, LEARNED):
        return load_file(path, _machine_of)
    from irene.predict.machines.gpu.datasheet import read_datasheet
    from irene.predict.machines.gpu.gpu_device import read_device, stand_in
    from irene.predict.machines.gpu.gpu_machine import GpuMachine
    from irene.predict.machines.gpu.serving_calibration import calibration_of

    name = path.name.removesuffix(suffix)
    if suffix == LEARNED:
        device = replace(read_device(path), name=name)
    else:
        device = stand_in(replace(read_datasheet(path), name=name))
    told = calibration_of(name)
    return GpuMachine(device, told, told.engine)


def _machine_of(fields: Mapping[str, Any]) -> Predictor | LearnedMachine:
    """A machine of the fields of its file, whichever way it was learned."""
    if fields.get("schema") != LEARNED_SCHEMA:
        return Predictor.from_dict(fields)
    return LearnedMachine.from_dict(fields)


def keep_machine(machine: LearnedMachine) -> Path:
    """Register a machine that was learned, under its own name.

    Raises:
        UsageError: The name cannot be that of a file, or it cannot be written.
    """
    name = _good_name(machine.hardware.name)
    kept = hardware_folder() / f"{name}{PREDICTOR}"
    machine.save(kept)
    return kept


def find_gpu(on: str) -> GpuMachine:
    """The data-centre GPU of a name, or in a file.

    Raises:
        UsageError: There is none, or it is no GPU that is predicted kernel by kernel.
    """
    from irene.predict.machines.gpu.gpu_machine import GpuMachine

    machine = find_machine(on)
    if not isinstance(machine, GpuMachine):
        raise UsageError(f"{on} is not predicted kernel by kernel, as GPUs are")
    return machine


def find_trained(on: str) -> Predictor:
    """The predictor of a machine that was fitted to measured trees, or in a file.

    Raises:
        UsageError: No such machine and no such file, or it was fitted to no trees.
    """
    machine = find_machine(on)
    if isinstance(machine, LearnedMachine):
        raise UsageError(
            f"{on} was learned from single kernels, and was fitted to no measured "
            "trees: `irene learn --check` says whether it behaves as it was learned"
        )
    if not isinstance(machine, Predictor):
        raise UsageError(
            f"{on} is predicted kernel by kernel, and was fitted to no measured trees: "
            "this needs the file of a predictor, or pc1"
        )
    return machine


def add_machine(
    path: Path, name: str | None = None, is_sheet: bool = False
) -> tuple[str, Path]:
    """Add a machine, or put it in the place of an added one of that name.

    Returns:
        Its name, and the file that is kept.

    Raises:
        UsageError: The name cannot be that of a file, or a file cannot be read or
            written.
        FormatError: It is not a file of a machine.
    """
    suffix, own = _checked(path, is_sheet)
    name = _good_name(name or own)
    content, kept = path.read_bytes(), hardware_folder() / f"{name}{suffix}"
    for other in SUFFIXES:
        _added(other).get(name, kept).unlink(missing_ok=True)
    with whole_file(kept) as file:
        file.write(content)
    return name, kept


def _good_name(name: str) -> str:
    is_good = all(c.isalnum() or c in "-_." for c in name) and name != DEFAULT
    if not name or name.startswith(".") or not is_good:
        raise UsageError(
            f"{name!r} cannot name a machine: use letters, digits, - _ and ."
        )
    return name


def _checked(path: Path, is_sheet: bool) -> tuple[str, str]:
    """What kind of file it is, and the name in it."""
    from irene.predict.machines.gpu.datasheet import read_datasheet
    from irene.predict.machines.gpu.gpu_device import read_device

    if is_sheet:
        return SHEET, read_datasheet(path).name
    if path.name.endswith(LEARNED):
        return LEARNED, read_device(path).name
    return PREDICTOR, load_file(path, _machine_of).hardware.name


def remove_machine(name: str) -> Path:
    """Forget an added machine.

    Raises:
        UsageError: None of that name was added.
    """
    files = _added(*SUFFIXES)
    if name not in files:
        names = ", ".join(files) or "none"
        raise UsageError(f"no machine {name!r} was added; those added: {names}")
    files[name].unlink()
    return files[name]
