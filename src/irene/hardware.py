"""Hardware: which machine an energy holds for, and what of the machine it covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from irene.errors import FormatError

__all__ = ["Hardware"]


@dataclass(frozen=True, slots=True)
class Hardware:
    """A machine, or a kind of machine.

    Attributes:
        name: Short name, as given to `--on` (`pc1`, `this-machine`).
        covers: What its energy covers: `wall`, `gpu-board`, `cpu-package`, ….
        description: Processor, accelerator and memory in words.
        predictor: Name and version of the predictor fitted for it, if any.
    """

    name: str
    covers: str
    description: str = ""
    predictor: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Hardware:
        """Read what `to_dict` wrote."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise FormatError(f"not a hardware description: {error}") from error
