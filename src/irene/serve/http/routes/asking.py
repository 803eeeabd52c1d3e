"""From a request to its answer: who is meant, what is asked, and how it is sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request, Response
from sqlalchemy.exc import SQLAlchemyError

from irene.serve.answers.answering import Answering, Compute
from irene.serve.answers.memory import Memory, Ready
from irene.serve.answers.question import Question, check_hardware, check_model
from irene.serve.answers.storage import Answers
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Settings
from irene.serve.uploads.storage import Uploads
from irene.spec import RunSpec
from irene.trace.limits import DEFAULT_LIMITS

__all__ = [
    "Named",
    "form_of",
    "give",
    "name_models",
    "question_of",
    "remember",
    "send",
    "stored",
]

logger = logging.getLogger(__name__)
T = TypeVar("T")
FULL_S = "60"
"""When to come back to a server whose disk is full, s."""


@dataclass(frozen=True, slots=True)
class Named:
    """Models that a request names.

    Attributes:
        names: As the catalogue writes them, in the request's order.
        brought: Configs and trees that belong to them.
    """

    names: tuple[str, ...]
    brought: Mapping[str, Any]


async def name_models(
    request: Request, names: Iterable[str], *, trees: bool = False
) -> Named:
    """Find the models that a request names.

    Args:
        request: It names them.
        names: Of the catalogue, `upload:ID` or `answer:KEY`.
        trees: Whether trees that are known already will do.

    Raises:
        Problem: One is not there, or is not of the right kind.
        UnknownModelError: The catalogue has no such model.
    """
    settings: Settings = request.app.state.settings
    found: list[str] = []
    configs: dict[str, Any] = {}
    known: dict[str, str] = {}
    for name in names:
        if not name.startswith(("upload:", "answer:")):
            found.append(check_model(name, hub=settings.hub))
            continue
        kind, text = await asyncio.to_thread(_brought, request, name)
        if kind == "config":
            configs[name] = json.loads(text)
        elif trees:
            known[name] = text.decode()
        else:
            raise Problem(400, f"{name[:50]} is a {kind}: a model is needed here")
        found.append(name)
    brought: dict[str, Any] = {}
    if configs:
        brought["configs"] = configs
    if known:
        brought["trees"] = known
    if settings.hub:
        brought["hub"] = True
    return Named(tuple(found), brought)


def _brought(request: Request, name: str) -> tuple[str, bytes]:
    """Kind and text of something that the store has."""
    where, _, key = name.partition(":")
    if where == "upload":
        uploads: Uploads = request.app.state.uploads
        upload = uploads.get(key[:64])
        if upload is not None:
            return upload.kind, upload.body
    else:
        answers: Answers = request.app.state.answers
        answer = answers.get(key[:64])
        if answer is not None and b'"irene.tree/' in answer.body[:200]:
            return "tree", answer.body
    raise Problem(404, f"there is no {name[:50]!r}: uploads and answers have 32 digits")


def question_of(
    name: str,
    models: Named,
    arguments: Mapping[str, Any],
    *,
    is_long: bool = False,
) -> Question:
    """A question, after a look at its machine and sizes.

    Args:
        name: Of the question.
        models: What it is asked of.
        arguments: What decides the answer; those that are None are left out.
        is_long: Whether it may take more than a few seconds.

    Raises:
        UsageError: A size is impossible.
        Problem: The machine is unknown.
    """
    rest = {key: value for key, value in arguments.items() if value is not None}
    if "hardware" in rest:
        check_hardware(rest["hardware"])
    run = {k: v for k, v in rest.get("run", {}).items() if k != "model_class"}
    DEFAULT_LIMITS.check_spec(RunSpec("any", **run))
    return Question(name, rest, models.brought, is_long)


def form_of(request: Request, asked: str | None) -> str:
    """`json` or `csv`: as the query says, else as the client prefers."""
    if asked:
        return asked
    accept = request.headers.get("accept", "")
    return "csv" if "text/csv" in accept and "json" not in accept else "json"


async def give(
    request: Request, question: Question, compute: Compute | None = None
) -> Response:
    """Answer a request, and remember it as it came.

    Args:
        request: To be answered.
        question: What it asks.
        compute: How, if not by asking a computing process.
    """
    answering: Answering = request.app.state.answering
    ready = await answering.ask(
        question, lambda: asyncio.ensure_future(_gone(request)), compute
    )
    if request.method == "GET":
        remember(request, ready.key)
    return send(request, ready)


def remember(request: Request, key: str) -> None:
    """Note which answer a request has, for the same request again.

    Args:
        request: That was answered.
        key: Of its answer.
    """
    memory: Memory = request.app.state.answering.memory
    accept = request.headers.get("accept", "").encode("latin-1")
    memory.remember(request.scope["path"], request.scope["query_string"], accept, key)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def send(request: Request, ready: Ready, cache_control: str | None = None) -> Response:
    """An answer as a response.

    Args:
        request: To be answered.
        ready: The answer.
        cache_control: Instead of the usual one.
    """
    status, headers, body = ready.response(dict(request.scope["headers"]))
    response = Response(body, status)
    response.raw_headers = list(headers)
    if cache_control:
        response.headers["cache-control"] = cache_control
    return response


async def stored(work: Callable[[], T]) -> T:
    """Do something with the store, off the event loop.

    Args:
        work: Reads or writes.

    Raises:
        Problem: The store cannot take it, or does not answer.
    """
    try:
        return await asyncio.to_thread(work)
    except SQLAlchemyError as error:
        logger.error("the store failed: %s", error)
        if "full" in str(error).lower() or "no space" in str(error).lower():
            raise Problem(
                507,
                "the server's disk is full: nothing was kept",
                {"Retry-After": FULL_S},
            ) from error
        raise Problem(
            503, "the store does not answer: nothing was kept", {"Retry-After": "5"}
        ) from error
