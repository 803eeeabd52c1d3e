"""Merging: the entries of several stores in one, each with where it comes from."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from irene.dataset.store.entry import Entry
from irene.dataset.store.locking import held
from irene.dataset.store.machines import Machine, names_of_machines
from irene.dataset.store.manifest import Segment
from irene.dataset.store.packing import SMALL_BYTES, Packer
from irene.dataset.store.recovery import entry_line
from irene.dataset.store.segments import SegmentWriter, verify, wanted_tables
from irene.dataset.store.store import Store
from irene.errors import FormatError

__all__ = ["Merged", "merge_stores"]

MOSTLY = 0.5
"""A segment of which this part comes is copied as it is; the rest of it is not used."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What merging did.

    Attributes:
        added: Measured entries that came.
        nodes: Nodes of these.
        failures: Failed entries that came.
        there: Entries that were there already, or in several sources.
        renamed: New names of machines, by old name, what is covered, and description.
    """

    added: int
    nodes: int
    failures: int
    there: int
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
    names = names_of_machines(new, there, keep_apart, as_name)
    now_ns = time.time_ns()
    coming = {
        entry.id: replace(entry, hardware=names[Machine.of(entry)], added_ns=now_ns)
        for entry in new
    }
    _add_failures(out, coming)
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


def _add_failures(out: Store, coming: Mapping[str, Entry]) -> None:
    failed = [coming[n] for n in sorted(coming) if coming[n].state == "failed"]
    with held(out.layout.lock):
        out.manifest.append([entry_line(entry) for entry in failed])


def _add_measured(source: Store, out: Store, coming: Mapping[str, Entry]) -> None:
    files: dict[str, list[str]] = {}
    for name, entry in sorted(coming.items()):
        if entry.state == "measured":
            files.setdefault(entry.file, []).append(name)

    within = Counter(entry.file for entry in source.manifest.entries.values())

    def commit(ids: list[str], segment: Segment) -> None:
        out.manifest.append(list(_lines(ids, coming, segment)))

    with Packer(out.layout, commit) as packer:
        for file, ids in files.items():
            segment = source.manifest.segments[file]
            path = source.layout.segments / file
            mostly = len(ids) >= MOSTLY * within[file]
            if segment.size_bytes >= SMALL_BYTES and mostly:
                _copy(source, out, segment, ids, coming)
                continue
            verify(path, segment)
            for names, table in wanted_tables(path, frozenset(ids)):
                packer.add(names, table)


def _copy(
    source: Store,
    out: Store,
    segment: Segment,
    ids: Sequence[str],
    coming: Mapping[str, Entry],
) -> None:
    """Take over a segment as it is; the manifest says which of its entries count."""
    with SegmentWriter(out.layout) as writer:
        writer.copy(source.layout.segments / segment.file, segment)
        copied = writer.finish()
        with held(out.layout.lock):
            writer.place()
            out.manifest.append(list(_lines(ids, coming, copied)))


def _lines(
    ids: Sequence[str], coming: Mapping[str, Entry], segment: Segment
) -> list[dict[str, Any]]:
    return [
        entry_line(replace(coming[name], file=segment.file), segment)
        for name in sorted(ids)
    ]
