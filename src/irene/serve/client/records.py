"""Answers that only a server has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from irene.analyse.leaderboard import Ranked
from irene.hardware import Hardware

__all__ = ["LeftOut", "Machine", "Standings", "Upload"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that a server predicts for.

    Attributes:
        hardware: Its name, and what its energy covers.
        digest: Names its predictor.
        provenance: Data and method behind it, and its held-out errors.
        about: What else the server says: `domain` and `widths`, or a `datasheet`.
    """

    hardware: Hardware
    digest: str | None
    provenance: Mapping[str, Any]
    about: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As `on` takes it."""
        return self.hardware.name


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A model that has no place.

    Attributes:
        model: Its name.
        problem: Why it was left out.
    """

    model: str
    problem: str


@dataclass(frozen=True, slots=True)
class Standings:
    """Models by energy per sequence, the cheapest first.

    The document says less of models that were left out than a Leaderboard does.

    Attributes:
        run: Sizes and settings.
        hardware: Name of the machine.
        models: In their places.
        left_out: Those that cannot run at this size.
        pending: Models that are still being predicted.
    """

    run: Mapping[str, Any]
    hardware: str
    models: tuple[Ranked, ...]
    left_out: tuple[LeftOut, ...]
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Upload:
    """A config, tree or ledger that a server keeps.

    Attributes:
        id: Its name, made from its content.
        kind: `config`, `tree` or `ledger`.
        name: For people; may be "".
        link: Address of the file.
        page: Address of its page on the dashboard.
    """

    id: str
    kind: str
    name: str
    link: str
    page: str

    @property
    def model(self) -> str:
        """What it is called where a model is asked for."""
        return f"upload:{self.id}"
