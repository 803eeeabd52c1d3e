"""Traces for OpenTelemetry: a span for each request, and for what is computed in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from irene import __version__
from irene.errors import MissingExtraError

STOP_S = 1.0
"""How long a stop waits for a collector that does not answer, s."""
_current: ContextVar[Tracing | None] = ContextVar("tracing", default=None)


class Tracing:
    """Sends spans to a collector, beside what the server does.

    Args:
        url: Of the collector, as `http://localhost:4318/v1/traces`.

    Raises:
        MissingExtraError: The SDK is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            from opentelemetry import propagate, trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise MissingExtraError(
                "--otlp needs pip install 'irene-energy[otel]'"
            ) from error
        about = Resource.create(
            {"service.name": "irene", "service.version": __version__}
        )
        self._provider = TracerProvider(resource=about, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=url, timeout=STOP_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self._provider.get_tracer("irene.serve", __version__)
        self._extract, self._kind = propagate.extract, trace.SpanKind.SERVER

    @contextmanager
    def request(self, method: str, headers: Mapping[bytes, bytes]) -> Iterator[Any]:
        """The span of a request; what it is about is set when that is known.

        Args:
            method: GET, POST, ….
            headers: `traceparent` among them says which span of the client it is in.
        """
        told = headers.get(b"traceparent", b"").decode("latin-1")
        before = self._extract({"traceparent": told})
        token = _current.set(self)
        try:
            with self.tracer.start_as_current_span(method, before, self._kind) as made:
                yield made
        finally:
            _current.reset(token)

    def stop(self) -> None:
        """Send what is left; whoever does not take it soon does not get it."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(2 * STOP_S)


@contextmanager
def span(name: str) -> Iterator[None]:
    """A part of the request that is being answered, where anybody follows it."""
    tracing = _current.get()
    if tracing is None:
        yield
    else:
        with tracing.tracer.start_as_current_span(name):
            yield
