"""Formats of programs that log power: one table, `FORMATS`, one small reader each.

Whatever is none of them is a table of time and watts or joules: see `log_lines`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from irene.meters.logs.log_lines import PowerLog, clock_of, lacks_zone
from irene.meters.logs.metric_series import (
    grafana_csv,
    grafana_json,
    is_json,
    parsed,
    prometheus_json,
)
from irene.meters.metric_names import CPU, GPU, gpu_device

KWH = 3.6e6
HEAD = 4096
PERF_COUNT = re.compile(
    r"^\s*([\d.]+)[,;\s]+(?:S\d+[,;\s]+\d+[,;\s]+)?([\d.,]+?)[,;\s]+Joules", re.M
)
PERF_EVENT = re.compile(r"power/energy-(\w+)/")
PERF_SOCKET = re.compile(r"[,;\s]S(\d+)[,;\s]")
PERF_ZONES = {"pkg": CPU, "ram": "dram"}
DCGMI_UNITS = {"POWER": 1.0, "TOTEC": 1e-3}
"""Short names of the fields 155 and 156 of DCGM, W and mJ."""
ZEUS_GPU = re.compile(r"gpu(\d+)_energy")
EDGE_NS = 1_000.0
"""Less than what tells two windows apart; more than a time as a number loses."""
DATED = clock_of("2024-01-31 14:05:01")
"""The clock of logs that always write dates."""
STARTED = re.compile(r"# started on \w+ (\w+ +\d+ [\d:]+ \d{4})")


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A format that is no plain table: who writes it, whether a text looks like it."""

    name: str
    looks: Callable[[str], bool]
    read: Callable[[str], Sequence[PowerLog]]


def read_columns(text: str) -> Sequence[PowerLog] | None:
    """Columns of a log of a known program; None where it is none of them.

    Raises:
        ValueError: It is, and cannot be used; the message says why, and what helps.
    """
    head = text[:HEAD]
    for form in FORMATS:
        if form.looks(head):
            try:
                columns = form.read(text)
            except (KeyError, IndexError, TypeError) as error:
                raise ValueError(f"looks like {form.name}, but is damaged") from error
            if not any(len(column.time_ns) for column in columns):
                raise ValueError(f"{form.name}: no power or energy of a machine in it")
            return [column for column in columns if len(column.time_ns)]
    return None


def _dmon(text: str) -> list[PowerLog]:
    """Rows of `nvidia-smi dmon`: a line for each GPU, `-` where there is nothing."""
    lines = [line.replace(",", " ") for line in text.splitlines() if line.strip()]
    names = next(line for line in lines if "pwr" in line).lstrip("# ").lower().split()
    if "date" not in names or "time" not in names:
        raise ValueError("nvidia-smi dmon without times: log it with -o DT")
    found: dict[str, tuple[list[float], list[float]]] = {}
    for line in lines:
        words = dict(zip(names, line.split(), strict=False))
        if line.startswith("#") or words.get("pwr", "-") == "-":
            continue
        day = words["date"]
        times, powers = found.setdefault(words["gpu"], ([], []))
        times.append(DATED(f"{day[:4]}-{day[4:6]}-{day[6:]} {words['time']}"))
        powers.append(float(words["pwr"]))
    return [
        PowerLog(f"GPU {gpu}", times, powers, False, True, gpu_device(gpu), GPU)
        for gpu, (times, powers) in found.items()
    ]


def _dcgmi(text: str) -> list[PowerLog]:
    """Rows of `dcgmi dmon`, a line for each GPU, each behind a time that `ts` wrote."""
    names: list[str] = []
    found: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    first = ""
    for line in text.splitlines():
        time, entity, rest = line.partition("#Entity")
        if entity:
            names = rest.split()
            continue
        time, entity, rest = line.partition("GPU ")
        if not entity or not names:
            continue
        if not time.strip():
            raise ValueError(
                "dcgmi dmon without times, which it never prints: log it with "
                "`dcgmi dmon -e 155,156 | ts '%.s'`"
            )
        gpu, *values = rest.split()
        first = first or time.strip()
        moment = clock_of(first)(time.strip())
        for name, value in zip(names, values, strict=False):
            if name in DCGMI_UNITS and value != "N/A":
                times, known = found.setdefault((gpu, name), ([], []))
                times.append(moment)
                known.append(float(value) * DCGMI_UNITS[name])
    counted = {gpu for gpu, name in found if name == "TOTEC"}
    return [
        PowerLog(
            f"GPU {gpu}", times, values, name == "TOTEC", lacks_zone(first),
            gpu_device(gpu), GPU,
        )
        for (gpu, name), (times, values) in found.items()
        if name == "TOTEC" or gpu not in counted
    ]  # fmt: skip


def _zeus(text: str) -> list[PowerLog]:
    """Windows of Zeus' monitor, one after the other, with the energy of each GPU, J."""
    rows = list(csv.DictReader(text.splitlines()))
    rows.sort(key=lambda row: float(row["start_time"]))
    begins = np.array([float(row["start_time"]) for row in rows]) * 1e9
    ends = begins + np.array([float(row["elapsed_time"]) for row in rows]) * 1e9
    if np.any(begins[1:] < ends[:-1] - EDGE_NS):
        raise ValueError("windows of Zeus that overlap: keep those of one name")
    # Between two windows nothing was counted: no power is known there.
    gap = np.append(begins[1:] > ends[:-1] + 2 * EDGE_NS, False)
    until, always = np.append(begins[1:], ends[-1:]), np.ones(len(rows), bool)
    times = np.column_stack((begins, ends - EDGE_NS, ends, until - EDGE_NS))
    kept = np.column_stack((always, always, gap, gap))
    note = "mean power of each window of Zeus, and none known between them"
    columns = []
    for name in rows[0]:
        if found := ZEUS_GPU.fullmatch(name):
            watts = np.array([float(row[name]) for row in rows]) / (ends - begins) * 1e9
            none = np.full(len(watts), np.nan)
            values = np.column_stack((watts, watts, none, none))[kept]
            place = gpu_device(found[1]), GPU
            columns.append(
                PowerLog(name, times[kept], values, False, False, *place, (note,))
            )
    return columns


