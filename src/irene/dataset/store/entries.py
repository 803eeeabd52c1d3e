"""What a store knows of a run: the entry, and where the measurement comes from."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from irene import __version__
from irene.errors import FormatError, SpecError, UsageError
from irene.hardware import Hardware
from irene.saved import Saved, read_values
from irene.spec import RunSpec
from irene.tree import ModelTree

State = Literal["measured", "failed"]
ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Origin(Saved):
    """Where, with what and by whom something was measured.

    Times are ISO 8601, "" if unknown, by the machine that measured; the duration is by
    a monotonic clock. Clocks of machines differ, so nothing is ever put in order by
    them. The collector is a process, the engine where the work ran: `local`, `ray`,
    `slurm`, `import`; the protocol how, in words or as a digest.
    """

    host: str
    hardware: Hardware
    software: Mapping[str, str] = field(default_factory=dict)
    meter: str = ""
    started: str = ""
    finished: str = ""
    duration_s: float | None = None
    collector: str = ""
    engine: str = "local"
    protocol: str = ""

    @property
    def software_name(self) -> str:
        """What computed, such as `torch 2.9.1, transformers 5.1.0`.

        Measurements of another software are kept apart. The version of irene is not
        part of it: it is recorded, and does not compute.
        """
        used = sorted(item for item in self.software.items() if item[0] != "irene")
        return ", ".join(f"{name} {version}" for name, version in used) or "unknown"

    @classmethod
    def of_tree(cls, tree: ModelTree, **facts: Any) -> Origin:
        """What a measured tree itself says of its origin, as measured on this host."""
        if tree.hardware is None:
            raise UsageError("this tree does not say which hardware its energy is of")
        told = tree.provenance
        names = ("torch", "transformers")
        known = {
            "host": platform.node(),
            "hardware": tree.hardware,
            "software": {
                **{name: told[name] for name in names if name in told},
                "irene": __version__,
            },
            "meter": told.get("counted") or told.get("meters", ""),
            "protocol": told.get("rounds", ""),
        }
        return cls(**{**known, **facts})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Origin:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: It says more than we know: it is of a newer version.
        """
        if more := sorted(values.keys() - set(cls.__slots__)):
            raise FormatError(f"not an origin: it has {', '.join(more)}")
        return read_values(cls, values)


@dataclass(frozen=True, slots=True)
class Entry(Saved):
    """One run in a store.

    Attributes:
        id: Names the entry by its content, wherever it is copied to.
        hardware: What the machine is called in this store.
        origin: Where it comes from, as recorded there.
        added_ns: When it came into this store, ns since 1970 by the clock of the host
            that wrote it; for people, not for order.
        segment: Name of the file that holds its tree, "" if it failed.
    """

    id: str
    spec: RunSpec
    hardware: str
    origin: Origin
    state: State
    nodes: int
    added_ns: int
    segment: str
    reason: str = ""

    @classmethod
    def made_now(
        cls,
        spec: RunSpec,
        origin: Origin,
        content: str,
        nodes: int = 0,
        reason: str = "",
    ) -> Entry:
        """An entry that is in no file yet, named by its content and its origin."""
        told = json.dumps(origin.to_dict(), sort_keys=True)
        name = hashlib.sha256(f"{told}\n{content}".encode()).hexdigest()[:ID_DIGITS]
        state: State = "failed" if reason else "measured"
        at_ns = time.time_ns()
        machine = origin.hardware.name
        return cls(name, spec, machine, origin, state, nodes, at_ns, "", reason)

    @property
    def machine(self) -> Hardware:
        """The hardware under the name that it has in this store."""
        return replace(self.origin.hardware, name=self.hardware)

    @property
    def software(self) -> str:
        """What computed, as `Origin.software_name`."""
        return self.origin.software_name

    @property
    def run(self) -> tuple[str, str]:
        """Digest of the spec, and name of the hardware."""
        return _digest(self.spec), self.hardware

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        told = Saved.to_dict(self)
        return told if self.reason else {n: v for n, v in told.items() if n != "reason"}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Entry:
        """Read what `to_dict` wrote; other fields are passed over.

        Raises:
            FormatError: It is something else, or of a newer version.
        """
        try:
            return read_values(cls, values)
        except (KeyError, TypeError, ValueError, SpecError) as error:
            raise FormatError(f"not an entry of ours: {error}") from error


class Machine(NamedTuple):
    """A machine as a store tells it from others."""

    name: str
    covers: str
    description: str

    def __str__(self) -> str:
        return f"{self.description or 'not described'}, covers {self.covers}"

    @classmethod
    def of(cls, entry: Entry) -> Machine:
        """The machine that an entry was measured on."""
        hardware = entry.origin.hardware
        return cls(entry.hardware, hardware.covers, hardware.description)


def run_fields(spec: RunSpec) -> dict[str, Any]:
    """The fields of a spec that say what ran, whether they were given or chosen."""
    return {name: v for name, v in spec.to_dict().items() if name != "chosen"}


@lru_cache(maxsize=1 << 16)
def _digest(spec: RunSpec) -> str:
    return spec.digest
