"""A question as the server knows it, and the key that names its answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from irene.errors import UnknownModelError
from irene.predict.machines.finding import find_predictor, known_machines
from irene.serve.http.problems import Problem
from irene.trace import catalogue

__all__ = [
    "MEDIA_TYPES",
    "Question",
    "check_hardware",
    "check_model",
    "machine_identity",
    "warm_up",
]

MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
"""Forms of an answer."""
KEY_DIGITS = 32
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
"""OWNER/NAME, as the Hugging Face hub allows it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a client wants to know.

    Attributes:
        name: A key of `irene.serve.computing.questions.QUESTIONS`.
        arguments: Everything that decides the answer, as JSON-ready values.
        brought: Configs and trees that the arguments name by their content.
        is_long: Whether it may take more than a few seconds.
    """

    name: str
    arguments: Mapping[str, Any]
    brought: Mapping[str, Any] = field(default_factory=dict)
    is_long: bool = False

    @property
    def media_type(self) -> str:
        """What the answer is."""
        return MEDIA_TYPES[self.arguments.get("format", "json")]

    @property
    def is_private(self) -> bool:
        """Whether it holds a table of the client's, which is kept nowhere."""
        return "table" in self.arguments

    @property
    def text(self) -> str:
        """The question as canonical JSON."""
        return _canonical({"question": self.name, **self.arguments})

    @property
    def key(self) -> str:
        """Name of the answer: the question, the predictor and the program decide it."""
        from irene.analyse.energy_cache import program_identity

        parts = [
            self.text,
            sorted(map(machine_identity, self._machines())),
            program_identity(),
        ]
        return hashlib.sha256(_canonical(parts).encode()).hexdigest()[:KEY_DIGITS]

    def _machines(self) -> set[str]:
        several = [self.arguments, *self.arguments.get("subjects", ())]
        return {each["hardware"] for each in several if "hardware" in each}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def machine_identity(name: str) -> str:
    """What names a machine together with the content of its file."""
    return find_predictor(name).hardware.predictor or name


def check_hardware(name: str) -> None:
    """Refuse a machine that is not known by name.

    Raises:
        Problem: There is none; files of this machine are never looked at.
    """
    if name not in known_machines():
        known = ", ".join(known_machines())
        raise Problem(404, f"unknown hardware {name[:100]!r}; there is {known}")


def check_model(name: str, *, hub: bool) -> str:
    """The name under which a model is asked for.

    Args:
        name: Of the catalogue, in any way that it is written; or of the hub.
        hub: Whether models of the Hugging Face hub may be asked for.

    Raises:
        UnknownModelError: There is none.
    """
    entry = catalogue.find(name)
    if entry is not None:
        return entry.name
    if hub and HUB_NAME.fullmatch(name):
        return name
    near = catalogue.nearest(name)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise UnknownModelError(
        f"unknown model {name[:100]!r}; {hint}/api/v1/models lists all names; a "
        "config.json can be uploaded to /api/v1/uploads"
    )


def warm_up() -> None:
    """Read what every question needs: machines, catalogue, our own code."""
    from irene.analyse.energy_cache import program_identity

    catalogue.find("bert-base-uncased")
    program_identity()
    for name in known_machines():
        machine_identity(name)
