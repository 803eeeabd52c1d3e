"""Merging: the entries of several stores in one, each with where it comes from.

Two machines never share one name silently.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from irene.dataset.store.entries import Entry, Machine
from irene.dataset.store.segments import content_of, segments_of, verified_tables
from irene.dataset.store.store import Store
from irene.dataset.store.store_care import SMALL_BYTES
from irene.dataset.store.store_files import held
from irene.errors import FormatError, UsageError

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
    return {
        machine: name if count[name] == 1 else f"{name}-{_digest(machine)}"
        for machine, name in wanted.items()
    }


def _digest(machine: Machine) -> str:
    return hashlib.sha256("\n".join(machine).encode()).hexdigest()[:6]
