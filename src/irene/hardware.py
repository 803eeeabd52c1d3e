"""Hardware: which machine an energy holds for, and what of the machine it covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from irene.errors import FormatError

RELEASED: Mapping[str, int] = {
    "GTX 1080 Ti": 2017, "A100": 2020, "H100": 2022, "RTX 4090": 2022, "H200": 2023,
    "L40S": 2023, "GB200": 2024, "B200": 2024, "B300": 2025, "RTX PRO 6000": 2025,
}  # fmt: skip
"""The year in which its maker announced a GPU."""


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

    @property
    def year(self) -> str:
        """In which its GPU was announced, empty if that is not known."""
        years = (str(RELEASED[gpu]) for gpu in RELEASED if gpu in self.description)
        return next(years, "")

    @property
    def words(self) -> str:
        """Its name, what it is and of which year: `h100 (NVIDIA H100 …, 2022)`."""
        about = filter(None, [self.description.partition(";")[0], self.year])
        told = ", ".join(about)
        return f"{self.name} ({told})" if told else self.name

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Hardware:
        """Read what `to_dict` wrote."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise FormatError(f"not a hardware description: {error}") from error
