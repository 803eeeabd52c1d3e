"""`irene train-ops`: learn data-centre GPUs from tables of measured kernels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.predict.machines.gpu.device import GpuDevice

__all__ = ["configure", "run"]

EXAMPLES = """\
DATA has a folder per GPU with gemm.parquet, context_attention.parquet,
generation_attention.parquet and moe.parquet; a name such as gpu-ops is looked for in
IRENE_DATA_DIR. The same data gives the same bytes.

examples:
  irene train-ops gpu-ops --out machines
  irene train-ops ./tables --out machines --json
  irene hardware add machines/h200.json.gz --name my-h200
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene train-ops DATA --out FOLDER [options]"
    parser.epilog = EXAMPLES
    parser.add_argument("data", metavar="DATA", help="folder of folders of tables")
    parser.add_argument(
        "--out", metavar="FOLDER", required=True,
        help="folder for a file per GPU (NAME.json.gz)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Read, learn, write and say what was learned."""
    folder = Path(options.out)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is not a folder")
    from irene.predict.machines.gpu.device_file import device_bytes, write_device
    from irene.predict.machines.gpu.kernel_training import train_devices
    from irene.predict.machines.gpu.known_devices import known_sheets

    devices = train_devices(_data(options.data), known_sheets(), _say)
    files = {device.name: write_device(device, folder) for device in devices}
    sizes = {device.name: len(device_bytes(device)) for device in devices}
    if options.json:
        _put(devices, files, sizes)
    else:
        _print(devices, files, sizes)
    return 0


def _data(name: str) -> Path:
    """A folder, or one of that name in IRENE_DATA_DIR."""
    import os

    home = os.environ.get("IRENE_DATA_DIR")
    if not Path(name).exists() and home and (Path(home) / name).is_dir():
        return Path(home) / name
    return Path(name)


def _say(what: str) -> None:
    print(what, file=sys.stderr)


def _put(
    devices: Sequence[GpuDevice], files: Mapping[str, Path], sizes: Mapping[str, int]
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "name": device.name,
            "out": str(files[device.name]),
            "bytes": sizes[device.name],
            "provenance": dict(device.provenance),
        }
        for device in devices
    ]
    document = {"schema": "irene.ops_training/1", "gpus": rows}
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    print()


def _print(
    devices: Sequence[GpuDevice], files: Mapping[str, Path], sizes: Mapping[str, int]
) -> None:
    from irene.cli.machines.gpu_text import kernel_lines

    for device in devices:
        print(f"{device.name}: {device.sheet.description}")
        print(*kernel_lines(device.provenance), sep="\n")
        print(f"wrote {files[device.name]}: {sizes[device.name]:,} bytes\n")
