"""A trace for Perfetto: the events with their energies, and power as counter lanes.

The format is Chrome's trace event format, which ui.perfetto.dev and chrome://tracing
open. Times are µs since the begin of the window, so that no digit is lost.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from irene.whole_file import whole_file

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger

POWER_PROCESS = "power"


def to_perfetto(ledger: Ledger, path: Path) -> None:
    """Write the trace; compressed if the name ends in `.gz`.

    Args:
        ledger: The ledger.
        path: The file.
    """
    with whole_file(path, make_folder=False) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(
                fileobj=file, mode="wb", compresslevel=4, mtime=0
            ) as packed:
                _write(ledger, packed)  # type: ignore[arg-type]
        else:
            _write(ledger, file)


def _write(ledger: Ledger, file: BinaryIO) -> None:
    facts = {
        "measured_j": ledger.measured_j,
        "attributed_j": ledger.attributed_j,
        "channels": ledger.produced_by,
        "notes": list(ledger.notes),
    }
    head = {"displayTimeUnit": "ms", "baseTimeNanoseconds": ledger.window_ns[0]}
    file.write(json.dumps({**head, "otherData": facts})[:-1].encode())
    file.write(b', "traceEvents": [\n')
    events = itertools.chain(_names(ledger), _power(ledger), _ops(ledger))
    for number, event in enumerate(events):
        text = ",\n" * (number > 0) + json.dumps(event, allow_nan=False)
        file.write(text.encode("utf-8", "replace"))
    file.write(b"\n]}\n")


def _names(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Devices as processes, lanes as threads."""
    events = ledger.events
    names = [POWER_PROCESS, *events.device.names]
    for number, name in enumerate(names):
        yield _meta("process_name", number, 0, name)
    pairs = np.unique(events.device.codes * len(events.lane.names) + events.lane.codes)
    for pair in pairs.tolist():
        device, lane = divmod(pair, len(events.lane.names))
        yield _meta("thread_name", device + 1, lane, events.lane.names[lane])


def _meta(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {
        "ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name},
    }  # fmt: skip


def _power(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """A counter for each channel; 0 where nothing is known: counters have no gaps."""
    begin_ns, end_ns = ledger.window_ns
    for series in ledger.power:
        inside = (series.time_ns[1:] > begin_ns) & (series.time_ns[:-1] < end_ns)
        mean_w = np.nan_to_num(0.5 * (series.begin_w + series.end_w))
        for row in np.flatnonzero(inside).tolist():
            yield {
                "ph": "C",
                "name": f"{series.name} (W)",
                "pid": 0,
                "ts": (int(series.time_ns[row]) - begin_ns) / 1e3,
                "args": {"W": round(float(mean_w[row]), 3)},
            }


def _ops(ledger: Ledger) -> Iterator[dict[str, Any]]:
    events, begin_ns = ledger.events, ledger.window_ns[0]
    starts_us = ((events.start_ns - begin_ns) / 1e3).tolist()
    lengths_us = ((events.end_ns - events.start_ns) / 1e3).tolist()
    energies, own = ledger.energy_j.tolist(), ledger.own_s.tolist()
    inclusive = _with_children(ledger).tolist()
    columns = {
        key: getattr(events, key).codes.tolist()
        for key in ("name", "op", "scope", "phase", "device", "lane")
    }
    resolved, charged = ledger.resolved.tolist(), ledger.is_charged.tolist()
    for row, start_us in enumerate(starts_us):
        args: dict[str, Any] = {
            "op": events.op.names[columns["op"][row]],
            "module": events.scope.names[columns["scope"][row]],
            "phase": events.phase.names[columns["phase"][row]],
        }
        if charged[row]:
            args["energy_j"] = inclusive[row]
            args["own_energy_j"] = energies[row]
            args["power_w"] = energies[row] / own[row] if own[row] else None
            args["resolved"] = resolved[row]
        yield {
            "ph": "X",
            "cat": events.phase.names[columns["phase"][row]],
            "name": events.name.names[columns["name"][row]],
            "pid": columns["device"][row] + 1,
            "tid": columns["lane"][row],
            "ts": start_us,
            "dur": lengths_us[row],
            "args": args,
        }


def _with_children(ledger: Ledger) -> Any:
    """Energy of every event with the events inside it, J."""
    events = ledger.events
    total = ledger.energy_j.copy()
    depth = np.zeros(len(events), dtype=np.int64)
    above = events.parent.copy()
    while (inside := above >= 0).any():
        depth[inside] += 1
        above[inside] = events.parent[above[inside]]
    for level in range(int(depth.max(initial=0)), 0, -1):
        here = np.flatnonzero(depth == level)
        np.add.at(total, events.parent[here], total[here])
    return total
