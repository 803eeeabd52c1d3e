"""What questions are called on the wire, for the server and its clients."""

from __future__ import annotations

from typing import Any

from irene.parameters import Parameter
from irene.questions import Question

__all__ = ["wire_name", "wire_values"]


def wire_name(parameter: Parameter) -> str:
    """The name of a parameter in a request: `hardware` for `on`."""
    return parameter.names[-1]


def wire_values(question: Question[Any]) -> dict[str, Any]:
    """What a question was given, by the names of requests; no body."""
    known = {each.name: each for each in question.parameters()}
    return {
        wire_name(known[name]): value
        for name, value in question.values().items()
        if not known[name].asked.is_body
    }
