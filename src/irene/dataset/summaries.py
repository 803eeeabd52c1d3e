"""What is in a table or in a store, in numbers.

Nodes of a store are counted row group by row group and never all loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from irene.dataset.store.entries import Entry
from irene.dataset.store.segments import read_entries
from irene.dataset.store.store import Store
from irene.dataset.store.store_files import SCHEMA
from irene.dataset.store.tree_rows import FLAGGED, starts_of
from irene.dataset.table import FEATURES, NodeTable, TreeKey
from irene.errors import FormatError
from irene.spec import RunSpec
from irene.tables import pyarrow
from irene.tree import KINDS

COUNTED = ("entry", "parent", "kind", "energy_j", "more")
COUNTS = {
    "count_all": "sum", "energy_j_count": "sum", "disturbed_sum": "sum",
    "energy_j_min": "min", "energy_j_max": "max",
}  # fmt: skip
"""What is counted of some rows, and how that of several such is put together."""


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """The trees of one model, their nodes, and the sizes that occur."""

    model: str
    trees: int
    nodes: int
    batch_sizes: tuple[int, ...]
    seq_lens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """The nodes of one kind; `distinct` are no copies of another measurement."""

    kind: str
    nodes: int
    distinct: int
    lowest_j: float | None
    highest_j: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What is in a table, by model and by kind of node."""

    name: str
    trees: int
    nodes: int
    models: tuple[ModelSummary, ...]
    levels: tuple[LevelSummary, ...]


def summarise(table: NodeTable) -> Summary:
    """Count models, sizes, nodes and measurements of a table."""
    kinds = [kind for kind in KINDS if len(table.rows(kind))]
    return Summary(
        table.name,
        len(table.keys),
        len(table),
        _models((key, r.stop - r.start) for key, r in table.trees()),
        tuple(_level(table, kind) for kind in kinds),
    )


def _distinct_rows(table: NodeTable, kind: str) -> int:
    """Rows of one kind that are not exact copies: class, features or energy differ."""
    rows = table.rows(kind)
    if not len(rows):
        return 0
    ops = np.unique([table.op[row] for row in rows], return_inverse=True)[1]
    columns = [table.features[name][rows] for name in FEATURES]
    values = np.column_stack([ops, *columns, table.energy_j[rows]])
    unknown = np.isnan(values)
    # A measurement is never negative: -1 stands for what is unknown.
    return len(np.unique(np.where(unknown, -1.0, values), axis=0))


def _models(trees: Iterable[tuple[TreeKey, int]]) -> tuple[ModelSummary, ...]:
    """One summary per model; of the run and the number of nodes of every tree."""
    models: dict[str, list[tuple[TreeKey, int]]] = {}
    for key, nodes in trees:
        models.setdefault(key.model, []).append((key, nodes))
    return tuple(
        ModelSummary(
            model,
            len(found),
            sum(nodes for _, nodes in found),
            tuple(sorted({key.batch_size for key, _ in found})),
            tuple(sorted({key.seq_len for key, _ in found})),
        )
        for model, found in models.items()
    )


def _level(table: NodeTable, kind: str) -> LevelSummary:
    rows = table.rows(kind)
    known = table.energy_j[rows]
    known = known[~np.isnan(known)]
    return LevelSummary(
        kind,
        len(rows),
        _distinct_rows(table, kind),
        float(known.min()) if len(known) else None,
        float(known.max()) if len(known) else None,
    )


@dataclass(frozen=True, slots=True)
class LevelCount:
    """The nodes of one kind on one machine; energies are None if none is known."""

    kind: str
    nodes: int
    unknown: int
    disturbed: int
    lowest_j: float | None
    highest_j: float | None


@dataclass(frozen=True, slots=True)
class MachineSummary:
    """What was measured on one machine; dates are first and last, per host."""

    name: str
    covers: tuple[str, ...]
    descriptions: tuple[str, ...]
    hosts: tuple[str, ...]
    software: dict[str, int]
    meters: tuple[str, ...]
    dates: dict[str, tuple[str, str]]
    trees: int
    nodes: int
    models: tuple[ModelSummary, ...]
    levels: tuple[LevelCount, ...]


@dataclass(frozen=True, slots=True)
class FailureSummary:
    """Runs that failed for one reason and were not measured since."""

    hardware: str
    reason: str
    runs: int
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """What is in a store; `lost` entries were in files that are set aside."""

    path: str
    store_schema: str
    trees: int
    nodes: int
    segments: int
    size_bytes: int
    machines: tuple[MachineSummary, ...]
    failures: tuple[FailureSummary, ...]
    lost: int


