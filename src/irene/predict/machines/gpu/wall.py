"""From GPU boards to the wall: host, fans and supply of a kind of machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from irene.arrays import Floats
from irene.saved import Saved, shipped_document

SCHEMA = "irene.walls/1"
FILE = "walls.json"
CUBE = 1 / 3
"""A clock that is lowered lowers the voltage too: power goes with its cube, so that
time goes with the cube root of power. An assumption, of textbooks."""


@dataclass(frozen=True, slots=True)
class Wall(Saved):
    """Power at the wall: `fixed_w` for each GPU and `factor` times the boards'.

    Attributes:
        fixed_w: What the host takes for each GPU, whatever the board does, W.
        factor: What supply, fans and host take with the board, itself among it.
        width: Half the 90 % interval of that, in log units.
        description: Of the kind of machine, in words.
        source: What it is from.
    """

    fixed_w: float
    factor: float
    width: float
    description: str
    source: str

    def joules(self, board_j: Floats, time_s: Floats, gpus: int) -> Floats:
        """Energy at the wall, J."""
        return self.factor * board_j + self.fixed_w * gpus * time_s

    def note(self) -> str:
        """What was assumed, in words."""
        return (
            f"at the wall: {self.fixed_w:g} W for each GPU and {self.factor:g} × its "
            f"board, as in {self.description}"
        )


@cache
def walls() -> Mapping[str, Wall]:
    """Kinds of machines by name."""
    document = shipped_document(__package__, FILE, SCHEMA)
    return {name: Wall.from_dict(each) for name, each in document["walls"].items()}


def held(
    joules: Floats, time_s: Floats, idle_w: float, limit_w: float | None
) -> tuple[Floats, Floats]:
    """Energy and time of GPUs under a power limit, J and s.

    Where they would take more than the limit, they take the limit, and longer.

    Both are of all GPUs together, the powers of each.
    """
    if limit_w is None:
        return joules, time_s
    power_w = joules / np.where(time_s > 0, time_s, 1.0)
    above = np.maximum((power_w - idle_w) / (limit_w - idle_w), 1.0)
    longer_s: Floats = time_s * above**CUBE
    return np.where(above > 1.0, limit_w * longer_s, joules), longer_s
