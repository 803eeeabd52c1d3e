"""Parameters that several endpoints share, made from the fields of a RunSpec."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from irene.spec import RunSpec

__all__ = [
    "FORM",
    "LEFT_OUT",
    "LISTED",
    "RUN_FIELDS",
    "FixedRunQuery",
    "Form",
    "Hardware",
    "HardwareQuery",
    "Model",
    "ModelQuery",
    "RunQuery",
    "TreeQuery",
    "run_of",
]

LARGEST_SIZE = 100_000_000
LONGEST_NAME = 200
NOT_ASKED = ("model", "config_digest")
FROM_ZERO = ("context_len",)
Form = Literal["json", "csv"]
"""Forms of an answer."""
LEFT_OUT: Any = None
"""Default of what may be left out: its type has no null, which no query can say."""
FORM = "Form of the answer, instead of an `Accept` header."


def _descriptions() -> dict[str, str]:
    """What the docstring of RunSpec says of each field."""
    text = (RunSpec.__doc__ or "").partition("Attributes:")[2]
    found = re.findall(
        r"^        (\w+): ((?:.+\n?)(?: {12}.+\n?)*)", text, re.MULTILINE
    )
    return {name: " ".join(words.split()) for name, words in found}


def _run_fields() -> dict[str, Any]:
    hints, told = get_type_hints(RunSpec), _descriptions()
    found: dict[str, Any] = {}
    for each in fields(RunSpec):
        if each.name in NOT_ASKED:
            continue
        default = None if each.default is MISSING else each.default
        hint = _without_none(hints[each.name])
        bounds: dict[str, Any] = {}
        if hint is int:
            bounds = {"ge": 0 if each.name in FROM_ZERO else 1, "le": LARGEST_SIZE}
        elif hint is str:
            bounds = {"max_length": LONGEST_NAME}
        info = Field(default, description=told.get(each.name, each.name), **bounds)
        found[each.name] = (hint, info)
    return found


def _without_none(hint: Any) -> Any:
    """`int | None` is an int that may be left out."""
    rest = [each for each in get_args(hint) if each is not type(None)]
    return rest[0] if len(rest) == 1 and len(get_args(hint)) == 2 else hint


RUN_FIELDS: tuple[str, ...] = (*_run_fields(), "model_class")
"""Names of what decides a run besides the model."""

LISTED = ("batch_size", "seq_len", "dtype", "attention")
"""What `/what-if` takes several values of."""


def _run_model(name: str, without: Sequence[str] = ()) -> type[BaseModel]:
    model_class = (
        str,
        Field(
            LEFT_OUT,
            pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$",
            description="Class of transformers to build instead of the usual one.",
            examples=["BertForSequenceClassification"],
        ),
    )
    rest = {key: value for key, value in _run_fields().items() if key not in without}
    made: type[BaseModel] = create_model(
        name,
        __config__=ConfigDict(extra="forbid", protected_namespaces=()),
        __doc__="A run of a model, in the parameters of a request.",
        __module__=__name__,
        **rest,
        model_class=model_class,
    )
    return made


if TYPE_CHECKING:

    class RunQuery(BaseModel):
        """A run of a model, in the parameters of a request."""

    class FixedRunQuery(BaseModel):
        """What `/what-if` takes one value of."""

else:
    RunQuery = _run_model("RunQuery")
    FixedRunQuery = _run_model("FixedRunQuery", LISTED)


Hardware = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_NAME,
        description="A machine that `/hardware` lists.",
        examples=["pc1"],
    ),
]
Model = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_NAME,
        description="A name that `/models` lists, or `upload:ID`.",
        examples=["bert-base-uncased"],
    ),
]


class HardwareQuery(RunQuery):
    """A run on a machine."""

    hardware: Hardware = "pc1"


class ModelQuery(HardwareQuery):
    """A run of one model on one machine."""

    model: Model


class TreeQuery(RunQuery):
    """A tree of one model."""

    model: Model
    level: Literal["module", "ml", "math"] = Field(
        "ml", description="Deepest kind of node."
    )
    fold: bool = Field(True, description="Equal layers as one node with its `members`.")
    format: Form = Field(LEFT_OUT, description=FORM)


def run_of(query: BaseModel) -> dict[str, Any]:
    """The run of a request: what differs from the default alone.

    A field that a later version of RunSpec has does not change the key of a question
    that does not use it.
    """
    usual = {each.name: each.default for each in fields(RunSpec)} | {
        "model_class": None
    }
    values = query.model_dump()
    return {
        name: values[name]
        for name in RUN_FIELDS
        if name in values and values[name] != usual.get(name)
    }
