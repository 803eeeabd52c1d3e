"""Sweep: which runs are wanted, how they are measured, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from irene.measure.protocol import DEFAULT, PAPER, QUICK, MeasureProtocol
from irene.spec import RunSpec
from irene.work.engines import EngineSettings

__all__ = ["AXES", "Measurement", "Sweep"]

KINDS = {"quick": QUICK, "full": DEFAULT, "paper": PAPER}
AXES = tuple(f.name for f in fields(RunSpec) if f.name != "config_digest")
"""What a sweep can vary: every field of a RunSpec but the hash of its config."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """How every run of a sweep is measured.

    Attributes:
        kind: `quick`, `full` or `paper`.
        changes: Fields of the protocol that are set to something else.
        meters: Names of meters; None for the best there are.
        exclusive: Whether to keep other processes off the CPUs during rounds.
        device: `auto`, `cpu`, `cuda`, ….
        threads: Threads of torch on the CPU; None for as many as it uses.
        timeout_s: A run is ended after this long, s; None for ten times what was
            guessed, and ten minutes.
    """

    kind: Literal["quick", "full", "paper"] = "full"
    changes: Mapping[str, float] = field(default_factory=dict)
    meters: Sequence[str] | None = None
    exclusive: bool = False
    device: str = "auto"
    threads: int | None = None
    timeout_s: float | None = None

    @property
    def protocol(self) -> MeasureProtocol:
        """The protocol, with the changes made to it.

        Raises:
            UsageError: A value is impossible.
        """
        return KINDS[self.kind].changed(**self.changes)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Runs to be measured.

    Attributes:
        name: What to call the sweep: the name of its file.
        specs: The runs, in the order they are measured, each once.
        machine: What to call the machine they are measured on.
        measurement: How they are measured.
        engine: Where.
    """

    name: str
    specs: tuple[RunSpec, ...]
    machine: str = "this-machine"
    measurement: Measurement = field(default_factory=Measurement)
    engine: EngineSettings = field(default_factory=EngineSettings)

    def argument(self, spec: RunSpec, model: str, nodes: str) -> dict[str, Any]:
        """What the task of one run is given.

        Args:
            spec: The run.
            model: Its model, as the sweep names it.
            nodes: Names the collection, within which nodes are measured once.
        """
        how = self.measurement
        return {
            "spec": spec.to_dict(),
            "model": model,
            "machine": self.machine,
            "protocol": asdict(how.protocol),
            "meters": None if how.meters is None else list(how.meters),
            "exclusive": how.exclusive,
            "device": how.device,
            "threads": how.threads,
            "nodes": nodes,
        }
