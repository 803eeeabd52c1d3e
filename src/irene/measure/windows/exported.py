"""What a running sampler has counted so far, for Prometheus and OpenTelemetry.

Names follow OpenTelemetry's conventions for hardware (`hw.energy`, `hw.power`,
`hw.host.energy`, `hw.host.power`), and Prometheus' way to write them with units.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from irene.errors import MeterError, MissingExtraError, UsageError
from irene.meters.channel import Channel
from irene.meters.sampling.totals import Snapshot, Window

__all__ = ["Counted", "Exported", "Sampling", "to_otlp", "to_prometheus"]

SHORTEST_S = 0.5
"""Mean power is of this time at least, s."""


class Sampling(Protocol):
    """What is asked: a sampler that runs."""

    @property
    def channels(self) -> Sequence[Channel]:
        """Channels of all meters."""

    def sample_now(self) -> Snapshot:
        """Take a sample, and tell the totals."""

    def between(self, begin: Snapshot, end: Snapshot) -> Sequence[Window]:
        """What every channel gave between two snapshots."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A channel of energy, or all that count together (`channel` is None then).

    Attributes:
        channel: The channel.
        energy_j: Since the sampler began, as far as known, J.
        power_w: Mean since the last question, W; NaN where it is not known.
    """

    channel: Channel | None
    energy_j: float
    power_w: float

    @property
    def labels(self) -> dict[str, str]:
        """What tells it from others."""
        if self.channel is None:
            return {}
        return {
            "hw_id": self.channel.name,
            "hw_type": self.channel.covers,
            "device": self.channel.device,
            "source": self.channel.source,
            "counted": str(self.channel.counted).lower(),
        }


class Exported:
    """Answers what was counted, at any time, from any thread."""

    def __init__(self, sampler: Sampling) -> None:
        self._sampler = sampler
        self._lock = threading.Lock()
        self._begin = self._last = sampler.sample_now()
        self._found: list[Counted] = []

    def now(self) -> list[Counted]:
        """Every channel of energy, then their sum; the same for quick questions.

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
            channels = [
                Counted(new.channel, old.integral, new.mean)
                for old, new in zip(whole, recent, strict=True)
                if new.channel.is_energy and not new.channel.missing
            ]
            parts = [c for c in channels if c.channel and c.channel.in_total]
            energy_j = math.fsum(part.energy_j for part in parts)
            total = Counted(None, energy_j, sum(part.power_w for part in parts))
            self._found = [*channels, total]
            return self._found


@contextmanager
def to_prometheus(exported: Exported, port: int) -> Iterator[int]:
    """Answer `/metrics` on a port; 0 for a free one, which is given.

    Raises:
        MissingExtraError: prometheus-client is not installed.
        UsageError: The port is taken.
    """
    client = _library("prometheus_client", "prometheus")
    registry = client.CollectorRegistry()
    registry.register(_Collector(exported))
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

    def __init__(self, exported: Exported) -> None:
        self._families = _library("prometheus_client.core", "prometheus")
        self._exported = exported

    def collect(self) -> Iterator[Any]:
        found = self._exported.now()
        core, labels = self._families, list(found[0].labels) if len(found) > 1 else []
        energy = core.CounterMetricFamily("hw_energy_joules", "Energy", labels=labels)
        power = core.GaugeMetricFamily("hw_power_watts", "Mean power", labels=labels)
        for counted in found[:-1]:
            energy.add_metric(list(counted.labels.values()), counted.energy_j)
            power.add_metric(list(counted.labels.values()), counted.power_w)
        yield from (energy, power)
        for total in found[-1:]:
            name, about = "hw_host_energy_joules", "Energy of all that counts"
            yield core.CounterMetricFamily(name, about, value=total.energy_j)
            name, about = "hw_host_power_watts", "Mean power of all that counts"
            yield core.GaugeMetricFamily(name, about, value=total.power_w)


@contextmanager
def to_otlp(
    exported: Exported, reader: Any | str, every_s: float = 5.0
) -> Iterator[None]:
    """Send to an OpenTelemetry collector, again and again and at the end.

    Args:
        exported: What is sent.
        reader: Address of the collector (`http://localhost:4318/v1/metrics`), or a
            reader of the SDK.
        every_s: Time between two messages, s.

    Raises:
        MissingExtraError: The SDK is not installed.
    """
    metrics = _library("opentelemetry.sdk.metrics", "otel")
    if isinstance(reader, str):
        otlp = _library(
            "opentelemetry.exporter.otlp.proto.http.metric_exporter", "otel"
        )
        exporter = otlp.OTLPMetricExporter(endpoint=reader)
        export = _library("opentelemetry.sdk.metrics.export", "otel")
        reader = export.PeriodicExportingMetricReader(exporter, every_s * 1e3)
    observation = _library("opentelemetry.metrics", "otel").Observation

    def seen(total: bool, value: Callable[[Counted], float]) -> Callable[[Any], Any]:
        def observe(_: Any) -> Iterator[Any]:
            for counted in exported.now():
                if (counted.channel is None) == total and math.isfinite(value(counted)):
                    labels = {k.replace("_", "."): v for k, v in counted.labels.items()}
                    yield observation(value(counted), labels)

        return observe

    provider = metrics.MeterProvider(metric_readers=[reader])
    meter = provider.get_meter("irene")
    for name, total in (("hw", False), ("hw.host", True)):
        energy = seen(total, lambda counted: counted.energy_j)
        power = seen(total, lambda counted: counted.power_w)
        meter.create_observable_counter(f"{name}.energy", [energy], "J")
        meter.create_observable_gauge(f"{name}.power", [power], "W")
    try:
        yield
    finally:
        provider.shutdown()


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"this needs pip install 'irene-energy[{extra}]'"
        ) from error
