"""The machine and the run that are meant where nobody says so, and why."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import NamedTuple

from irene.errors import FormatError
from irene.meters.cpu.kernel_files import Roots, text_in
from irene.meters.machine import read_processor
from irene.predict.machines.added import hardware_folder
from irene.predict.machines.finding import (
    DEFAULT,
    THIS_MACHINE,
    find_machine,
    known_machines,
)
from irene.spec import SERVING_PHASES, RunSpec
from irene.trace.model_files import is_engines_file
from irene.whole_file import whole_file

SHIPPED = "pc1"
LLAMA_CPP = "rtx4090"
"""Machine whose servings were measured with llama.cpp."""
VARIABLE = "IRENE_HARDWARE"
USED = ".used"
"""File that keeps what `irene hardware use` chose."""


class Chosen(NamedTuple):
    """The machine that is meant where nobody names one, and why, in words."""

    name: str
    why: str


def default_machine(*, of_llama_cpp: bool = False) -> Chosen:
    """The machine of `$IRENE_HARDWARE`, of `irene hardware use`, or learned here.

    Else the one that ships. What was learned on another machine, in a home that both
    share, is not taken for this one; nor is what was learned with PyTorch for a file
    that only llama.cpp runs.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Chosen(named, f"{VARIABLE} says so")
    used = text_in(hardware_folder() / USED)
    if used:
        return Chosen(used, "`irene hardware use` chose it")
    if of_llama_cpp:
        why = "llama.cpp, which runs GGUF files, was measured there"
        return Chosen(LLAMA_CPP, f"{why}; --on names another")
    path = known_machines().get(THIS_MACHINE)
    if path is None:
        how = "`irene learn --quick` learns this machine in 3 minutes"
        return Chosen(SHIPPED, f"nothing was learned here yet; {how}")
    try:
        told = find_machine(THIS_MACHINE).provenance
    except FormatError as error:
        return Chosen(SHIPPED, f"{error}; `irene learn` learns this machine anew")
    where = told.get("fingerprint")
    if where is not None and where != fingerprint():
        return Chosen(
            SHIPPED, f"{THIS_MACHINE} was learned on another machine ({where}): `irene "
            "learn` learns this one",
        )  # fmt: skip
    return Chosen(THIS_MACHINE, f"learned here on {told.get('date', 'some day')}")


def fingerprint() -> str:
    """What tells this machine from another, in words."""
    processor = read_processor(Roots())
    return f"{processor.name or platform.machine()}, {processor.threads} CPUs"


def use_machine(name: str | None) -> Path:
    """Choose the machine that is meant where nobody names one; None chooses none.

    Raises:
        UsageError: There is none, or it cannot be written down.
    """
    path = hardware_folder() / USED
    if name is None:
        path.unlink(missing_ok=True)
        return path
    find_machine(name)
    with whole_file(path) as file:
        file.write(name.encode())
    return path


def named(on: str) -> str:
    """The machine that is meant, by its own name."""
    return default_machine().name if on == DEFAULT else on


class Meant(NamedTuple):
    """A run on a machine, where somebody may have left either open.

    Attributes:
        run: The run.
        on: Name or file of the machine.
        why: Why it is that machine: nothing where somebody named it.
    """

    run: RunSpec
    on: str
    why: tuple[str, ...] = ()


def meant(run: RunSpec, on: str, device: str = "meta") -> Meant:
    """What is run, and where.

    PyTorch does not run a GGUF file: of a language model in one, its serving is meant,
    unless somebody asks for what only a trace has; of one stream at a time where that
    was measured.
    """
    traced = ("attention", "decoder_len", "model_class", "dtype")
    is_served = (
        device == "meta"
        and (run.phase in SERVING_PHASES or not run.given("phase"))
        and not any(map(run.given, traced))
        and is_engines_file(run.model)
    )
    why: tuple[str, ...] = ()
    if on == DEFAULT:
        on, reason = default_machine(of_llama_cpp=is_served)
        why = (f"for {on}: {reason}",)
    if is_served and not run.given("phase") and find_machine(on).serves:
        run = run.chosen_as(phase="generate").resolved(find_machine(on))
    return Meant(run, on, why)
