"""Column: one series of a log, before it is sorted and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Column"]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One series of a log.

    Attributes:
        name: What the log calls it; "" if it holds one only.
        times: When, ns since 1970; as on the clock of the place where `is_local`.
        values: Power, W, or where `is_counter` energy so far, J.
        is_counter: Whether it counts energy.
        is_local: Whether the log does not say of which zone its times are.
        device: As torch names it; "" for the machine, or where the log does not tell.
        covers: What it covers: `gpu-board`, `cpu-package`, …; "" where unknown.
        notes: What a reader should know.
    """

    name: str
    times: Any
    values: Any
    is_counter: bool = False
    is_local: bool = False
    device: str = ""
    covers: str = ""
    notes: tuple[str, ...] = ()
