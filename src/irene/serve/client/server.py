"""A server, with the functions of this program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from irene.errors import FormatError, UsageError
from irene.serve.client.documents import (
    Answer,
    Machine,
    Upload,
    read_answer,
    read_fields,
    read_machines,
    read_models,
)
from irene.serve.client.jobs import Job, JobStatus
from irene.serve.client.questions import Questions, query_of, run_query
from irene.serve.client.transport import Reply, Transport
from irene.trace.catalogue import Entry
from irene.tree import ModelTree

__all__ = ["Server", "connect"]

TIMEOUT_S = 120.0


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


class Server(Questions):
    """The functions of this program, answered by a server; threads may share it."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"<Server {self.base_url}>"

    @property
    def base_url(self) -> str:
        """Its address."""
        return self._transport.base_url

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
        return read_models(self._transport.get("/models", query_of(asked)))

    def hardware(self) -> list[Machine]:
        """Machines that the server predicts for."""
        return read_machines(self._transport.get("/hardware"))

    def ask(self, endpoint: str, **query: Any) -> Reply:
        """Any other question, as the HTTP reference has it.

        Args:
            endpoint: `energy`, `regions`, `provenance`, ….
            **query: Its parameters; a list is sent as one parameter for each value.

        Returns:
            The document as it is, with the key and the link of its permalink.
        """
        return self._transport.get(f"/{quote(endpoint.strip('/'))}", query_of(query))

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
        return read_fields(Upload, {**document, "link": link, "page": page})

    def submit(
        self,
        model: str | Upload,
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
            on: Machine to predict for, by default pc1.
            protocol: Of a measurement.
            notify: Who is told when it has ended: `email`, `webhook`.
            **run_options: batch_size, seq_len, ….

        Raises:
            UsageError: The server does not take it.
        """
        asked = {
            **run_query(run_options),
            "kind": kind,
            "model": model.model if isinstance(model, Upload) else model,
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
