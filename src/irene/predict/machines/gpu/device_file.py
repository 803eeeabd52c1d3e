"""Files of GPUs: one gzipped JSON object with the models and where they are from."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irene.errors import FormatError, UsageError
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.device import GpuDevice
from irene.predict.machines.gpu.leaves import Leaves
from irene.predict.machines.json_file import check_schema
from irene.whole_file import whole_file

__all__ = ["SCHEMA", "SUFFIX", "device_bytes", "read_device", "write_device"]

SCHEMA = "irene.gpu/1"
SUFFIX = ".json.gz"


def device_bytes(device: GpuDevice) -> bytes:
    """A device as the bytes of its file: the same device gives the same bytes."""
    content = {
        "schema": SCHEMA,
        "sheet": device.sheet.to_dict(),
        "leaves": device.leaves.to_dict(),
        "provenance": dict(device.provenance),
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def write_device(device: GpuDevice, folder: Path) -> Path:
    """Write a device into a folder, under its name."""
    path = folder / f"{device.name}{SUFFIX}"
    with whole_file(path) as file:
        file.write(device_bytes(device))
    return path


def read_device(path: str | Path) -> GpuDevice:
    """Read what `write_device` wrote.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: It is not a device, is damaged, or of a newer version.
    """
    try:
        packed = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        fields = json.loads(gzip.decompress(packed))
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise FormatError(f"{path}: not gzipped JSON: {error}") from error
    try:
        return _device(fields, hashlib.sha256(packed).hexdigest())
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def _device(fields: Any, digest: str) -> GpuDevice:
    if not isinstance(fields, Mapping):
        raise FormatError("not a GPU: the JSON is not an object")
    check_schema(fields.get("schema"), SCHEMA)
    try:
        sheet = Datasheet.from_dict(fields["sheet"])
        leaves = Leaves.from_dict(fields["leaves"])
        provenance = dict(fields["provenance"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(f"not a GPU: {type(error).__name__}: {error}") from error
    return GpuDevice(sheet.name, sheet, leaves, provenance, digest)
