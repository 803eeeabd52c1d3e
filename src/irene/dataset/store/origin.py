"""Origin: where a measurement comes from, kept with every entry of a store."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from irene import __version__
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.tree import ModelTree

__all__ = ["Origin"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where, with what and by whom something was measured.

    Times are those of the machine that measured. Clocks of machines differ, so nothing
    is ever put in order by them.

    Attributes:
        host: Name of the computer.
        hardware: What was measured, and what of it the energy covers.
        software: Versions by name: `torch`, `transformers`, `irene`, ….
        meter: The meters that counted.
        started: Wall clock at the start, ISO 8601; "" if unknown.
        finished: Wall clock at the end, ISO 8601; "" if unknown.
        duration_s: Length by a monotonic clock, s; None if unknown.
        collector: Names the process that collected it.
        engine: Where the work ran: `local`, `ray`, `slurm`, `import`, ….
        protocol: How it was measured, in words or as a digest.
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
        """What a measured tree itself says of its origin, as measured on this host.

        Args:
            tree: Names its hardware; versions and meters are in its provenance.
            **facts: Fields to set, instead of what the tree says.

        Raises:
            UsageError: The tree does not name its hardware.
        """
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

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return {**asdict(self), "software": dict(self.software)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Origin:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: It is something else, or of a newer version.
        """
        unknown = values.keys() - set(cls.__slots__)
        if unknown:
            raise FormatError(f"not an origin we know: {', '.join(sorted(unknown))}")
        try:
            hardware = Hardware.from_dict(values["hardware"])
            return cls(**{**values, "hardware": hardware})
        except (KeyError, TypeError) as error:
            raise FormatError(f"not an origin: {error}") from error