def _perf(text: str) -> list[PowerLog]:
    """Counts of each interval, added up; psys, cores and graphics hold no more."""
    begin_s, local = _perf_start(text)
    found: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for line in text.splitlines():
        count, event = PERF_COUNT.search(line), PERF_EVENT.search(line)
        if count and event and event[1] in PERF_ZONES:
            socket = PERF_SOCKET.search(line)
            key = event[1], socket[1] if socket else ""
            times, joules = found.setdefault(key, ([begin_s * 1e9], [0.0]))
            times.append((begin_s + float(count[1])) * 1e9)
            joules.append(joules[-1] + float(count[2].replace(",", "")))
    return [
        PowerLog(
            f"energy-{zone} {socket}".strip(),
            times,
            joules,
            True,
            local,
            "cpu",
            PERF_ZONES[zone],
            ("perf tells its start to the second",) if local else (),
        )
        for (zone, socket), (times, joules) in found.items()
    ]


def _perf_start(text: str) -> tuple[float, bool]:
    """When it began, s since 1970 as on a clock there; 0 if it does not say."""
    started = STARTED.search(text)
    if not started:
        return 0.0, False
    words = " ".join(started[1].split())
    begin = datetime.strptime(words, "%b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    return begin.timestamp(), True


def _json(text: str) -> list[PowerLog]:
    documents = list(parsed(text))
    first = documents[0]
    if "data" in first:
        return prometheus_json(first)
    if "host" in first:
        return _scaphandre(documents)
    return grafana_json(first)


def _scaphandre(documents: Sequence[Any]) -> list[PowerLog]:
    """Power of the host in µW, with seconds since 1970."""
    hosts = [each["host"] for each in documents if "host" in each]
    times = np.array([float(host["timestamp"]) for host in hosts]) * 1e9
    watts = np.array([float(host["consumption"]) for host in hosts]) * 1e-6
    return [PowerLog("host", times, watts)]


CODECARBON = {"timestamp", "run_id", "duration", "cpu_energy"}


def _codecarbon(text: str) -> list[PowerLog]:
    """Energy so far of each part, kWh, from the start of a run to each of its rows."""
    parts = {"cpu": ("cpu", CPU), "gpu": ("", GPU), "ram": ("cpu", "dram")}
    rows = list(csv.DictReader(text.splitlines()))
    runs = {row["run_id"] for row in rows}
    if len(runs) > 1:
        raise ValueError(
            f"{len(runs)} runs of CodeCarbon in one file: keep one of them"
        )
    ends = np.array([DATED(row["timestamp"]) for row in rows])
    begin = ends[0] - float(rows[0]["duration"]) * 1e9
    columns = []
    for part, (device, covers) in parts.items():
        joules = np.array([0.0, *(float(row[f"{part}_energy"]) * KWH for row in rows)])
        if joules[-1] > 0:
            columns.append(
                PowerLog(
                    part,
                    np.concatenate(([begin], ends)),
                    joules,
                    True,
                    True,
                    device,
                    covers,
                    ("CodeCarbon does not say what it measured and what it estimated",),
                )
            )
    return columns


def _home_assistant(text: str) -> list[PowerLog]:
    """History of sensors as downloaded: states in W, of energies in kWh."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        try:
            value = float(row["state"])
        except ValueError:
            continue  # unavailable, unknown
        times, values = found.setdefault(row["entity_id"], ([], []))
        times.append(DATED(row["last_changed"]))
        values.append(value)
    powers = {name for name in found if "energy" not in name}
    note = "Home Assistant tells no unit: taken as {}"
    return [
        PowerLog(
            name,
            np.array(times),
            np.array(values) * (1.0 if powers else KWH),
            not powers,
            notes=(note.format("W" if powers else "kWh"),),
        )
        for name, (times, values) in found.items()
        if name in (powers or found)
    ]


def _is_grafana_csv(head: str) -> bool:
    first = head.splitlines()[0] if head else ""
    return first.replace('"', "").lower().startswith("time,") and "{" in first


FORMATS = (
    LogFormat(
        "nvidia-smi dmon",
        lambda head: (
            head.startswith("#") and " pwr" in head.splitlines()[0].replace(",", " ")
        ),
        _dmon,
    ),
    LogFormat(
        "dcgmi dmon",
        lambda head: "#Entity" in head and ("POWER" in head or "TOTEC" in head),
        _dcgmi,
    ),
    LogFormat(
        "Zeus",
        lambda head: head.startswith("start_time,window_name,elapsed_time"),
        _zeus,
    ),
    LogFormat("perf stat -I", lambda head: "power/energy-" in head, _perf),
    LogFormat("Prometheus, Grafana or Scaphandre", is_json, _json),
    LogFormat(
        "CodeCarbon",
        lambda head: set(head.split("\n")[0].strip().split(",")) >= CODECARBON,
        _codecarbon,
    ),
    LogFormat(
        "Home Assistant",
        lambda head: head.startswith("entity_id,state,last_changed"),
        _home_assistant,
    ),
    LogFormat("Grafana", _is_grafana_csv, lambda text: grafana_csv(text.splitlines())),
)
"""Formats, the first that looks right is taken."""
