"""The machine that is meant where nobody names one, and why."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import NamedTuple

from irene.errors import FormatError
from irene.meters.cpu.kernel_files import Roots, text_in
from irene.meters.machine import read_processor
from irene.predict.machines.finding import (
    DEFAULT,
    THIS_MACHINE,
    find_machine,
    hardware_folder,
    known_machines,
)
from irene.whole_file import whole_file

SHIPPED = "pc1"
VARIABLE = "IRENE_HARDWARE"
USED = ".used"
"""File that keeps what `irene hardware use` chose."""


class Chosen(NamedTuple):
    """The machine that is meant where nobody names one.

    Attributes:
        name: Of the machine.
        why: In words.
    """

    name: str
    why: str


def default_machine() -> Chosen:
    """The machine of `$IRENE_HARDWARE`, of `irene hardware use`, or learned here.

    Else the one that ships. What was learned on another machine, in a home that both
    share, is not taken for this one.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Chosen(named, f"{VARIABLE} says so")
    used = text_in(hardware_folder() / USED)
    if used:
        return Chosen(used, "`irene hardware use` chose it")
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
    """Choose the machine that is meant where nobody names one.

    Args:
        name: Of a machine, or a file; None to choose none.

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
    """The machine that is meant, by its own name.

    Args:
        on: As it was asked for.
    """
    return default_machine().name if on == DEFAULT else on


def chosen_note(on: str) -> tuple[str, ...]:
    """What to say of the machine of a prediction: nothing where somebody named it.

    Args:
        on: As it was asked for.
    """
    if on != DEFAULT:
        return ()
    name, why = default_machine()
    return (f"for {name}: {why}",)
