"""What is in a store, in numbers; nodes are counted by DuckDB and never all loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from irene.dataset.store.entry import Entry
from irene.dataset.store.layout import SCHEMA
from irene.dataset.store.store import Store
from irene.dataset.summary import ModelSummary
from irene.errors import FormatError, MissingExtraError
from irene.spec import RunSpec
from irene.tree import KINDS

__all__ = [
    "FailureSummary",
    "LevelCount",
    "MachineSummary",
    "StoreSummary",
    "summarise_store",
]

MEMORY_LIMIT = "512MB"
COUNTS = "kind, count(*), count(energy_j), min(energy_j), max(energy_j)"
BY_FILE = f"""
SELECT parse_filename(filename), {COUNTS}
FROM read_parquet($files, filename = true) GROUP BY filename, kind
"""
BY_ENTRY = f"""
SELECT parse_filename(filename), entry, {COUNTS}
FROM read_parquet($files, filename = true) GROUP BY filename, entry, kind
"""

Counted = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class LevelCount:
    """The nodes of one kind on one machine.

    Attributes:
        kind: `model`, `module`, `ml` or `math`.
        nodes: How many there are.
        unknown: How many of them have no energy.
        lowest_j: Smallest energy, J; None if none is known.
        highest_j: Largest energy, J; None if none is known.
    """

    kind: str
    nodes: int
    unknown: int
    lowest_j: float | None
    highest_j: float | None


@dataclass(frozen=True, slots=True)
class MachineSummary:
    """What was measured on one machine.

    Attributes:
        name: What it is called in the store.
        covers: What its energy covers.
        descriptions: What it is, in words.
        hosts: Computers that measured.
        software: What computed, and how many trees each has.
        meters: Meters that counted.
        dates: Per host, the first and the last start, as recorded there.
        trees: How many there are.
        nodes: Nodes of all of them.
        models: One entry per model.
        levels: One entry per kind of node that occurs.
    """

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
    """Runs that failed for one reason and were not measured since.

    Attributes:
        hardware: The machine.
        reason: What happened.
        runs: How many runs.
        models: Of these models.
    """

    hardware: str
    reason: str
    runs: int
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """What is in a store.

    Attributes:
        path: The folder.
        store_schema: Its version.
        trees: Measured trees.
        nodes: Nodes of all of them.
        segments: Files they are in.
        size_bytes: Length of these, bytes.
        machines: One entry per machine.
        failures: One entry per machine and reason.
        lost: Entries whose file was damaged and set aside.
    """

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
    """Count machines, models, sizes, nodes and failures of a store.

    Args:
        store: The store.

    Raises:
        FormatError: A segment is damaged.
        MissingExtraError: DuckDB is not installed.
    """
    try:
        return _summarised(store)
    except FormatError:
        before = set(store.manifest.segments)
        store.manifest.refresh()
        if before == set(store.manifest.segments):
            raise
        return _summarised(store)  # segments were packed meanwhile


def _summarised(store: Store) -> StoreSummary:
    entries = store.entries()
    measured = [entry for entry in entries if entry.state == "measured"]
    levels = _levels(store, measured)
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
    software: dict[str, int] = {}
    for entry in entries:
        used = entry.origin.software_name
        software[used] = software.get(used, 0) + 1
    return MachineSummary(
        name,
        _distinct(entry.origin.hardware.covers for entry in entries),
        _distinct(entry.origin.hardware.description for entry in entries),
        _distinct(entry.origin.host for entry in entries),
        dict(sorted(software.items())),
        _distinct(entry.origin.meter for entry in entries),
        _dates(entries),
        len(entries),
        sum(entry.nodes for entry in entries),
        tuple(_models(entries)),
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


def _models(entries: Sequence[Entry]) -> list[ModelSummary]:
    by_model: dict[str, list[Entry]] = {}
    for entry in entries:
        by_model.setdefault(entry.spec.model, []).append(entry)
    return [
        ModelSummary(
            model,
            len(found),
            sum(entry.nodes for entry in found),
            tuple(sorted({entry.spec.batch_size for entry in found})),
            tuple(sorted({entry.spec.seq_len for entry in found})),
        )
        for model, found in sorted(by_model.items())
    ]


def _failures(entries: Sequence[Entry]) -> tuple[FailureSummary, ...]:
    failed = [entry for entry in entries if entry.state == "failed"]
    if not failed:
        return ()
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


def _levels(store: Store, entries: Sequence[Entry]) -> dict[str, list[LevelCount]]:
    """Counts of nodes per machine and kind."""
    counts: dict[tuple[str, str], list[Any]] = {}
    for hardware, kind, nodes, known, lowest_j, highest_j in _counted(store, entries):
        one = counts.setdefault((hardware, kind), [0, 0, None, None])
        one[0] += nodes
        one[1] += nodes - known
        if known:
            one[2] = lowest_j if one[2] is None else min(one[2], lowest_j)
            one[3] = highest_j if one[3] is None else max(one[3], highest_j)
    levels: dict[str, list[LevelCount]] = {}
    for (hardware, kind), values in sorted(
        counts.items(), key=lambda item: (item[0][0], KINDS.index(item[0][1]))
    ):
        levels.setdefault(hardware, []).append(LevelCount(kind, *values))
    return levels


def _counted(store: Store, entries: Sequence[Entry]) -> Iterator[tuple[Any, ...]]:
    """Hardware, kind and counts of groups of nodes.

    Most files hold nodes of one machine and nothing else; others are counted entry by
    entry.
    """
    machines: dict[str, set[str]] = {}
    nodes: dict[str, int] = {}
    for entry in entries:
        machines.setdefault(entry.file, set()).add(entry.hardware)
        nodes[entry.file] = nodes.get(entry.file, 0) + entry.nodes
    by_file = [file for file, names in machines.items() if len(names) == 1]
    by_entry = {file for file, names in machines.items() if len(names) > 1}
    found: dict[str, Counted] = {}
    for file, *counts in _asked(store, BY_FILE, by_file):
        found.setdefault(file, []).append(tuple(counts))
    for file, rows in found.items():
        if sum(row[1] for row in rows) != nodes[file]:  # some of it does not count
            by_entry.add(file)
            continue
        (hardware,) = machines[file]
        yield from ((hardware, *row) for row in rows)
    place = {(entry.file, entry.id): entry.hardware for entry in entries}
    for file, name, *counts in _asked(store, BY_ENTRY, sorted(by_entry)):
        if (file, name) in place:
            yield place[file, name], *counts


def _asked(store: Store, question: str, files: Sequence[str]) -> Counted:
    """What DuckDB counts in some segments.

    Raises:
        FormatError: One of them cannot be read.
    """
    if not files:
        return []
    duckdb = _duckdb()
    paths = [str(store.layout.segments / file) for file in files]
    with TemporaryDirectory() as folder:
        settings = {"memory_limit": MEMORY_LIMIT, "temp_directory": folder}
        try:
            with duckdb.connect(":memory:", config=settings) as engine:
                found: Counted = engine.execute(question, {"files": paths}).fetchall()
                return found
        except duckdb.Error as error:
            message = " ".join(str(error).split())[:200]
            raise FormatError(
                f"{store.path}: a segment cannot be read: {message}; "
                f"`irene data check {store.path}` finds which"
            ) from error


def _duckdb() -> Any:
    try:
        return import_module("duckdb")
    except ImportError as error:
        raise MissingExtraError(
            "summing up a store needs DuckDB: pip install 'irene-energy[data]'"
        ) from error
