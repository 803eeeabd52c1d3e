"""GPUs by name: those that ship with the package, and those that a user added."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

from irene.errors import UsageError
from irene.predict.machines.gpu.datasheet import Datasheet, distance, read_datasheet
from irene.predict.machines.gpu.device import GpuDevice
from irene.predict.machines.gpu.device_file import SUFFIX, read_device
from irene.predict.machines.user_hardware import added_files

__all__ = [
    "known_devices",
    "known_sheets",
    "load_device",
    "most_alike",
    "shipped_sheets",
    "stand_in",
]

SHEET = ".toml"


def known_devices() -> dict[str, Path]:
    """Files of all GPUs by name: models where there are any, else the datasheet."""
    return {**_shipped(), **added_files(SHEET, SUFFIX)}


@cache
def _shipped() -> dict[str, Path]:
    files = _folder_files()
    learned = {name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX)}
    sheets = {name.removesuffix(SHEET) for name in files if name.endswith(SHEET)}
    return {
        name: files[name + (SUFFIX if name in learned else SHEET)]
        for name in sorted(learned | sheets)
    }


@cache
def _folder_files() -> dict[str, Path]:
    folder = resources.files("irene.predict").joinpath("machines", "files", "gpu")
    return {file.name: Path(str(file)) for file in folder.iterdir()}


def shipped_sheets() -> dict[str, Datasheet]:
    """Datasheets that ship, by name of the GPU."""
    return {
        name.removesuffix(SHEET): read_datasheet(path)
        for name, path in sorted(_folder_files().items())
        if name.endswith(SHEET)
    }


def known_sheets() -> dict[str, Datasheet]:
    """Datasheets that ship, and those that a user added, by name of the GPU."""
    added = {name: read_datasheet(path) for name, path in added_files(SHEET).items()}
    return {**shipped_sheets(), **added}


def load_device(name: str) -> GpuDevice:
    """The GPU of a name.

    Raises:
        UsageError: There is none of that name.
    """
    files = known_devices()
    if name not in files:
        names = ", ".join(files)
        raise UsageError(
            f"unknown GPU {name!r}; there is {names}; `irene hardware add --datasheet "
            "FILE` adds another"
        )
    path = files[name]
    return _load(path, path.stat().st_mtime_ns)


@cache
def _load(path: Path, changed_ns: int) -> GpuDevice:
    """Read once for as long as the file stays as it is."""
    if path.name.endswith(SUFFIX):
        return replace(read_device(path), name=path.name.removesuffix(SUFFIX))
    return stand_in(replace(read_datasheet(path), name=path.name.removesuffix(SHEET)))


def most_alike(sheet: Datasheet) -> str:
    """The shipped GPU with tables that is most like one without."""
    learned = {name: path for name, path in _shipped().items() if _is_learned(path)}
    if not learned:
        raise UsageError("no GPU with tables ships with this installation")
    sheets = shipped_sheets()
    return min(learned, key=lambda name: distance(sheet, sheets[name]))


def _is_learned(path: Path) -> bool:
    return path.name.endswith(SUFFIX)


def stand_in(sheet: Datasheet, source: GpuDevice | None = None) -> GpuDevice:
    """A GPU known by its datasheet: its roofline, the residual of another GPU.

    Args:
        sheet: The datasheet.
        source: The other GPU; the most alike one if None.
    """
    other = load_device(most_alike(sheet)) if source is None else source
    told = {
        "datasheet": sheet.to_dict(),
        "stands_in": other.name,
        "caveats": [
            f"never measured: roofline of the datasheet, residual of {other.name}"
        ],
        "data": other.provenance.get("data"),
        "transfer_percent": other.provenance.get("transfer_percent", {}),
    }
    mixed = hashlib.sha256(f"{sorted(sheet.to_dict().items())}{other.digest}".encode())
    leaves = replace(other.leaves, stands_in=other.name)
    return GpuDevice(sheet.name, sheet, leaves, told, mixed.hexdigest())