def summarise_store(store: Store) -> StoreSummary:
    """Count machines, models, sizes, nodes and failures of a store."""
    entries = store.entries()
    measured = [entry for entry in entries if entry.state == "measured"]
    levels = _level_counts(store, measured)
    by_name: dict[str, list[Entry]] = {}
    for entry in measured:
        by_name.setdefault(entry.hardware, []).append(entry)
    segments = store.manifest.segments.values()
    return StoreSummary(
        str(store.path),
        SCHEMA,
        len(measured),
        sum(entry.nodes for entry in measured),
        len(segments),
        sum(segment.size_bytes for segment in segments),
        tuple(
            _machine(name, by_name[name], levels.get(name, ()))
            for name in sorted(by_name)
        ),
        _failures(entries),
        len(store.manifest.lost),
    )


def _machine(
    name: str, entries: Sequence[Entry], levels: Sequence[LevelCount]
) -> MachineSummary:
    origins = [entry.origin for entry in entries]
    trees = sorted((TreeKey.of(entry.spec), entry.nodes) for entry in entries)
    return MachineSummary(
        name,
        _distinct(origin.hardware.covers for origin in origins),
        _distinct(origin.hardware.description for origin in origins),
        _distinct(origin.host for origin in origins),
        dict(sorted(Counter(entry.software for entry in entries).items())),
        _distinct(origin.meter for origin in origins),
        _dates(entries),
        len(entries),
        sum(entry.nodes for entry in entries),
        _models(trees),
        tuple(levels),
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(filter(None, values))))


def _dates(entries: Sequence[Entry]) -> dict[str, tuple[str, str]]:
    """Clocks of hosts are not compared with each other."""
    dates: dict[str, list[str]] = {}
    for entry in entries:
        if entry.origin.started:
            dates.setdefault(entry.origin.host, []).append(entry.origin.started)
    return {host: (min(told), max(told)) for host, told in sorted(dates.items())}


def _failures(entries: Sequence[Entry]) -> tuple[FailureSummary, ...]:
    failed = [entry for entry in entries if entry.state == "failed"]
    measured = {(e.spec, e.hardware) for e in entries if e.state == "measured"}
    found: dict[tuple[str, str], dict[RunSpec, str]] = {}
    for entry in failed:
        if (entry.spec, entry.hardware) not in measured:
            runs = found.setdefault((entry.hardware, entry.reason), {})
            runs[entry.spec] = entry.spec.model
    return tuple(
        FailureSummary(hardware, reason, len(runs), _distinct(runs.values()))
        for (hardware, reason), runs in sorted(found.items())
    )


def _level_counts(
    store: Store, entries: Sequence[Entry]
) -> dict[str, list[LevelCount]]:
    """Counts of nodes per machine and kind."""
    machines = {entry.id: entry.hardware for entry in entries}
    groups = read_entries(store.manifest, machines, COUNTED)
    try:
        parts = [_counted(rows, machines, ids) for ids, rows in groups]
    except FormatError as error:
        raise FormatError(
            f"{error}; `irene data check {store.path}` sets it aside"
        ) from error
    levels: dict[str, list[LevelCount]] = {}
    if not parts:
        return levels
    whole = pyarrow().pa.concat_tables(parts).group_by(["machine", "kind"])
    rows = whole.aggregate(list(COUNTS.items())).to_pylist()
    for row in sorted(rows, key=lambda row: KINDS.index(row["kind"])):
        nodes, known, *others = (row[f"{name}_{how}"] for name, how in COUNTS.items())
        count = LevelCount(row["kind"], nodes, nodes - known, *others)
        levels.setdefault(row["machine"], []).append(count)
    return levels


def _counted(rows: Any, machines: Mapping[str, str], ids: Sequence[str]) -> Any:
    """What is counted of the rows of some entries, by machine and kind."""
    compute = import_module("pyarrow.compute")
    names = np.array([machines[name] for name in ids], dtype=object)
    machine = pyarrow().pa.array(np.repeat(names, np.diff(starts_of(rows))))
    flagged = compute.match_substring(rows["more"], FLAGGED).fill_null(False)
    told = rows.append_column("machine", machine).append_column("disturbed", flagged)
    wanted = [([], "count_all"), ("disturbed", "sum")]
    wanted += [("energy_j", how) for how in ("count", "min", "max")]
    return told.group_by(["machine", "kind"]).aggregate(wanted)
