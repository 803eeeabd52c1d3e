"""What has been counted so far, for Prometheus and OpenTelemetry.

Names follow OpenTelemetry's conventions for hardware (`hw.energy`, `hw.power`,
`hw.status`, `hw.host.energy`, …), and Prometheus' way to write them with units.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from irene.errors import MeterError, UsageError, library
from irene.meters.sampling.sampler import Sampler
from irene.meters.sampling.sampler_process import SamplerProcess
from irene.meters.sampling.totals import Window
from irene.meters.wall.http_json import taken_apart

UNITS = {
    "J": "joules", "W": "watts", "{token}": "tokens", "{request}": "requests",
    "J/{token}": "joules_per_token", "J/{request}": "joules_per_request", "1": "",
}  # fmt: skip
"""Units as OpenTelemetry writes them, and as Prometheus does."""
SHORTEST_S = 0.5
"""Mean power is of this time at least, s."""


Sampling = Sampler | SamplerProcess
"""What is asked: a sampler that runs."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that others are shown, as OpenTelemetry names it; NaN is not known."""

    name: str
    unit: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    grows: bool = False

    @property
    def prometheus_name(self) -> str:
        """As Prometheus writes it, without `_total`."""
        return f"{self.name.replace('.', '_')}_{UNITS[self.unit]}".rstrip("_")


Figures = Callable[[], Sequence[Figure]]
"""Tells all figures as they are now, the same names every time."""


class Exported:
    """Answers what was counted, at any time, from any thread."""

    def __init__(self, sampler: Sampling) -> None:
        self._sampler = sampler
        self._lock = threading.Lock()
        self._begin = self._last = sampler.sample_now()
        self._found: list[Figure] = []

    def __call__(self) -> list[Figure]:
        """Every channel of energy, how it is, their sum; the same if asked again soon.

        After the sampler has ended, what it counted last.
        """
        with self._lock:
            try:
                snapshot = self._sampler.sample_now()
            except MeterError:
                return self._found
            since_s = (snapshot.time_ns - self._last.time_ns) * 1e-9
            if self._found and since_s < SHORTEST_S:
                return self._found
            whole = self._sampler.between(self._begin, snapshot)
            recent = self._sampler.between(self._last, snapshot)
            self._last = snapshot
            energies = [
                (old, new)
                for old, new in zip(whole, recent, strict=True)
                if new.channel.is_energy
            ]
            known = [pair for pair in energies if not pair[0].channel.missing]
            self._found = [
                *chain(*(_figures("hw", [pair], _labels(pair)) for pair in known)),
                *(_status(old) for old, _ in energies),
                *_figures("hw.host", [p for p in known if p[0].channel.in_total], {}),
            ]
            return self._found


Pair = tuple[Window, Window]
"""What a channel gave since the begin, and since it was last asked."""


def _figures(
    name: str, pairs: Sequence[Pair], labels: Mapping[str, str]
) -> list[Figure]:
    energy_j = math.fsum(whole.integral for whole, _ in pairs)
    # Half the 90 % interval; nothing yet where nothing is known yet.
    error_j = math.fsum(whole.half_width_j for whole, _ in pairs if whole.known_s > 0)
    power_w = sum(recent.mean for _, recent in pairs)
    return [
        Figure(f"{name}.energy", "J", energy_j, labels, grows=True),
        Figure(f"{name}.energy.error", "J", error_j, labels),
        Figure(f"{name}.power", "W", power_w, labels),
    ]


def _status(window: Window) -> Figure:
    """Whether a channel is whole: one that was set back, or cannot be read, is not."""
    channel = window.channel
    state = "ok" if window.gapless else "degraded"
    labels = {
        "hw.id": channel.name, "hw.type": channel.covers,
        "hw.state": "failed" if channel.missing else state,
    }  # fmt: skip
    return Figure("hw.status", "1", 1.0, labels)


def _labels(pair: Pair) -> dict[str, str]:
    channel = pair[0].channel
    return {
        "hw.id": channel.name, "hw.type": channel.covers, "device": channel.device,
        "source": channel.source, "counted": str(channel.counted).lower(),
    }  # fmt: skip


@contextmanager
def to_prometheus(figures: Figures, port: int) -> Iterator[int]:
    """Answer `/metrics` on a port; 0 for a free one, which is given."""
    client = _library("prometheus_client", "prometheus")
    registry = client.CollectorRegistry()
    registry.register(_Collector(figures))
    try:
        server, thread = client.start_http_server(port, registry=registry)
    except OSError as error:
        raise UsageError(f"cannot answer on port {port}: {error.strerror}") from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    """What prometheus_client asks at every scrape."""

    def __init__(self, figures: Figures) -> None:
        self._families = _library("prometheus_client.core", "prometheus")
        self._figures = figures

    def collect(self) -> Iterator[Any]:
        families: dict[str, Any] = {}
        for figure in self._figures():
            kind = "Counter" if figure.grows else "Gauge"
            name, labels = figure.prometheus_name, figure.labels
            if name not in families:
                families[name] = getattr(self._families, f"{kind}MetricFamily")(
                    name, figure.name, labels=[k.replace(".", "_") for k in labels]
                )
            families[name].add_metric(list(labels.values()), figure.value)
        yield from families.values()


@contextmanager
def to_otlp(
    figures: Figures, reader: Any | str, every_s: float = 5.0
) -> Iterator[None]:
    """Send to an OpenTelemetry collector, every so often and at the end.

    It is told by its address, `http://localhost:4318/v1/metrics`, or by a reader of the
    SDK.
    """
    metrics = _library("opentelemetry.sdk.metrics", "otel")
    if isinstance(reader, str):
        taken_apart(reader)
        otlp = _library(
            "opentelemetry.exporter.otlp.proto.http.metric_exporter", "otel"
        )
        exporter = otlp.OTLPMetricExporter(endpoint=reader)
        export = _library("opentelemetry.sdk.metrics.export", "otel")
        reader = export.PeriodicExportingMetricReader(exporter, every_s * 1e3)
    observation = _library("opentelemetry.metrics", "otel").Observation

    def seen(name: str) -> Callable[[Any], Any]:
        def observe(_: Any) -> Iterator[Any]:
            for figure in figures():
                if figure.name == name and math.isfinite(figure.value):
                    yield observation(figure.value, dict(figure.labels))

        return observe

    provider = metrics.MeterProvider(metric_readers=[reader])
    meter = provider.get_meter("irene")
    for figure in {figure.name: figure for figure in figures()}.values():
        kind = "counter" if figure.grows else "gauge"
        make = getattr(meter, f"create_observable_{kind}")
        make(figure.name, [seen(figure.name)], figure.unit)
    try:
        yield
    finally:
        provider.shutdown()


def _library(name: str, extra: str) -> Any:
    return library(name, f"this needs pip install 'irene-energy[{extra}]'")
