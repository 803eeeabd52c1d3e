"""`irene hardware`: the machines we know, and those you add."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from irene.cli.machines.machine_text import fleet, machine_lines
from irene.cli.output import put, put_json, screen
from irene.errors import UsageError
from irene.parameters import Asked

USAGE = "[add|remove|use] [NAME …] [options]"
EXAMPLES = """\
A datasheet is a TOML file; the prediction of a GPU that was never measured is wider
and says whose kernels stand in for its own:

  description = "NVIDIA A100 SXM 80 GB"
  memory = "hbm"
  hbm_tb_s = 2.039
  tdp_w = 400
  idle_w = 60
  link_gb_s = 300
  [tflops]
  bf16 = 312

examples:
  irene hardware
  irene hardware this-machine
  irene hardware use lab
  irene hardware --json
  irene hardware add --datasheet a100.toml
  irene hardware add lab.json --name lab
  irene hardware remove lab
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        names: Machines, or files of predictors, in full (default: all known, a line
            each); after `add` the file of a machine, after `remove` an added name,
            after `use` the machine that is meant where nobody names one (none: as
            before).
        datasheet: Add: the datasheet of a GPU (TOML).
        name: Add: its name (default: as in the file).
        json: One JSON document.
    """

    names: Annotated[tuple[str, ...], Asked(word=True, metavar="NAME")] = ()
    datasheet: Annotated[str | None, Asked(metavar="FILE")] = None
    name: Annotated[str | None, Asked(metavar="NAME")] = None
    json: bool = False


def run(options: Options) -> int:
    """Look up and print, add or remove."""
    word = options.names[0] if options.names else ""
    if word == "add":
        return _add(options)
    if options.datasheet or options.name:
        raise UsageError("--datasheet and --name belong to `irene hardware add`")
    if word == "remove":
        return _remove(options)
    if word == "use":
        return _use(options)
    from irene.analyse.listings import hardware_document

    document = hardware_document(options.names)
    if options.json:
        put_json(document)
        return 0
    if not options.names:
        screen().print(*fleet(document), sep="\n")
        return 0
    for i, fields in enumerate(document["hardware"]):
        print(*([""] if i else []), *machine_lines(fields), sep="\n")
    return 0


def _use(options: Options) -> int:
    if len(options.names) > 2:
        raise UsageError("use one machine: `irene hardware use NAME`")
    from irene.predict.machines.chosen import default_machine, use_machine

    path = use_machine(options.names[1] if len(options.names) == 2 else None)
    name, why = default_machine()
    _tell(options, "used", name, path, f"predictions are for {name}: {why}")
    return 0


def _add(options: Options) -> int:
    files = options.names[1:]
    if (len(files) == 1) == bool(options.datasheet) or len(files) > 1:
        raise UsageError("add one file: a predictor, or --datasheet FILE")
    from irene.predict.machines.finding import add_machine

    path = Path(options.datasheet or files[0])
    name, kept = add_machine(path, options.name, bool(options.datasheet))
    _tell(options, "added", name, kept)
    return 0


def _remove(options: Options) -> int:
    if len(options.names) != 2:
        raise UsageError("remove one machine: `irene hardware remove NAME`")
    from irene.predict.machines.finding import remove_machine

    name = options.names[1]
    _tell(options, "removed", name, remove_machine(name))
    return 0


def _tell(options: Options, done: str, name: str, path: Path, words: str = "") -> None:
    document = {done: name, "file": str(path)}
    lines = [words or f"{done} {name}: {path}"]
    put(options, document, lines, "irene.hardware_change/1")
