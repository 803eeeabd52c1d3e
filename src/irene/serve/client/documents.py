"""From JSON documents to the frozen answers that they were written from.

A document has every field of its answer, and values that follow from them, which are
left aside. What is not in it is not made up: a WhatIf read by its permalink does not
know its phase, and of models that a leaderboard left out it is the catalogue here that
says more than the name.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin

from irene.analyse import (
    Advice,
    Bottlenecks,
    Comparison,
    Costing,
    Elasticity,
    TradeOff,
    WhatIf,
)
from irene.analyse.leaderboard import Leaderboard
from irene.errors import FormatError
from irene.hardware import Hardware
from irene.serve.client.transport import Reply
from irene.trace import catalogue
from irene.trace.catalogue import Entry
from irene.tree import ModelTree

__all__ = [
    "Answer",
    "Machine",
    "Standings",
    "Upload",
    "read_answer",
    "read_as",
    "read_comparisons",
    "read_fields",
    "read_machines",
    "read_models",
    "read_sensitivity",
    "read_standings",
    "read_tree",
]

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


@dataclass(frozen=True, slots=True)
class Standings(Leaderboard):
    """A leaderboard that may still be growing.

    Attributes:
        pending: Models that are still being predicted.
    """

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


Answer = (
    ModelTree
    | list[Comparison]
    | Bottlenecks
    | WhatIf
    | list[Elasticity]
    | Advice
    | Costing
    | TradeOff
    | Standings
    | str
)
"""What a permalink gives; a text where the answer is CSV."""
CSV = "text/csv"
TREE = "irene.tree/"


def read_fields(kind: type[T], values: object) -> T:
    """A frozen value from the JSON object that it was written as.

    Args:
        kind: A dataclass.
        values: The object; what `kind` does not have is left aside.

    Raises:
        FormatError: Something is missing or wrong.
    """
    if not isinstance(values, Mapping) or not is_dataclass(kind):
        raise FormatError(f"the server's answer is no {kind.__name__}")
    hints = typing.get_type_hints(kind)
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in values:
            found[field.name] = _value(hints[field.name], values[field.name])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise FormatError(
                f"the server's answer has no {field.name} of a {kind.__name__}: it may "
                "be of another version"
            )
    try:
        return kind(**found)
    except (TypeError, ValueError) as error:
        raise FormatError(f"the server's answer does not hold: {error}") from error


def _value(hint: Any, value: Any) -> Any:
    """A value as its type hint wants it."""
    if value is None:
        return None
    if get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if is_dataclass(hint):
        return read_fields(typing.cast("type[Any]", hint), value)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        return tuple(_value(inner[0], each) for each in _listed(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise FormatError("the server's answer has no object where one belongs")
        return {name: _value(inner[1], each) for name, each in value.items()}
    return value


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError("the server's answer has no list where one belongs")
    return value


def read_as(kind: type[T], reply: Reply) -> T:
    """The answer in a reply whose document has all fields of it."""
    return read_fields(kind, reply.document)


def read_tree(reply: Reply) -> ModelTree:
    """The tree in a reply, unfolded."""
    return ModelTree.from_json(reply.body).unfold()


def read_comparisons(reply: Reply) -> list[Comparison]:
    """The comparisons in a reply."""
    return [_comparison(each) for each in _listed(reply.document.get("comparisons"))]


def _comparison(document: Mapping[str, Any]) -> Comparison:
    """The document has the ends of the interval, the answer half its width."""
    try:
        half_j = (document["high_j"] - document["low_j"]) / 2
    except (KeyError, TypeError) as error:
        raise FormatError("the server's answer is no Comparison") from error
    return read_fields(Comparison, {**document, "half_j": half_j})


def read_sensitivity(reply: Reply) -> list[Elasticity]:
    """The elasticities in a reply, the strongest first."""
    rows = _listed(reply.document.get("fields"))
    return [read_fields(Elasticity, row) for row in rows]


def read_standings(reply: Reply) -> Standings:
    """The leaderboard in a reply."""
    document = reply.document
    left_out = [_left_out(row) for row in _listed(document.get("left_out"))]
    return read_fields(Standings, {**document, "left_out": left_out})


def _left_out(row: Mapping[str, Any]) -> dict[str, Any]:
    entry = catalogue.find(str(row.get("model")))
    return {
        "family": entry.family if entry else "",
        "kind": entry.kind if entry else "",
        "params": entry.params if entry else 0,
        "energy": None,
        "per_sequence_j": None,
        "per_token_j": None,
        "flops": 0.0,
        "is_extrapolated": False,
        **row,
    }


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


READERS: Mapping[str, Callable[[Reply], Answer]] = {
    "irene.comparisons/1": read_comparisons,
    "irene.sensitivity/1": read_sensitivity,
    "irene.bottlenecks/1": lambda reply: read_as(Bottlenecks, reply),
    "irene.what_if/1": lambda reply: read_as(WhatIf, reply),
    "irene.suggestions/1": lambda reply: read_as(Advice, reply),
    "irene.cost/1": lambda reply: read_as(Costing, reply),
    "irene.trade_off/1": lambda reply: read_as(TradeOff, reply),
    "irene.leaderboard/1": read_standings,
}


def read_answer(reply: Reply) -> Answer:
    """Whatever answer a reply has.

    Raises:
        FormatError: It is of a kind that this version does not know.
    """
    if reply.media_type == CSV:
        return reply.body.decode()
    schema = str(reply.document.get("schema"))
    if schema.startswith(TREE):
        return read_tree(reply)
    if schema not in READERS:
        raise FormatError(
            f"this version does not know {schema!r}: `ask` gives it as it is"
        )
    return READERS[schema](reply)
