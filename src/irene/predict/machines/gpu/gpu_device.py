"""A GPU that answers for ops: the time of each, with its interval.

Its file is one gzipped JSON object with the models and where they are from. A GPU that
is known by its datasheet alone has the models of the one that is most like it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Bools, Floats
from irene.predict.machines.finding import (
    LEARNED,
    SHEET,
    machine_files,
    shipped_files,
)
from irene.predict.machines.gpu.datasheet import Datasheet, distance, read_datasheet
from irene.predict.machines.gpu.kernel_models import KernelModels
from irene.predict.machines.gpu.kernel_ops import Op, columns_of
from irene.predict.machines.gpu.kernel_work import work_of
from irene.saved import (
    check_schema,
    fields_of,
    file_bytes,
    load_file,
)
from irene.whole_file import whole_file

NUMBERS = 6
"""Fields of `OpCosts` that are numbers, in their order."""


@dataclass(frozen=True, slots=True)
class OpCosts:
    """Times of many ops, an array each in the order they were given.

    Attributes:
        time_s: Seconds.
        time_low: Lower end of the 90 % interval of the time, s.
        time_high: Its upper end, s.
        flops: Counted from the shapes.
        bytes: Counted from the shapes.
        doubt: What being rough adds to half the intervals, in log units.
        reasons: Why no measurement of such an op is behind it, "" where one is.
    """

    time_s: Floats
    time_low: Floats
    time_high: Floats
    flops: Floats
    bytes: Floats
    doubt: Floats
    reasons: tuple[str, ...]

    @property
    def is_rough(self) -> Bools:
        """Whether no measurement of such an op is behind it."""
        return np.array([reason != "" for reason in self.reasons], dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.time_s)


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One GPU.

    Attributes:
        name: As given to `--on`.
        sheet: Its datasheet.
        kernels: Models of its kernels, or those of the GPU that stands in for it.
        provenance: Data, versions, held-out errors.
        digest: SHA-256 of what it was loaded from.
    """

    name: str
    sheet: Datasheet
    kernels: KernelModels
    provenance: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def costs(self, ops: Sequence[Op], eager: bool = False) -> OpCosts:
        """Time of every op, and what it computes and moves.

        Args:
            ops: What is run.
            eager: As the tables were measured, one launch after the other. Otherwise
                as serving engines run, in graphs, where small kernels do not wait for
                the host.
        """
        rows = np.zeros((NUMBERS, len(ops)))
        reasons = np.full(len(ops), "", dtype=object)
        for group in columns_of(ops):
            times, work = self.kernels.times(group, self.sheet, eager), work_of(group)
            ends = (times.time_s * np.exp(end) for end in (times.low, times.high))
            rows[:, group.places] = np.stack(
                [times.time_s, *ends, work.flops, work.bytes, times.doubt]
            )
            reasons[group.places] = times.reasons
        return OpCosts(*rows, tuple(reasons.tolist()))  # type: ignore[call-arg]


SCHEMA = "irene.gpu/2"


def device_bytes(device: GpuDevice) -> bytes:
    """A device as the bytes of its file: the same device gives the same bytes."""
    content = {
        "schema": SCHEMA,
        "sheet": device.sheet.to_dict(),
        "leaves": device.kernels.to_dict(),
        "provenance": dict(device.provenance),
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def write_device(device: GpuDevice, folder: Path) -> Path:
    """Write a device into a folder, under its name."""
    path = folder / f"{device.name}{LEARNED}"
    with whole_file(path) as file:
        file.write(device_bytes(device))
    return path


def read_device(path: str | Path) -> GpuDevice:
    """Read what `write_device` wrote.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a device, is damaged, or of a newer version.
    """
    device = load_file(path, _device)
    return replace(device, digest=hashlib.sha256(file_bytes(path)).hexdigest())


def _device(fields: Mapping[str, Any]) -> GpuDevice:
    check_schema(fields.get("schema"), SCHEMA)
    with fields_of("not a GPU"):
        sheet = Datasheet.from_dict(fields["sheet"])
        kernels = KernelModels.from_dict({"rivals": {}, **fields["leaves"]})
        return GpuDevice(sheet.name, sheet, kernels, dict(fields["provenance"]))


def most_alike(sheet: Datasheet) -> str:
    """The shipped GPU with tables that is most like one without."""
    sheets = known_sheets(shipped_files(SHEET))
    return min(shipped_files(LEARNED), key=lambda name: distance(sheet, sheets[name]))


def known_sheets(files: Mapping[str, Path] | None = None) -> dict[str, Datasheet]:
    """Datasheets by name of the GPU: those that ship and those a user added."""
    files = machine_files(SHEET) if files is None else files
    return {name: read_datasheet(path) for name, path in files.items()}


def stand_in(sheet: Datasheet, source: GpuDevice | None = None) -> GpuDevice:
    """A GPU known by its datasheet: its roofline, the residual of one like it."""
    other = source or read_device(shipped_files(LEARNED)[most_alike(sheet)])
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
    kernels = replace(other.kernels, stands_in=other.name)
    return GpuDevice(sheet.name, sheet, kernels, told, mixed.hexdigest())
