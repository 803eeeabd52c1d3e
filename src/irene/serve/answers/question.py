"""A question as the server knows it, and the key that names its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from irene.predict.machines.finding import find_predictor, known_machines
from irene.predict.machines.json_file import digest_of
from irene.serve.http.problems import Problem

__all__ = [
    "MEDIA_TYPES",
    "Question",
    "check_hardware",
    "predictor_digest",
    "warm_up",
]

MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
"""Forms of an answer."""
KEY_DIGITS = 32


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
            {name: predictor_digest(name) for name in sorted(self._machines())},
            program_identity(),
        ]
        return hashlib.sha256(_canonical(parts).encode()).hexdigest()[:KEY_DIGITS]

    def _machines(self) -> set[str]:
        several = [self.arguments, *self.arguments.get("subjects", ())]
        return {each["hardware"] for each in several if "hardware" in each}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_hardware(name: str) -> None:
    """Refuse a machine that is not known by name.

    Raises:
        Problem: There is none; files of this machine are never looked at.
    """
    if name not in known_machines():
        known = ", ".join(known_machines())
        raise Problem(404, f"unknown hardware {name[:100]!r}; there is {known}")


@cache
def predictor_digest(name: str) -> str:
    """What names the content of a machine's predictor."""
    return digest_of(find_predictor(name).to_dict())


def warm_up() -> None:
    """Read what every question needs: machines, catalogue, our own code."""
    from irene.analyse.energy_cache import program_identity
    from irene.trace import catalogue

    catalogue.find("bert-base-uncased")
    program_identity()
    for name in known_machines():
        predictor_digest(name)
