"""`irene hardware`: the machines we know, and those you add."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from irene.errors import UsageError

__all__ = ["configure", "run"]

EXAMPLES = """\
A datasheet is a TOML file; the prediction of a GPU that was never measured is wider
and says whose kernels stand in for its own:

  description = "NVIDIA A100 SXM 80 GB"
  hbm_tb_s = 2.039
  tdp_w = 400
  idle_w = 60
  link_gb_s = 300
  [tflops]
  bf16 = 312

examples:
  irene hardware
  irene hardware lab.json
  irene hardware --json
  irene hardware add --datasheet a100.toml
  irene hardware add lab.json --name lab
  irene hardware remove lab
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene hardware [add|remove] [NAME …] [options]"
    parser.epilog = EXAMPLES
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help="known machines, or files of predictors (default: all known); after "
        "`add` the file of a predictor or of a GPU, after `remove` an added name",
    )  # fmt: skip
    parser.add_argument(
        "--datasheet", metavar="FILE", help="add: the datasheet of a GPU (TOML)"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="add: its name (default: as in the file)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(options: argparse.Namespace) -> int:
    """Look up and print, add or remove."""
    word = options.names[0] if options.names else ""
    if word == "add":
        return _add(options)
    if options.datasheet or options.name:
        raise UsageError("--datasheet and --name belong to `irene hardware add`")
    if word == "remove":
        return _remove(options)
    from irene.analyse.known import hardware_document

    document = hardware_document(options.names)
    if options.json:
        _put(document)
    else:
        _print_machines(document["hardware"])
    return 0


def _add(options: argparse.Namespace) -> int:
    files = options.names[1:]
    if (len(files) == 1) == bool(options.datasheet) or len(files) > 1:
        raise UsageError("add one file: a predictor, or --datasheet FILE")
    from irene.predict.machines import user_hardware

    path = Path(options.datasheet or files[0])
    name, suffix = _checked(path, bool(options.datasheet))
    kept = user_hardware.keep(options.name or name, suffix, path.read_bytes())
    _tell(options, "added", options.name or name, kept)
    return 0


def _checked(path: Path, is_sheet: bool) -> tuple[str, str]:
    """The name in a file that can be read, and what kind of file it is."""
    if is_sheet:
        from irene.predict.machines.gpu.datasheet import read_datasheet

        return read_datasheet(path).name, ".toml"
    if path.name.endswith(".json.gz"):
        from irene.predict.machines.gpu.device_file import read_device

        return read_device(path).name, ".json.gz"
    from irene.predict.machines.predictor import load_predictor

    return load_predictor(path).hardware.name, ".json"


def _remove(options: argparse.Namespace) -> int:
    if len(options.names) != 2:
        raise UsageError("remove one machine: `irene hardware remove NAME`")
    from irene.predict.machines import user_hardware

    name = options.names[1]
    _tell(options, "removed", name, user_hardware.remove(name))
    return 0


def _tell(options: argparse.Namespace, done: str, name: str, path: Path) -> None:
    if options.json:
        _put({"schema": "irene.hardware_change/1", done: name, "file": str(path)})
    else:
        print(f"{done} {name}: {path}")


def _put(document: Mapping[str, Any]) -> None:
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    print()


def _print_machines(machines: Sequence[Mapping[str, Any]]) -> None:
    for i, fields in enumerate(machines):
        lines = list(_lines(fields))
        print(*(["", *lines] if i else lines), sep="\n")


def _lines(fields: Mapping[str, Any]) -> Iterator[str]:
    from irene.cli.machines import gpu_text
    from irene.cli.machines import machine_text as text

    if "datasheet" in fields:
        yield from gpu_text.gpu_lines(fields)
        return
    told = fields["provenance"]
    yield from text.machine_lines(fields)
    yield from text.domain_lines(fields["domain"])
    yield from text.error_lines(told)
    yield from text.width_lines(fields["widths"], told.get("coverage"))
