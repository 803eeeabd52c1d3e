"""A store and other data: imported, exported, and several stores merged into one.

`irene.nodes/1` files, also those that `irene measure --data` has written, and the CSV
and JSONL data of 2021. What they do not say is not made up: it stays unknown. Of merged
stores each entry keeps where it comes from; two machines never share a name silently.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from irene.dataset.formats.nodes_parquet import Provenance, read_provenance
from irene.dataset.measured_data import (
    MEGA,
    MIB,
    Format,
    data_path,
    format_of,
    read_data,
    write_data,
)
from irene.dataset.store.entries import Entry, Machine, Origin, run_fields
from irene.dataset.store.segments import content_of, segments_of, verified_tables
from irene.dataset.store.store import Store
from irene.dataset.store.store_care import SMALL_BYTES
from irene.dataset.store.store_files import held
from irene.dataset.store.tree_rows import entry_table, known_values
from irene.dataset.table import NODE_FEATURES, NodeTable, TreeKey
from irene.errors import FormatError, UsageError
from irene.hardware import Hardware
from irene.spec import RunSpec

UNKNOWN = "unknown"
FLAG = json.dumps({"rounds_disturbed": 1.0})
"""What is kept of a node that something disturbed, where nobody says what."""


def import_data(store: Store, path: Path | str) -> tuple[list[str], list[str]]:
    """Add data of any format that `read_data` reads.

    Returns:
        Ids of the entries, and in words what was left out.
    """
    table, left_out = read_data(path)
    found = data_path(path)
    kind = format_of(found)
    told = read_provenance(found) if kind == "parquet" else Provenance()
    name, _, description = told.hardware.partition(": ")
    unknown = Hardware(name, UNKNOWN, description)
    dtype, attention, hardware = told.run or ("fp32", "eager", unknown)
    hardware = replace(hardware, name=hardware.name or table.name)
    origin = Origin(UNKNOWN, hardware, started=told.date, engine="import")
    note = f"imported from {kind} data: {told.source or table.name}"
    if told.run is None:
        note += "; dtype and attention were not recorded, fp32 and eager are assumed"
    kind_of_run = {"dtype": dtype, "attention": attention}
    return _add_trees(store, table, origin, note, kind_of_run), left_out


def _add_trees(
    store: Store, table: NodeTable, origin: Origin, note: str, kind: Mapping[str, str]
) -> list[str]:
    """Put the trees of a table into a store; the ids of all of them."""
    store.check_machine(origin.hardware)
    about = {
        "provenance": {},
        "notes": [note],
        "unsupported": {},
        "produced_by": "imported",
    }
    ids: list[str] = []
    new: dict[str, Entry] = {}

    def tables() -> Iterator[tuple[list[str], Any]]:
        for key, rows in _trees(table):
            run = RunSpec.from_dict({**key._asdict(), **kind})
            content = json.dumps([run_fields(run), rows], sort_keys=True)
            entry = Entry.made_now(run, origin, content, len(rows["path"]))
            ids.append(entry.id)
            if entry.id not in store.manifest.entries and entry.id not in new:
                new[entry.id] = entry
                yield [entry.id], entry_table(entry, about, rows)

    for names, content in segments_of(tables()):
        store.put(new, names, content)
    return ids


def _trees(table: NodeTable) -> Iterator[tuple[TreeKey, dict[str, list[Any]]]]:
    """Every tree of a table as the rows of a segment."""
    columns = table.to_columns()
    columns |= {n: known_values(columns[n]) for n in (*NODE_FEATURES, "energy_j")}
    columns["parent"] = columns["parent"].tolist()
    for key, place in table.trees():
        rows = {name: values[place] for name, values in columns.items()}
        features = {name: rows.pop(name) for name in NODE_FEATURES}
        if (disturbed := rows.pop("disturbed")).any():
            rows["more"] = [FLAG if each else None for each in disturbed]
        size = len(rows["path"])
        rows |= {name: [value] * size for name, value in key._asdict().items()}
        rows |= {
            "inputs": ["[]"] * size,
            "outputs": ["[]"] * size,
            "dtype": [""] * size,
        }
        rows |= {
            "params": _whole(features["num_parameters"], 1),
            "flops": _whole(features["flops"], MEGA),
            "bytes_read": _whole(features["mem_bytes"], MIB),
            "bytes_written": [0] * size,
            "low_j": rows["energy_j"],
            "high_j": rows["energy_j"],
            "source": ["measured"] * size,
        }
        yield key, rows | {f"feature_{name}": v for name, v in features.items()}


def _whole(values: list[float | None], unit: float) -> list[int | None]:
    return [None if value is None else round(value * unit) for value in values]


def export_store(
    store: Store,
    path: Path,
    kind: Format,
    hardware: str | None = None,
    software: str | None = None,
    only: Mapping[str, str] | None = None,
    allow_mixed: bool = False,
) -> NodeTable:
    """Write the forward passes of one machine; what was written.

    Machine and software may be left out if there is one only. `only` has values that
    fields of the specs must have; `allow_mixed` is for measurements of different
    software.

    Raises:
        UsageError: There is nothing, or several kinds of what is not mixed.
    """
    used: list[Entry] = []

    def where(entry: Entry) -> bool:
        fits = _has_values(entry, only or {})
        if fits:
            used.append(entry)
        return fits

    table = store.table(
        hardware, software=software, where=where, allow_mixed=allow_mixed
    )
    mine = [e for e in used if e.hardware == table.name]
    if software is not None:
        mine = [entry for entry in mine if entry.software == software]
    write_data(table, path, kind, _provenance(store, mine))
    return table


def _has_values(entry: Entry, only: Mapping[str, str]) -> bool:
    told = run_fields(entry.spec)
    strange = sorted(set(only) - set(told))
    if strange:
        raise UsageError(
            f"a run has no field {strange[0]!r}; there are {', '.join(told)}"
        )
    return all(str(told[name]) == value for name, value in only.items())


def _provenance(store: Store, entries: Sequence[Entry]) -> Provenance:
    names = sorted({entry.software for entry in entries})
    dates = sorted(filter(None, (entry.origin.started for entry in entries)))
    source = f"store {store.path.name} ({' and '.join(names)})"
    first, date = entries[0], dates[0] if dates else ""
    return Provenance.of_run(source, first.spec, first.machine, date)


MOSTLY = 0.5
"""A segment of which this part comes is copied as it is; the rest of it is not used."""


@dataclass(frozen=True, slots=True)
class Merged:
    """How many measured and failed entries came or were there; machines renamed."""

    added: int
    nodes: int
    failures: int
    already_there: int
    renamed: Mapping[Machine, str]


def merge_stores(
    sources: Sequence[Store],
    out: Store,
    keep_apart: bool = False,
    as_name: str | None = None,
) -> Merged:
    """Add the entries of some stores to another.

    An entry is known by its content, so one that is in several stores is added once,
    and a merge that was ended can be given again. Times are kept as they were recorded;
    nothing depends on them, nor on the order of the sources.

    Args:
        sources: Where entries come from; they stay as they are.
        out: Where they go.
        keep_apart: Machines of one name that differ are called NAME@HOST.
        as_name: Machines of one name that differ are one, called this.

    Raises:
        UsageError: Machines of one name differ, and nothing says what to do.
        FormatError: A segment is damaged.
        IreneError: It cannot be written.
    """
    there = out.entries()
    owned: dict[str, tuple[Store, Entry]] = {}
    seen = 0
    for source in sources:
        for entry in source.entries():
            seen += 1
            if entry.id not in out.manifest.entries:
                owned.setdefault(entry.id, (source, entry))
    new = [entry for _, entry in owned.values()]
    names = _names_of_machines(new, there, keep_apart, as_name)
    now_ns = time.time_ns()
    coming = {
        entry.id: replace(entry, hardware=names[Machine.of(entry)], added_ns=now_ns)
        for entry in new
    }
    with held(out.files.lock):
        out.manifest.add([e for _, e in sorted(coming.items()) if e.state == "failed"])
    for source in sources:
        mine = {n: coming[n] for n in owned if owned[n][0] is source}
        try:
            _add_measured(source, out, mine)
        except FormatError as error:
            raise FormatError(
                f"{error}; `irene data check {source.path}` sets it aside"
            ) from error
    measured = [entry for entry in new if entry.state == "measured"]
    return Merged(
        len(measured),
        sum(entry.nodes for entry in measured),
        len(new) - len(measured),
        seen - len(new),
        {machine: name for machine, name in names.items() if machine.name != name},
    )


def _add_measured(source: Store, out: Store, coming: Mapping[str, Entry]) -> None:
    wanted: dict[str, list[str]] = {}
    for name, entry in sorted(coming.items()):
        if entry.state == "measured":
            wanted.setdefault(entry.segment, []).append(name)
    within = Counter(entry.segment for entry in source.manifest.entries.values())
    segments = dict(source.manifest.segments)
    for file, ids in list(wanted.items()):
        if (
            segments[file].size_bytes >= SMALL_BYTES
            and len(ids) >= MOSTLY * within[file]
        ):
            # As it is: the manifest says which of its entries count.
            out.put(coming, ids, content_of(source.files, segments[file]))
            del wanted[file]
    for ids, content in segments_of(verified_tables(source.files, segments, wanted)):
        out.put(coming, sorted(ids), content)


def _names_of_machines(
    new: Sequence[Entry],
    there: Iterable[Entry],
    keep_apart: bool,
    as_name: str | None,
) -> dict[Machine, str]:
    """What every machine of entries that come is to be called; as `merge_stores`."""
    known = {Machine.of(entry) for entry in there if entry.state == "measured"}
    came = {Machine.of(entry) for entry in new if entry.state == "measured"}
    clashing = _clashing(came, known)
    if clashing and not keep_apart and as_name is None:
        raise UsageError(_refusal(clashing))
    names = {Machine.of(entry): entry.hardware for entry in new}
    if as_name is not None:
        return names | _as_one(clashing, as_name, came | known, known)
    return names | _apart(clashing, new, known)


def _clashing(came: set[Machine], known: set[Machine]) -> list[Machine]:
    """Machines that share their name with another, but where that is so already."""
    by_name: dict[str, set[Machine]] = {}
    for machine in came | known:
        by_name.setdefault(machine.name, set()).add(machine)
    return sorted(
        machine
        for machine in came
        if len(by_name[machine.name]) > 1 and not by_name[machine.name] <= known
    )


def _refusal(clashing: Sequence[Machine]) -> str:
    name = clashing[0].name
    alike = [machine for machine in clashing if machine.name == name]
    told = "; ".join(map(str, alike))
    return (
        f"machines that differ are called {name!r} ({told}): --keep-apart calls them "
        f"{name}@HOST, --as NAME says that they are one machine"
    )


def _as_one(
    clashing: Sequence[Machine],
    name: str,
    everything: set[Machine],
    known: set[Machine],
) -> dict[Machine, str]:
    alike = {*clashing, *(m for m in everything if m.name == name)}
    covers = sorted({machine.covers for machine in alike})
    if len(covers) > 1:
        raise UsageError(
            f"energies that cover {' and '.join(covers)} are not those of one machine: "
            "use --keep-apart"
        )
    stuck = sorted({m.name for m in known} & {m.name for m in clashing} - {name})
    if stuck:
        raise UsageError(
            f"the machine is called {stuck[0]!r} already where they are merged to: "
            f"use --as {stuck[0]}, or another folder"
        )
    return dict.fromkeys(clashing, name)


def _apart(
    clashing: Sequence[Machine], new: Sequence[Entry], known: set[Machine]
) -> dict[Machine, str]:
    hosts: dict[Machine, set[str]] = {}
    for entry in new:
        hosts.setdefault(Machine.of(entry), set()).add(entry.origin.host)
    wanted = {
        machine: f"{machine.name}@{'+'.join(sorted(hosts[machine]))}"
        for machine in clashing
        if machine not in known
    }
    count = Counter([*wanted.values(), *(machine.name for machine in known)])
    digests = {m: hashlib.sha256("\n".join(m).encode()).hexdigest() for m in wanted}
    return {
        machine: name if count[name] == 1 else f"{name}-{digests[machine][:6]}"
        for machine, name in wanted.items()
    }
