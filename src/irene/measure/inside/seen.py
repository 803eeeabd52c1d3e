"""What was seen of one item of a design, as it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from irene.saved import Saved


class OpTime(NamedTuple):
    """An op that was timed inside a model, or a product, and how often it ran.

    Its time is hot where the model runs again at once, cold where the caches hold
    nothing of it, 0 where not measured. `pool_mib` was read between two uses of its
    weight, beside the model, MiB.
    """

    op: str
    primitive: str
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtype: str
    flops: int
    moved: int
    times: int
    hot_s: float
    cold_s: float
    pool_mib: float


class Part(NamedTuple):
    """A module of a block: places of its ops, how often each runs, and their time.

    `calls` are math ops and modules in it.
    """

    name: str
    ops: tuple[tuple[int, int], ...]
    calls: tuple[int, int]
    hot_s: float


class Whole(NamedTuple):
    """A block as a whole: math ops and modules in it, time and energy of a run.

    `spread` is of its rounds, a part of the time; the energy is 0 where a meter was
    lost.
    """

    calls: tuple[int, int]
    seconds: float
    spread: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class Measured(Saved):
    """What was seen of one item: distinct ops, the block as a whole, its modules.

    `flags` say what disturbed it, `others` is the load of others, % of the machine, and
    `reference_s` the time of the same small product, always: how fast the machine was.
    """

    key: str
    kind: str
    family: str = ""
    ops: tuple[OpTime, ...] = ()
    whole: Whole | None = None
    parts: tuple[Part, ...] = ()
    flags: tuple[str, ...] = ()
    others: float = 0.0
    reference_s: float = 0.0
    seconds: float = 0.0
    problem: str = ""
    date: str = ""

    @property
    def energy_known(self) -> bool:
        """Whether there is something to learn from it."""
        return bool(self.ops)
