"""Exporters of Prometheus as meters: Kepler, Scaphandre, DCGM, and whoever has watts.

A meter is named `prometheus:http://host:9400/metrics`; after `#` there may be the name
of one metric, and `every_s`. What a name means is in `metric_names`; shares of pods and
processes are left out, and each joule counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated
from urllib.parse import parse_qsl

from irene.errors import MeterError, library
from irene.meters.channel import NO_VALUE, Channel, PolledMeter
from irene.meters.energy_counter import GrowingCounter
from irene.meters.metric_names import Metric, counted_once, metric_of
from irene.meters.wall.http_json import fetched
from irene.parameters import Asked, read

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels and value of one line of metrics."""
INSTALL = "pip install 'irene-energy[prometheus]'"
PREFIX = "prometheus:"
EVERY_S = 1.0
UNKNOWN_ERROR = 0.1
GUESSED = "the exporter states no error; 10 % is a guess"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What stands after the `#` of an address: one metric, s between questions."""

    metric: str = ""
    every_s: Annotated[float, Asked(least=0.01)] = EVERY_S


def open_prometheus(text: str) -> PolledMeter:
    """Ask an exporter once, and go on asking it.

    Args:
        text: `prometheus:http://host:9400/metrics`, with `#NAME` for one metric, or
            `#metric=NAME&every_s=5`.
    """
    url, _, words = text.removeprefix(PREFIX).partition("#")
    given = dict(parse_qsl(words)) if "=" in words else {"metric": words}
    asked = read(_Wanted, given)
    every_s = asked.every_s
    ask = partial(_metrics, url, asked.metric)
    first = ask()
    if not first:
        wanted = asked.metric or "power or energy (…_watts, …_joules_total)"
        raise MeterError(f"{url}: no metric of {wanted}")
    counters = {m: GrowingCounter(m.size) for m in first if m.is_counter}

    def fetch() -> list[float]:
        now = ask()
        return [
            NO_VALUE
            if metric not in now
            else counters[metric].joules(now[metric])
            if metric in counters
            else now[metric] * metric.size
            for metric in first
        ]

    counted = counted_once(list(first))
    channels = [_channel(m, counted=m in counted, every_s=every_s) for m in first]
    return PolledMeter("prometheus", channels, fetch, every_s)


def samples_of(text: bytes) -> Iterator[Sample]:
    """All lines of an exporter's answer."""
    missing = f"metrics are read with prometheus-client: {INSTALL}"
    parser = library("prometheus_client.parser", missing)
    try:
        for family in parser.text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                yield sample.name, sample.labels, float(sample.value)
    except ValueError as error:
        raise MeterError(f"no metrics as Prometheus writes them: {error}") from error


def _metrics(url: str, wanted: str) -> dict[Metric, float]:
    """Values of all metrics of power and energy, or of one by name."""
    found: dict[Metric, float] = {}
    for name, labels, value in samples_of(fetched(url)):
        metric = metric_of({"__name__": name, **labels})
        if metric is not None and wanted in ("", name):
            found[metric] = found.get(metric, 0.0) + value
    return found


def _channel(metric: Metric, *, counted: bool, every_s: float) -> Channel:
    name = "".join("_" if c in ',"#\n\r' else c for c in metric.name)
    return Channel(
        f"prometheus:{name}",
        "energy_j" if metric.is_counter else "power_w",
        covers=metric.covers or "wall",
        counted=counted,
        device=metric.device,
        resolution_s=every_s,
        relative_error=UNKNOWN_ERROR,
        note=GUESSED,
    )
