"""A server, with the functions of this program."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack, cast, overload
from urllib.parse import quote

from irene.analyse import Leaderboard
from irene.analyse.subject import Progress
from irene.errors import FormatError, IreneError, UsageError
from irene.parameters import parameters_of
from irene.questions import (
    AskBottlenecks,
    AskComparison,
    AskCost,
    AskEnergy,
    AskLeaderboard,
    AskTree,
    Question,
)
from irene.questions.asker import Asker
from irene.serve.client.client_jobs import Job, JobStatus
from irene.serve.client.documents import (
    Answer,
    Machine,
    Upload,
    read_answer,
    read_fields,
    read_machines,
    read_models,
)
from irene.serve.client.transport import Reply, Transport
from irene.spec import RunOptions, RunSpec
from irene.trace.catalogue import Entry
from irene.tree import ModelTree

T = TypeVar("T")
TIMEOUT_S = 120.0
AGAIN_S = 2.0
OF_TREES = (AskBottlenecks, AskCost)
"""Questions that a server answers of a tree as it is."""


def connect(
    base_url: str, token: str | None = None, timeout_s: float = TIMEOUT_S
) -> Server:
    """A server of `irene serve`; nothing is sent before something is asked.

    Args:
        base_url: Its address, as `http://localhost:8000`.
        token: What it wants to see for jobs and uploads, if anything.
        timeout_s: How long it may say nothing, and how long it may ask to wait when it
            is busy, s.

    Raises:
        UsageError: The address or the time is none.
    """
    if not timeout_s > 0:
        raise UsageError(f"timeout_s must be more than 0, got {timeout_s}")
    return Server(Transport(base_url, token, timeout_s))


class Server(Asker):
    """The functions of this program, answered by a server; threads may share it.

    A model is a name of the server's catalogue, an `Upload`, a tree, or where a tree
    will do (`predict`, `compare`, `bottlenecks`, `cost`) also `answer:KEY`. The options
    of a run are those of `irene.predict`.

    Args:
        transport: The way to the server.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __repr__(self) -> str:
        return f"<Server {self.base_url}>"

    @property
    def base_url(self) -> str:
        """Its address."""
        return self._transport.base_url

    @overload
    def ask(self, question: Question[T], progress: Progress | None = None) -> T: ...

    @overload
    def ask(self, question: str, progress: None = None, **query: Any) -> Reply: ...

    def ask(
        self,
        question: Question[T] | str,
        progress: Progress | None = None,
        **query: Any,
    ) -> Any:
        """The answer to a question, or whatever an endpoint gives.

        Args:
            question: Of `irene.questions`; or an endpoint of the HTTP reference:
                `energy`, `regions`, `provenance`, ….
            progress: Told steps done, steps in all, and what is being done, where the
                server says it.
            **query: Parameters of the endpoint; a list is sent as one parameter for
                each value.

        Returns:
            The answer; of an endpoint the document as it is, with the key and the link
            of its permalink.
        """
        if isinstance(question, str):
            path = f"/{quote(question.strip('/'))}"
            return self._transport.get(path, _query_of(query))
        if isinstance(question, AskLeaderboard):
            return self._whole_leaderboard(question, progress)
        query = self._wire(question)
        body = getattr(question, "accuracies", None)
        path = f"/{question.name}"
        if body is None:
            return read_answer(self._transport.get(path, _query_of(query)))
        headers = {"Content-Type": "text/csv"}
        reply = self._transport.send(
            "POST", path, body.encode(), headers, _query_of(query)
        )
        return read_answer(reply)

    def _wire(self, question: Question[Any]) -> dict[str, Any]:
        """What a question is asked with; trees are brought first."""
        values = _without_body(question)
        if isinstance(question, AskComparison) and question.trees:
            values["subject"] = [*map(self.upload, question.trees), *question.subject]
        tree = getattr(question, "tree", None)
        if tree is not None and isinstance(question, OF_TREES):
            of_run = {each.name for each in parameters_of(RunSpec)}
            rest = {k: v for k, v in values.items() if k not in of_run}
            values = {**rest, "model": self.upload(tree)}
        return values

    def predict(
        self, model: str, on: str = "default", **run: Unpack[RunOptions]
    ) -> ModelTree:
        """The energy of every node of a model, as `irene.predict` gives it.

        Args:
            model: A name, or what was uploaded.
            on: Name of a machine that the server knows.
            **run: batch_size, seq_len, ….

        Raises:
            UsageError: The model or the machine is unknown, or a size is impossible.
        """
        asked = RunSpec.asked(model, cast("dict[str, Any]", run))
        return self.ask(AskEnergy(run=asked, on=on, level="math"))

    def trace(self, model: str, **run: Unpack[RunOptions]) -> ModelTree:
        """The tree of a model with its costs alone, as `irene.trace` gives it.

        Args:
            model: A name, or what was uploaded.
            **run: batch_size, seq_len, ….

        Raises:
            UsageError: The model is unknown, or a size is impossible.
        """
        asked = RunSpec.asked(model, cast("dict[str, Any]", run))
        return self.ask(AskTree(run=asked, level="math"))

    suggestions = Asker.suggest

    def leaderboard(
        self,
        search: str = "",
        on: str = "default",
        *,
        partial: bool = False,
        **rest: Any,
    ) -> Leaderboard:
        """Models of the catalogue by their energy; the first time takes minutes.

        Args:
            search: Words that must all occur in a name, family or kind.
            on: Name of a machine.
            partial: Whether to answer at once with the models that are known.
            **rest: As `Asker.leaderboard` has it.

        Raises:
            IreneError: The server predicts no further model for `timeout_s`.
        """
        if not partial:
            return super().leaderboard(search, on, **rest)
        rest.pop("progress", None)
        asked = AskLeaderboard.asked({"search": search, "on": on, **rest})
        return cast(Leaderboard, read_answer(self._standings(asked)))

    def _standings(self, asked: AskLeaderboard) -> Reply:
        query = _query_of({**_without_body(asked), "partial": True})
        return self._transport.get("/leaderboard", query)

    def _whole_leaderboard(
        self, asked: AskLeaderboard, progress: Progress | None
    ) -> Leaderboard:
        """Ask until no model is pending, for as long as there are fewer of them."""
        least, moved = None, time.monotonic()
        while True:
            reply = self._standings(asked)
            found = cast(Leaderboard, read_answer(reply))
            if not found.pending:
                return found
            done = len(found.models) + len(found.left_out)
            if progress:
                progress(done, done + found.pending, "leaderboard")
            if least is None or found.pending < least:
                least, moved = found.pending, time.monotonic()
            if time.monotonic() - moved > self._transport.timeout_s:
                raise IreneError(
                    f"{found.pending} models are still being predicted: ask again, or "
                    "with partial=True for the others"
                )
            time.sleep(reply.retry_after_s or AGAIN_S)

    def models(
        self, search: str = "", kind: str | None = None, limit: int | None = None
    ) -> list[Entry]:
        """Models of the server's catalogue, in alphabetical order.

        Args:
            search: Words that must all occur in a name, family or kind.
            kind: One kind alone: `encoder`, `decoder`, ….
            limit: How many at most.
        """
        asked = {"search": search or None, "kind": kind, "limit": limit}
        return read_models(self._transport.get("/models", _query_of(asked)))

    def hardware(self) -> list[Machine]:
        """Machines that the server predicts for."""
        return read_machines(self._transport.get("/hardware"))

    def answer(self, key: str) -> Answer:
        """An answer by its permalink.

        Args:
            key: As `Reply.key` or `JobStatus.key` says, or the end of a link.

        Raises:
            UsageError: The server keeps no such answer.
        """
        name = quote(key.rpartition("/")[2], safe="")
        return read_answer(self._transport.get(f"/answers/{name}"))

    def upload(self, source: str | Path | Mapping[str, Any] | ModelTree) -> Upload:
        """Bring a config, a saved tree or a ledger; the same one twice is kept once.

        Args:
            source: Path of the file (JSON, packed or not), the fields of a config, or
                a tree.

        Raises:
            UsageError: The file cannot be read, or the server does not take it.
        """
        body, name = _content(source)
        headers = {"Content-Type": "application/octet-stream"}
        if name:
            headers["X-Filename"] = quote(name)
        reply = self._transport.send("POST", "/uploads", body, headers)
        document = reply.document
        links = document.get("links")
        if not isinstance(links, dict):
            raise FormatError("the server's answer is no Upload")
        page = f"{self.base_url}{links.get('page', '/')}"
        link = self._transport.url(f"/uploads/{document.get('id')}")
        return Upload(document, link, page)

    def submit(
        self,
        model: str,
        kind: Literal["predict", "measure"] = "predict",
        on: str | None = None,
        *,
        protocol: Literal["default", "quick"] | None = None,
        notify: Mapping[str, str] | None = None,
        **run_options: Any,
    ) -> Job:
        """Have a model predicted, or measured on the server's machine.

        Args:
            model: A name, or an uploaded config.
            kind: What to do.
            on: Machine to predict for, by default as the server has it.
            protocol: Of a measurement.
            notify: Who is told when it has ended: `email`, `webhook`.
            **run_options: batch_size, seq_len, ….

        Raises:
            UsageError: The server does not take it.
        """
        given = {k: v for k, v in run_options.items() if v is not None}
        RunSpec.asked(model, given)
        asked = {
            **given,
            "kind": kind,
            "model": model,
            "hardware": on,
            "protocol": protocol,
            "notify": dict(notify) if notify else None,
        }
        body = json.dumps({k: v for k, v in asked.items() if v is not None}).encode()
        headers = {"Content-Type": "application/json"}
        reply = self._transport.send("POST", "/jobs", body, headers)
        return Job(self._transport, read_fields(JobStatus, reply.document))

    def job(self, key: str) -> Job:
        """A job that was submitted before.

        Args:
            key: Its `id`.

        Raises:
            UsageError: The server has no such job.
        """
        reply = self._transport.get(f"/jobs/{quote(key, safe='')}")
        return Job(self._transport, read_fields(JobStatus, reply.document))


def _query_of(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Parameters of a request: what is None is left out, a list is repeated."""
    found = []
    for name, value in values.items():
        several = value if isinstance(value, list | tuple) else [value]
        for each in several:
            if each is not None:
                text = str(each).lower() if isinstance(each, bool) else str(each)
                found.append((name, text))
    return found


def _content(
    source: str | Path | Mapping[str, Any] | ModelTree,
) -> tuple[bytes, str]:
    """What to send, and what to call it."""
    if isinstance(source, ModelTree):
        return (
            source.fold().to_json().encode(),
            source.spec.model if source.spec else "",
        )
    if isinstance(source, Mapping):
        try:
            return json.dumps(dict(source), allow_nan=False).encode(), ""
        except (TypeError, ValueError) as error:
            raise UsageError(f"this config is not JSON: {error}") from error
    try:
        return Path(source).read_bytes(), Path(source).name
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from error


def _without_body(question: Question[Any]) -> dict[str, Any]:
    """What a question was given, by name; what goes beside the request is not in it."""
    bodies = {each.name for each in question.parameters() if each.asked.is_body}
    return {k: v for k, v in question.values().items() if k not in bodies}
