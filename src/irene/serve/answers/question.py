"""A question as the server knows it, and the key that names its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from irene.analyse.energy_cache import program_identity
from irene.errors import UnknownModelError
from irene.predict.machines.finding import DEFAULT, find_machine, known_machines
from irene.questions import Question
from irene.serve.computing.pool import Prepared
from irene.serve.http.problems import Problem
from irene.serve.store.engine import key_of
from irene.trace import catalogue

Files = AbstractContextManager[Mapping[str, Path]]
MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
}
"""Forms of an answer."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
"""OWNER/NAME, as the Hugging Face hub allows it."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question with what a client brought along.

    Attributes:
        question: What it wants to know.
        machines: Names of all machines that decide the answer.
        form: A key of `MEDIA_TYPES`.
        brought: Configs that the question names by their content, and what they mean.
        trees: Writes files of the trees that it names so, which go at the end; None
            where it names none.
        models: Names of all models, where the question only says how to choose them.
        values: What of the question was given, and the form.
    """

    question: Question[Any]
    machines: frozenset[str] = frozenset()
    form: str = "json"
    brought: Mapping[str, Any] = field(default_factory=dict)
    trees: Callable[[], Files] | None = field(default=None, compare=False)
    models: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Write down, once, what is asked."""
        values = {**self.question.values(), "format": self.form}
        object.__setattr__(self, "values", values)

    @property
    def media_type(self) -> str:
        """What the answer is."""
        return MEDIA_TYPES[self.form]

    @property
    def is_private(self) -> bool:
        """Whether it holds a document of the client's, which is kept nowhere."""
        return any(
            each.asked.is_body and getattr(self.question, each.name) is not None
            for each in self.question.parameters()
        )

    @property
    def arguments(self) -> dict[str, Any] | Callable[[], Prepared]:
        """What a computing process is told; large things are in files meanwhile."""
        told = {**self.values, **self.brought}
        return told if self.trees is None else partial(_with, told, self.trees)

    @property
    def text(self) -> str:
        """Everything of it that decides the answer, as canonical JSON."""
        models = {"models": self.models} if self.models else {}
        return canonical({"question": self.question.name, **self.values, **models})

    @property
    def identities(self) -> list[str]:
        """What names the machines together with the content of their files."""
        return sorted(f"{name} {find_machine(name).digest}" for name in self.machines)

    @property
    def key(self) -> str:
        """Name of the answer."""
        return answer_key(self.text, self.identities)


def answer_key(text: str, identities: Sequence[str]) -> str:
    """Name of an answer: the question, the machines and the program decide it.

    Args:
        text: Of the question, as canonical JSON.
        identities: Of the machines.
    """
    return key_of(canonical([text, identities, program_identity()]).encode())


@contextmanager
def _with(
    told: Mapping[str, Any], trees: Callable[[], Files]
) -> Iterator[dict[str, Any]]:
    with trees() as files:
        yield {**told, "trees": {name: str(path) for name, path in files.items()}}


def canonical(value: Any) -> str:
    """Values as the one JSON that says them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_hardware(name: str) -> None:
    """Refuse a machine that is not known by name.

    Raises:
        Problem: There is none; files of this machine are never looked at.
    """
    if name != DEFAULT and name not in known_machines():
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
    catalogue.find("bert-base-uncased")
    program_identity()
    for name in known_machines():
        find_machine(name)
