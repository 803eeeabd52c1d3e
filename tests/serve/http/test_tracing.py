"""Traces: a real exporter sends to a collector that is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from irene.serve.http.tracing import Tracing, span

from ..in_process import app_with, send

service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    reason="pip install 'irene-energy[otel]'",
)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(BaseHTTPRequestHandler):
    """Keeps the spans that it is sent."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        told = service.ExportTraceServiceRequest.FromString(body)
        for resource in told.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.spans = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_request_is_a_span_of_its_client(collector: Any, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    with app_with(tmp_path, otlp_url=url) as app:
        told = {"traceparent": PARENT}
        found = send(app, "GET", "/api/v1/models?limit=1", headers=told)
        send(app, "GET", "/api/v1/nowhere", headers={"traceparent": "no such thing"})
        app.state.tracing.stop()
    known, unknown = sorted(collector.spans, key=lambda each: each.start_time_unix_nano)
    assert known.name == "GET /api/v1/models"
    assert known.trace_id.hex() == PARENT.split("-")[1]
    values = {each.key: each.value for each in known.attributes}
    assert values["http.response.status_code"].int_value == 200
    assert values["irene.request"].string_value == found.headers["x-request-id"]
    assert unknown.trace_id != known.trace_id


def test_what_is_computed_is_inside_the_request(collector: Any) -> None:
    tracing = Tracing(f"http://127.0.0.1:{collector.server_port}/v1/traces")
    with span("nobody follows this"):
        pass
    with tracing.request("GET", {}), span("compute energy"):
        pass
    tracing.stop()
    inner, outer = collector.spans
    assert (inner.name, outer.name) == ("compute energy", "GET")
    assert inner.parent_span_id == outer.span_id


def test_a_collector_that_is_not_there_holds_up_no_stop() -> None:
    tracing = Tracing("http://127.0.0.1:9/v1/traces")
    with tracing.request("GET", {}):
        pass
    tracing.stop()  # it would try for a minute
