"""A ledger as documents: JSON, views as columns and CSV, all events as Parquet.

Events with their energies and power as counter lanes are also a trace in Chrome's trace
event format, which ui.perfetto.dev and chrome://tracing open. Its times are µs since
the begin of the window, so that no digit is lost.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from irene.account.ledger.rows import energy_fields
from irene.account.ledger.timeline import compact
from irene.arrays import Bools
from irene.errors import UsageError
from irene.tables import pyarrow
from irene.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from irene.account.ledger.ledger import Ledger
    from irene.account.ledger.rows import Row
    from irene.tree import ModelTree

SCHEMA = "irene.ledger/1"
VIEWS = {
    "module": "by_module", "layer": "by_layer", "op": "by_op",
    "operation": "operations", "phase": "by_phase", "device": "by_device",
}  # fmt: skip
"""Views by name, and what of a ledger gives their rows."""
COLUMNS = (
    "name", "energy_j", "low_j", "high_j", "source", "power_w", "share", "time_s",
    "count", "unknown_s", "resolved", "group", "group_energy_j", "steps",
    "step_mean_j", "step_std_j",
)  # fmt: skip
MODULE_COLUMNS = ("parent_share", "forward_j", "backward_j")


def view_rows(ledger: Ledger, by: str, top: int | None = None) -> Sequence[Row]:
    """The rows of a view."""
    if by not in VIEWS:
        raise UsageError(f"no view {by!r}; there are {', '.join(VIEWS)}")
    rows: Sequence[Row] = getattr(ledger, VIEWS[by])()
    return rows[:top]


def ledger_dict(ledger: Ledger, costs: ModelTree | None = None) -> dict[str, Any]:
    """The ledger alone, as JSON-ready values."""
    begin_ns, end_ns = ledger.window_ns
    return {
        "schema": SCHEMA,
        "begin_ns": begin_ns,
        "end_ns": end_ns,
        "window_s": ledger.window_s,
        "split": ledger.split,
        "events": len(ledger.events),
        "steps": list(ledger.events.steps),
        **energy_fields(ledger.total()),
        "measured_j": ledger.measured_j,
        "attributed_j": ledger.attributed_j,
        "produced_by": ledger.produced_by,
        "channels": [account.to_dict() for account in ledger.accounts],
        "rest": [row.to_dict() for row in ledger.rest()],
        "by_phase": [row.to_dict() for row in ledger.by_phase()],
        "by_device": [row.to_dict() for row in ledger.by_device()],
        "by_op": [row.to_dict() for row in ledger.by_op()],
        "by_module": [row.to_dict() for row in ledger.by_module(costs)],
        "operations": [row.to_dict() for row in ledger.operations()],
        "timeline": compact(ledger).to_dict(),
        "notes": list(ledger.notes),
    }


def view_columns(ledger: Ledger, by: str, top: int | None = None) -> dict[str, Any]:
    """A view, then what belongs to no op, by column; None where there is no value."""
    records = [row.to_dict() for row in view_rows(ledger, by, top)]
    names = COLUMNS + (MODULE_COLUMNS if by in ("module", "layer") else ())
    rest = [{**row.to_dict(), "name": f"({row.name})"} for row in ledger.rest()]
    cells = [_cells(record) for record in (*records, *rest)]
    return {name: [each.get(name) for each in cells] for name in names}


def _cells(record: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a row by column: the spread over steps has three of its own."""
    steps = record.get("steps") or {}
    return {
        **record,
        "group": record.get("group") or None,
        "steps": steps.get("steps"),
        "step_mean_j": steps.get("mean_j"),
        "step_std_j": steps.get("std_j"),
    }


def to_parquet(ledger: Ledger, path: Path) -> None:
    """One row for each event, in the order of the trace; metadata in the file's own."""
    arrow, parquet = pyarrow()
    events = ledger.events
    columns: dict[str, Any] = {
        "start_ns": events.start_ns,
        "end_ns": events.end_ns,
        **{
            key: arrow.DictionaryArray.from_arrays(
                getattr(events, key).codes.astype(np.int32),
                arrow.array(getattr(events, key).names, arrow.string()),
            )
            for key in ("name", "op", "scope", "phase", "device", "lane")
        },
        "parent": events.parent,
        "step": events.step,
        "is_mark": events.is_mark,
        # What has no power at all is unknown, not zero.
        "energy_j": arrow.array(ledger.energy_j, mask=~_known(ledger)),
        "own_s": ledger.own_s,
        "unknown_s": ledger.unknown_s,
        "resolved": ledger.resolved,
        "resolution_s": ledger.resolution_s,
    }
    table = arrow.table(columns)
    facts = {
        "schema": SCHEMA,
        "window_ns": ledger.window_ns,
        "split": ledger.split,
        "steps": events.steps,
        "channels": [account.to_dict() for account in ledger.accounts],
        "notes": ledger.notes,
    }
    table = table.replace_schema_metadata({"irene": json.dumps(facts)})
    with whole_file(path, make_folder=False) as file:
        parquet.write_table(table, file, compression="zstd")


def _known(ledger: Ledger) -> Bools:
    """Events of whose time some power is known."""
    dark = (ledger.unknown_s >= ledger.own_s * (1 - 1e-12)) & (ledger.own_s > 0)
    known: Bools = ledger.is_charged & ~(dark & (ledger.energy_j == 0))
    return known


POWER_PROCESS = "power"


def to_perfetto(ledger: Ledger, path: Path) -> None:
    """Write the trace; compressed if the name ends in `.gz`."""
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
