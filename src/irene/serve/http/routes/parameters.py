"""Parameters of requests, made from those of the questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from irene.parameters import Parameter
from irene.questions import Question

LEFT_OUT: Any = None
"""Default of what may be left out: its type has no null, which no query can say."""
FORM: Any = (
    Literal["json", "csv"],
    Field(LEFT_OUT, description="Form of the answer, instead of an `Accept` header."),
)
WORDS = {
    "model": "A name that `/models` lists, or `upload:ID`.",
    "on": "A machine that `/hardware` lists.",
    "subject": "`MODEL`, `MODEL@b16s256,fp16,on=pc1`, `upload:ID` or `answer:KEY`; all "
    "are compared with the first.",
}
"""What strangers are told instead: their files do not count."""
SEVERAL = {"subject": (2, 8), "set": (0, 8)}
"""How often a parameter may be given, at least and at most."""
Hardware = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description=WORDS["on"],
        examples=["pc1"],
    ),
]


def query_of(
    question: type[Question[Any]], without: Sequence[str] = (), **more: Any
) -> type[BaseModel]:
    """What a request for a question may say.

    Args:
        question: The question.
        without: Names of parameters that it may not.
        **more: Further parameters, each with its type and its `Field`.
    """
    told = [
        each
        for each in question.parameters()
        if not each.asked.is_body and each.name not in without
    ]
    if question.has_table and "format" not in without:
        more = {"format": FORM, **more}
    return _model(question.__name__, told, **more)


def _model(name: str, parameters: Iterable[Parameter], **more: Any) -> type[BaseModel]:
    found: dict[str, Any] = {}
    for each in parameters:
        if each.asked.here:
            continue
        kind, info = found[each.name] = _field(each)
        for other in each.asked.also:
            found[other] = (kind, _another_name(each.name, info))
    made: type[BaseModel] = create_model(
        name,
        __config__=ConfigDict(extra="forbid", protected_namespaces=()),
        **{**found, **more},
    )
    return made


def _another_name(name: str, info: Any) -> Any:
    """The same parameter under a name that is taken too."""
    other = copy(info)
    other.default, other.description = LEFT_OUT, f"Another name of `{name}`."
    return other


def _field(each: Parameter) -> tuple[Any, Any]:
    """Type, bounds and words of a parameter."""
    kind: Any = Literal[each.choices] if each.choices else each.kind
    bounds: dict[str, Any] = {}
    if each.kind in (int, float):
        bounds = {"ge": each.asked.least, "le": each.asked.most}
    elif each.kind is str and not each.choices:
        least = 1 if each.required or each.many else None
        bounds = {"min_length": least, "max_length": each.asked.longest}
        bounds["pattern"] = f"^{each.asked.pattern}$" if each.asked.pattern else None
    told: dict[str, Any] = {"description": WORDS.get(each.name, each.words)}
    if each.asked.examples:
        told["examples"] = list(each.asked.examples)
    if each.many:
        least, most = SEVERAL.get(each.name, (0, 8))
        told["examples"] = [told["examples"]] if each.asked.examples else None
        info = Field(... if least else [], min_length=least, max_length=most, **told)
        return list[Annotated[kind, Field(**bounds)]], info
    default = ... if each.required else each.default
    return kind, Field(default, **bounds, **told)
