"""What was seen of one item of a design, as it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from irene.saved import Saved


class OpTime(NamedTuple):
    """An op that was timed inside a model, or a product.

    Attributes:
        op: As the tree names it.
        primitive: The primitive that it is part of.
        inputs: Shapes.
        outputs: Shapes.
        dtype: Of the first output.
        flops: Its FLOPs.
        moved: Bytes that it reads and writes.
        times: How often it ran.
        hot_s: Its time where the model runs again at once, s; 0 where not measured.
        cold_s: Its time where the caches hold nothing of the model, s; likewise.
        pool_mib: What was read between two uses of its weight, beside the model, MiB.
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
    """A module of a block.

    Attributes:
        name: Its class.
        ops: Place in the ops of the block, and how often it runs there.
        calls: Math ops and modules in it.
        hot_s: Its ops together, s.
    """

    name: str
    ops: tuple[tuple[int, int], ...]
    calls: tuple[int, int]
    hot_s: float


class Whole(NamedTuple):
    """A block as a whole.

    Attributes:
        calls: Math ops and modules in it.
        seconds: Time of a run, s.
        spread: Largest minus smallest time of its rounds, as a part of it.
        energy_j: Energy of a run, J; 0 where a meter was lost.
    """

    calls: tuple[int, int]
    seconds: float
    spread: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class Measured(Saved):
    """What was seen of one item.

    Attributes:
        key: Of the item.
        kind: Of the item.
        family: Of a block.
        ops: Distinct ops.
        whole: The block; None for products.
        parts: Modules of the block.
        flags: What disturbed it, as `measure.alone.rounds` names it.
        others: Load of other processes meanwhile, % of the machine.
        reference_s: Time of the same small product, s: how fast the machine was.
        seconds: How long all of it took, s.
        problem: Why it could not be run, "" if it could.
        date: When.
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
