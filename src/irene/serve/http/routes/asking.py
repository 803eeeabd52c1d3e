"""From a request to its answer: who is meant, what is asked, and how it is sent."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request, Response
from sqlalchemy.exc import SQLAlchemyError

from irene.analyse.subject import Subject, known_trees, read_subject
from irene.predict.machines.added import added_when_ns
from irene.questions import AskTradeOff, AskWhatIf, Question
from irene.questions.question import OfModel
from irene.serve.answers.answering import Answering, Compute
from irene.serve.answers.memory import LINK, Memory, Ready, make_ready, prefers_csv
from irene.serve.answers.question import (
    MEDIA_TYPES,
    Inquiry,
    check_hardware,
    check_model,
)
from irene.serve.http.access import client_of
from irene.serve.http.exchange import as_it_came
from irene.serve.http.problems import Problem
from irene.serve.http.settings import Settings
from irene.serve.store.engine import is_full, key_of
from irene.serve.uploads.storage import Uploads, new_file
from irene.trace import catalogue
from irene.trace.sources import only_known

logger = logging.getLogger(__name__)
T = TypeVar("T")
OF_TREES = ("energy", "compare", "bottlenecks", "cost")
"""Questions that may be asked of a tree; the others predict a model anew."""
MOST_COMBINATIONS = 500
MOST_ROWS = 200
FULL_S = 60.0
"""When to come back to a server whose disk is full, s."""


async def inquire(request: Request, question: Question[T], form: str) -> Inquiry:
    """A question after a look at its names, machines and sizes.

    Args:
        request: It asks.
        question: What it asks; models are of the catalogue, `upload:ID` or
            `answer:KEY`.
        form: Of the answer.

    Raises:
        Problem: A machine, upload or answer is not there, or it asks for too much.
        UsageError: A model is unknown, or a size is impossible.
    """
    settings: Settings = request.app.state.settings
    _check_amount(question)
    with only_known({}), known_trees({}):
        rows = _rows(question)
        subjects = [*question.subjects(), *rows]
    configs: dict[str, Any] = {}
    trees: set[str] = set()
    is_odd = False
    for each in subjects:
        check_hardware(each.on)
        name = each.run.model
        if name.startswith(("upload:", "answer:")):
            kind = await asyncio.to_thread(_kind, request, name)
            if kind == "config":
                text = await asyncio.to_thread(_text, request, name)
                configs[name] = json.loads(text)
            elif question.name in OF_TREES:
                trees.add(name)
            else:
                raise Problem(400, f"{name[:50]} is a {kind}: a model is needed here")
        elif name and each not in rows:  # of a table, what is not known is left out
            entry = catalogue.find(name)
            if entry is None and len(subjects) - len(rows) > 2:
                is_odd = True  # it may be left out
                continue
            # What is like an unknown name takes milliseconds to find.
            known = (
                entry.name
                if entry
                else await asyncio.to_thread(check_model, name, hub=settings.hub)
            )
            if isinstance(question, OfModel | AskWhatIf):
                # What is written behind the name counts, as on the command line.
                _, at, sizes = question.run.model.rpartition("@")
                named = f"{known}@{sizes}" if at else known
                question = replace(question, run=question.run.of(named))
    with (
        only_known(configs, hub=settings.hub),
        known_trees(dict.fromkeys(trees, Path())),
    ):
        if is_odd:
            await asyncio.to_thread(question.check)
        else:
            question.check()
        machines = frozenset(question.machines())
    along = {k: v for k, v in (("configs", configs), ("hub", settings.hub)) if v}
    files = partial(_files, request, frozenset(trees)) if trees else None
    return Inquiry(question, machines, form, along, trees=files)


def _check_amount(question: Question[Any]) -> None:
    """Refuse what would take too long for a request."""
    if isinstance(question, AskWhatIf):
        combinations = math.prod(map(len, question.vary.values()))
        if combinations > MOST_COMBINATIONS:
            raise Problem(
                400,
                f"{combinations:,} combinations, this server takes "
                f"{MOST_COMBINATIONS}: choose fewer values, or use `irene what-if`",
            )
    rows = len(_rows(question))
    if rows > MOST_ROWS:
        raise Problem(
            400,
            f"the table has {rows:,} models to predict, this server takes "
            f"{MOST_ROWS}: give the energy_j of the others",
        )


def _rows(question: Question[Any]) -> list[Subject]:
    """What is predicted of a table that a client brought."""
    if not isinstance(question, AskTradeOff) or question.accuracies is None:
        return []
    with only_known({}), known_trees({}):
        return [
            read_subject(row.model, question.run, question.on)
            for row in question.rows()
            if row.energy_j is None
        ]


def _kind(request: Request, name: str) -> str:
    """What something is that the store has; the text of an upload may be large."""
    where, _, key = name.partition(":")
    uploads: Uploads = request.app.state.uploads
    kind = uploads.kind(key) if where == "upload" else None
    if where == "answer" and b'"irene.tree/' in _text(request, name)[:200]:
        kind = "tree"
    if kind is None:
        raise _not_there(name)
    return kind


def _text(request: Request, name: str) -> bytes:
    """The text of something that the store has."""
    where, _, key = name.partition(":")
    state = request.app.state
    found = (state.uploads if where == "upload" else state.answers).get(key)
    if found is None:
        raise _not_there(name)
    body: bytes = found.body
    return body


def _not_there(name: str) -> Problem:
    words = f"there is no {name[:50]!r}: uploads and answers have 32 digits"
    return Problem(404, words)


@contextmanager
def _files(request: Request, names: Collection[str]) -> Iterator[dict[str, Path]]:
    """Files of trees that the store has, by name, for a computing process to read."""
    settings: Settings = request.app.state.settings
    with ExitStack() as stack:
        made = {}
        for name in names:
            file = stack.enter_context(new_file(settings.data_dir))
            file.write(_text(request, name))
            file.flush()
            made[name] = Path(file.name)
        yield made


def form_of(request: Request, question: type[Question[Any]], asked: str | None) -> str:
    """`json` or, where there is a table, `csv`: as the query says or as one prefers."""
    if asked:
        return asked
    # The same of several headers as the answer will be remembered by.
    *_, accept = as_it_came(request.scope, dict(request.scope["headers"]))
    return "csv" if question.has_table and prefers_csv(accept) else "json"


async def give(
    request: Request, inquiry: Inquiry, compute: Compute | None = None
) -> Response:
    """Answer a request, and remember it as it came.

    Args:
        request: To be answered.
        inquiry: What it asks.
        compute: How, if not by asking a computing process.
    """
    answering: Answering = request.app.state.answering
    since_ns = added_when_ns()
    ready = await answering.ask(
        inquiry, lambda: asyncio.ensure_future(_gone(request)), compute,
        client_of(request.scope),
    )  # fmt: skip
    if request.method == "GET" and since_ns == added_when_ns():
        remember(request, ready.key)
        scope = request.scope
        asked = as_it_came(scope, dict(scope["headers"]))
        request.app.state.sizes.remember(asked, inquiry)
    return send(request, ready)


async def give_document(
    request: Request, make: Callable[[], Mapping[str, Any]], *, stays: bool = True
) -> Response:
    """Answer with a document that is no answer to a question, and remember it.

    Args:
        request: To be answered.
        make: Gives the document; beside the event loop, as that takes milliseconds.
        stays: Whether it is the same the next time: else it is not remembered.
    """

    def ready() -> Ready:
        body = json.dumps(make(), allow_nan=False, separators=(",", ":")).encode()
        # Its content is not in the store: no permalink is promised.
        return make_ready(key_of(body), body, MEDIA_TYPES["json"]).without(LINK)

    made = await asyncio.to_thread(ready)
    if stays:
        request.app.state.answering.memory.answers.put(made.key, made)
        remember(request, made.key)
    return send(request, made)


def remember(request: Request, key: str) -> None:
    """Note which answer a request has, for the same request again.

    Args:
        request: That was answered.
        key: Of its answer.
    """
    memory: Memory = request.app.state.answering.memory
    memory.remember(*as_it_came(request.scope, dict(request.scope["headers"])), key)


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
        if is_full(error):
            raise disk_full() from error
        words = "the store does not answer: nothing was kept"
        raise Problem(503, words, again_s=5) from error


def disk_full() -> Problem:
    """What is told where nothing can be kept."""
    words = "the server's disk is full: nothing was kept"
    return Problem(507, words, again_s=FULL_S)
