"""Series of Prometheus and Grafana, saved as JSON or CSV."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from irene.meters.logs.log_lines import PowerLog, clock_of, lacks_zone
from irene.meters.metric_names import Metric, counted_once, metric_of

UNNAMED = "series without a name: taken as W"
LABEL = re.compile(r'(\w+)="([^"]*)"')
MS = 1e6
Series = tuple[Metric, PowerLog]


def prometheus_json(document: Any) -> list[PowerLog]:
    """Answer of `/api/v1/query_range`: series with pairs of seconds and text."""
    found: list[Series] = []
    for series in document["data"]["result"]:
        pairs = series.get("values") or []
        times = np.array([float(pair[0]) for pair in pairs]) * 1e9
        values = np.array([float(pair[1]) for pair in pairs])
        found += _column(series.get("metric", {}), times, values)
    return _distinct(found)


def grafana_json(document: Any) -> list[PowerLog]:
    """Frames, as a panel's inspector and `/api/ds/query` give them; times in ms."""
    found: list[Series] = []
    for frame in _frames(document):
        fields, columns = frame["schema"]["fields"], frame["data"]["values"]
        kinds = [field.get("type") for field in fields]
        times = np.array(columns[kinds.index("time")], float) * MS
        for field, values in zip(fields, columns, strict=True):
            if field.get("type") == "number":
                labels = {"__name__": field.get("name", ""), **field.get("labels", {})}
                found += _column(labels, times, np.array(values, float))
    return _distinct(found)


def _frames(document: Any) -> Iterator[Any]:
    if "frames" in document:
        yield from document["frames"]
    for result in document.get("results", {}).values():
        yield from result.get("frames", ())


def grafana_csv(lines: Sequence[str]) -> list[PowerLog]:
    """Table that a panel's inspector saves: time, and a column for each series."""
    header, *rows = [row for row in csv.reader(lines) if row]
    found: list[Series] = []
    clock = clock_of(rows[0][0])
    times = np.array([clock(row[0]) for row in rows])
    for place, name in enumerate(header[1:], 1):
        labels = {"__name__": name.partition("{")[0], **dict(LABEL.findall(name))}
        values = np.array([_number(row[place]) for row in rows])
        found += _column(labels, times, values)
    local = lacks_zone(rows[0][0])
    return [replace(column, is_local=local) for column in _distinct(found)]


def _number(text: str) -> float:
    """`250 W` is 250; an empty cell is no value."""
    word = text.strip().partition(" ")[0]
    return float(word) if word else np.nan


def _column(labels: Mapping[str, str], times: Any, values: Any) -> Iterable[Series]:
    """A series as a column, if it is power or energy of a machine or a device."""
    metric = metric_of(labels)
    if metric is not None:
        known = np.isfinite(values)
        column = PowerLog(
            metric.name,
            times[known],
            values[known] * metric.size,
            metric.is_counter,
            device=metric.device,
            covers=metric.covers,
            notes=() if labels.get("__name__") else (UNNAMED,),
        )
        yield metric, column


def _distinct(found: Sequence[Series]) -> list[PowerLog]:
    kept = counted_once([metric for metric, _ in found])
    return [column for metric, column in found if metric in kept]


def is_json(text: str) -> bool:
    """Whether a text begins as a JSON document."""
    return text.lstrip()[:1] in ("{", "[")


def parsed(text: str) -> Iterator[Any]:
    """All JSON documents of a text that follow each other, or are in one list."""
    decoder, place = json.JSONDecoder(), 0
    blank = re.compile(r"[\s,\[\]]*")
    while (place := blank.match(text, place).end()) < len(text):  # type: ignore[union-attr]
        document, place = decoder.raw_decode(text, place)
        yield document
