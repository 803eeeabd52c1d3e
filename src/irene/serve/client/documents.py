"""From JSON documents to the frozen answers that they were written from.

A document has every field of its answer, and values that follow from them, which are
left aside.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Self, TypeVar

from irene.analyse import (
    Advice,
    Bottlenecks,
    Costing,
    Leaderboard,
    Sensitivity,
    TradeOff,
    WhatIf,
)
from irene.analyse.card import Card
from irene.analyse.comparison import Comparisons
from irene.analyse.curve import Curves
from irene.analyse.serving_plan import ServingPlan
from irene.analyse.training_plan import TrainingPlan
from irene.errors import FormatError
from irene.hardware import Hardware
from irene.saved import read_values
from irene.serve.client.transport import Reply
from irene.show.report import ReportPage
from irene.trace.catalogue import Entry
from irene.tree import ModelTree

T = TypeVar("T")


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


class Upload(str):
    """A config, tree or ledger that a server keeps: its name, as a model is named.

    Attributes:
        id: Made from its content.
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

    def __new__(cls, document: Mapping[str, Any], link: str, page: str) -> Self:
        """Where a model is asked for, it is called `upload:ID`."""
        try:
            made = super().__new__(cls, f"upload:{document['id']}")
            made.id, made.kind = document["id"], document["kind"]
            made.name = document["name"]
        except KeyError as error:
            raise FormatError("the server's answer is no Upload") from error
        made.link, made.page = link, page
        return made

    @property
    def model(self) -> str:
        """What it is called where a model is asked for."""
        return str(self)


Answer = (
    ModelTree
    | Comparisons
    | Curves
    | Bottlenecks
    | WhatIf
    | Sensitivity
    | Advice
    | Costing
    | TradeOff
    | ServingPlan
    | TrainingPlan
    | Card
    | Leaderboard
    | ReportPage
    | str
)
"""What a permalink gives; a text where the answer is CSV."""
KINDS: Mapping[str, type[Any]] = {
    each.schema: each for each in typing.get_args(Answer) if hasattr(each, "schema")
}
CSV = "text/csv"
TREE = "irene.tree/"


def read_fields(kind: type[T], values: object) -> T:
    """A frozen value from the JSON object that it was written as."""
    if not isinstance(values, Mapping):
        raise FormatError(f"the server's answer is no {kind.__name__}")
    for field in fields(typing.cast(Any, kind)):
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and field.name not in values:
            raise FormatError(
                f"the server's answer has no {field.name} of a {kind.__name__}: it may "
                "be of another version"
            )
    try:
        return read_values(kind, values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the server's answer does not hold: {error}") from error


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError("the server's answer has no list where one belongs")
    return value


def read_tree(reply: Reply) -> ModelTree:
    """The tree in a reply, unfolded."""
    return ModelTree.from_json(reply.body).unfold()


def read_models(reply: Reply) -> list[Entry]:
    """The entries of the catalogue in a reply."""
    return [read_fields(Entry, each) for each in _listed(reply.document.get("models"))]


def read_machines(reply: Reply) -> list[Machine]:
    """The machines in a reply."""
    return [_machine(each) for each in _listed(reply.document.get("hardware"))]


def _machine(values: Mapping[str, Any]) -> Machine:
    own = ("hardware", "digest", "provenance")
    return Machine(
        read_fields(Hardware, values.get("hardware")),
        values.get("digest"),
        values.get("provenance") or {},
        {name: value for name, value in values.items() if name not in own},
    )


def read_answer(reply: Reply) -> Answer:
    """Whatever answer a reply has."""
    if reply.media_type == CSV:
        return reply.body.decode()
    schema = str(reply.document.get("schema"))
    if schema.startswith(TREE):
        return read_tree(reply)
    if schema not in KINDS:
        raise FormatError(
            f"this version does not know {schema!r}: `ask` gives it as it is"
        )
    found: Answer = read_fields(KINDS[schema], reply.document)
    return found
