"""`irene train-ops`: learn data-centre GPUs from tables of measured kernels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from irene.cli.machines.machine_text import kernel_lines
from irene.cli.output import put_json, say
from irene.errors import UsageError
from irene.parameters import Asked

USAGE = "DATA --out FOLDER [options]"
EXAMPLES = """\
DATA has a folder per GPU with gemm.parquet, context_attention.parquet,
generation_attention.parquet and moe.parquet; a name such as gpu-ops is looked for in
IRENE_DATA_DIR. The same data gives the same bytes.

examples:
  irene train-ops gpu-ops --out machines
  irene train-ops ./tables --out machines --json
  irene hardware add machines/h200.json.gz --name my-h200
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        data: Folder of folders of tables.
        out: Folder for a file per GPU (NAME.json.gz).
        json: One JSON document.
    """

    data: Annotated[str, Asked(word=True, metavar="DATA")]
    out: Annotated[str, Asked(metavar="FOLDER")]
    json: bool = False


def run(options: Options) -> int:
    """Read, learn, write and say what was learned."""
    folder = Path(options.out)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is not a folder")
    from irene.predict.machines.gpu.gpu_device import known_sheets, write_device
    from irene.predict.machines.gpu.kernel_training import train_devices

    devices = train_devices(_data(options.data), known_sheets(), say)
    files = [write_device(device, folder) for device in devices]
    rows = [
        {
            "name": device.name,
            "out": str(file),
            "bytes": file.stat().st_size,
            "provenance": dict(device.provenance),
        }
        for device, file in zip(devices, files, strict=True)
    ]
    if options.json:
        put_json({"schema": "irene.ops_training/1", "gpus": rows})
        return 0
    for device, row in zip(devices, rows, strict=True):
        print(f"{device.name}: {device.sheet.description}")
        print(*kernel_lines(device.provenance), sep="\n")
        print(f"wrote {row['out']}: {row['bytes']:,} bytes\n")
    return 0


def _data(name: str) -> Path:
    """A folder, or one of that name in IRENE_DATA_DIR."""
    home = os.environ.get("IRENE_DATA_DIR")
    if not Path(name).exists() and home and (Path(home) / name).is_dir():
        return Path(home) / name
    return Path(name)
