"""Rows of a ledger: what a group of op calls used, with all that qualifies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from irene.energy import Energy, Source
from irene.plain import Document

NO_POWER = "no power known"


@dataclass(frozen=True, slots=True)
class Spread:
    """How an energy differs from step to step, J; a single one has no deviation."""

    steps: int
    mean_j: float
    std_j: float
    least_j: float
    most_j: float


@dataclass(frozen=True, slots=True)
class Row:
    """A group of op calls.

    Attributes:
        name: What they have in common.
        energy: What they used; None where no power is known for any of their time.
        share: Of the measured energy.
        time_s: Seconds during which at least one of them was charged.
        count: Number of calls.
        unknown_s: Seconds of their time without known power; not in the energy.
        duration_s: How long they run in a row, before something else does, on average.
        resolution_s: What the sensor resolves.
        steps: Spread over steps; None without steps.
        group: Where a run is too short for the sensor, the smallest part of the program
            around them that is not; "" otherwise.
        group_energy: What that part used.
        op: The op, where they have one in common.
        scope: The module, where they have one in common; `#` for any number.
        phase: The phase, where they have one in common.
    """

    name: str
    energy: Energy | None
    share: float
    time_s: float
    count: int
    unknown_s: float
    duration_s: float
    resolution_s: float
    steps: Spread | None = None
    group: str = ""
    group_energy: Energy | None = None
    op: str = ""
    scope: str = ""
    phase: str = ""

    @property
    def resolved(self) -> bool:
        """Whether a run is at least as long as what the sensor resolves."""
        return self.duration_s >= self.resolution_s

    @property
    def energy_j(self) -> float:
        """Best value, J; NaN where nothing is known."""
        return self.energy.joules if self.energy else float("nan")

    @property
    def power_w(self) -> float:
        """Mean power while at least one of them was charged, W; NaN if never."""
        known_s = self.time_s - self.unknown_s
        return self.energy_j / known_s if known_s > 0 else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        power_w = self.power_w
        return {
            "name": self.name,
            **({"op": self.op} if self.op else {}),
            **({"scope": self.scope} if self.scope else {}),
            **({"phase": self.phase} if self.phase else {}),
            **energy_fields(self.energy),
            "power_w": power_w if power_w == power_w else None,
            "share": self.share,
            "time_s": self.time_s,
            "count": self.count,
            "unknown_s": self.unknown_s,
            "resolved": self.resolved,
            "group": None if self.resolved else self.group,
            "group_energy_j": self.group_energy.joules if self.group_energy else None,
            "steps": asdict(self.steps) if self.steps else None,
        }


def energy_fields(energy: Energy | None) -> dict[str, Any]:
    """An energy as in a document; all None where nothing is known."""
    return {
        "energy_j": energy and energy.joules,
        "low_j": energy and energy.low,
        "high_j": energy and energy.high,
        "source": energy and energy.source,
    }


@dataclass(frozen=True, slots=True)
class ModuleRow(Row):
    """A module with everything below it.

    Attributes:
        path: Dotted path; "" for the program.
        depth: Levels below the program.
        parent_share: Of the energy of the module above.
        phase_j: Energy by phase, J.
        flops: FLOPs of all steps, from a joined trace; None without.
        bytes: Bytes moved in all steps, from a joined trace; None without.
    """

    path: str = ""
    depth: int = 0
    parent_share: float = 1.0
    phase_j: Mapping[str, float] = field(default_factory=dict)
    flops: float | None = None
    bytes: float | None = None

    @property
    def forward_j(self) -> float:
        """Energy of the forward pass, J."""
        return self.phase_j.get("forward", 0.0)

    @property
    def backward_j(self) -> float:
        """Energy of the backward pass, J."""
        return self.phase_j.get("backward", 0.0)

    @property
    def j_per_gflop(self) -> float | None:
        """Joules per 10^9 floating-point operations."""
        return self.energy_j / (self.flops * 1e-9) if self.flops else None

    @property
    def j_per_byte(self) -> float | None:
        """Joules per byte read or written."""
        return self.energy_j / self.bytes if self.bytes else None

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return {
            "path": self.path,
            "depth": self.depth,
            **Row.to_dict(self),
            "parent_share": self.parent_share,
            "forward_j": self.forward_j,
            "backward_j": self.backward_j,
            "phase_j": dict(self.phase_j),
            "flops": self.flops,
            "bytes": self.bytes,
            "j_per_gflop": self.j_per_gflop,
            "j_per_byte": self.j_per_byte,
        }


@dataclass(frozen=True, slots=True)
class RestRow:
    """Energy that belongs to no op, or seconds without known power.

    Attributes:
        name: `idle`, `other processes`, `unattributed`, or `NO_POWER`.
        energy: What it used; None for `NO_POWER`, of which nothing is known.
        time_s: Seconds, added up over the channels; 0 where seconds mean nothing.
        share: Of the measured energy.
    """

    name: str
    energy: Energy | None
    time_s: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return {
            "name": self.name,
            **energy_fields(self.energy),
            "time_s": self.time_s,
            "share": self.share,
        }


@dataclass(frozen=True, slots=True)
class ChannelAccount(Document):
    """Where the energy of one power channel went.

    Attributes:
        name: The channel.
        device: Device as torch names it; "" for the whole machine.
        covers: What its energy covers.
        source: `measured` or `estimated`.
        relative_error: Half the width of its interval as a share of the value.
        measured_j: All energy that is known in the window, J.
        attributed_j: Charged to ops.
        idle_j: While no op ran, up to the idle power.
        other_j: Of other processes.
        unattributed_j: While no op ran, above the idle power.
        no_op_s: Seconds with power and without an op.
        unknown_s: Seconds of the window without known power.
    """

    name: str
    device: str
    covers: str
    source: Source
    relative_error: float
    measured_j: float
    attributed_j: float
    idle_j: float
    other_j: float
    unattributed_j: float
    no_op_s: float
    unknown_s: float

    also: ClassVar = ("difference_j",)

    def relative_half_width(self, window_s: float) -> float:
        """Half its interval as a share: the meter's error, and what was not known."""
        known_s = window_s - self.unknown_s
        return self.relative_error + (self.unknown_s / known_s if known_s > 0 else 0.0)

    @property
    def difference_j(self) -> float:
        """What the parts lack of the whole, J: rounding."""
        parts = (self.attributed_j, self.idle_j, self.other_j, self.unattributed_j)
        return self.measured_j - sum(parts)
