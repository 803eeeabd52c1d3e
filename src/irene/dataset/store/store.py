"""Store: measured trees on disk that many add to and predictors learn from."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from irene.dataset.store.entries import Entry, Machine, Origin, run_fields
from irene.dataset.store.segments import (
    place_segment,
    read_entries,
    segments_of,
)
from irene.dataset.store.store_care import (
    SMALL_BYTES,
    Finding,
    Packed,
    check_store,
    finish_writing,
    is_unfinished,
    pack_segments,
)
from irene.dataset.store.store_files import (
    Manifest,
    StoreFiles,
    held,
    is_store,
    make_store,
)
from irene.dataset.store.tree_rows import (
    TABLE_COLUMNS,
    choose_for_table,
    entry_table,
    median_table,
    starts_of,
    tree_of_rows,
    tree_rows,
)
from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tree import ModelTree

log = logging.getLogger(__name__)

Where = Callable[[Entry], bool]


class Store:
    """A folder of measured trees; made by `Store.open`.

    Any number of processes may add to one store and read it at the same time. What
    `add` has answered for is on disk, whatever happens then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = StoreFiles(path)
        self.manifest = Manifest(self.files)

    @classmethod
    def open(cls, path: Path | str, create: bool = False) -> Store:
        """Open a store, made first if that is asked; finish what a killed writer began.

        Raises:
            UsageError: There is none, or something else is in the way.
            FormatError: It is damaged, or of a newer version.
        """
        folder = Path(path)
        if create and not is_store(folder):
            make_store(folder)
        store = cls(folder)
        store.files.check()
        if not store.files.manifest.exists():
            log.warning("%s was gone: made anew from the segments", store.manifest.path)
            with suppress(OSError):  # reading it will say why
                store.files.manifest.touch()
        store.manifest.refresh()
        if is_unfinished(store.manifest):
            try:
                finish_writing(store.manifest)
            except (UsageError, PermissionError) as error:
                log.warning("%s is read as it is: %s", path, error)
        return store

    # Adding -------------------------------------------------------------------

    def add(
        self,
        tree: ModelTree,
        origin: Origin,
        *,
        unless_there: bool = False,
    ) -> str:
        """Put one measured run into the store; on disk when this returns.

        Args:
            tree: With spec and energy. It is kept unfolded.
            origin: Where it comes from.
            unless_there: Whether to leave the store as it is if this run, on this
                hardware and software, has been measured already.

        Returns:
            Id of the entry, or of the one that was there already.

        Raises:
            UsageError: The tree names no run or carries no energy, or another machine
                of this name is in the store.
            IreneError: It cannot be written; the store is as it was.
        """
        if tree.spec is None or tree.energy is None:
            raise UsageError("a store keeps trees that name their run and carry energy")
        flat = tree.unfold()
        entry = Entry.made_now(tree.spec, origin, flat.to_json(), len(flat))
        told = {
            "provenance": flat.provenance,
            "notes": list(flat.notes),
            "unsupported": flat.unsupported,
            "produced_by": tree.energy.produced_by,
        }
        rows = entry_table(entry, told, tree_rows(flat))
        ((_, content),) = segments_of([([entry.id], rows)])
        with held(self.files.lock):
            self.manifest.refresh()
            if unless_there:
                there = self.manifest.find_run(*entry.run, entry.software)
                if there is not None:
                    return there
            if entry.id not in self.manifest.entries:
                self.check_machine(origin.hardware)
                self.manifest.add([entry], place_segment(self.files, content))
        return entry.id

    def put(self, entries: Mapping[str, Entry], ids: list[str], content: bytes) -> None:
        """Put a segment of entries into the store; on disk when this returns."""
        with held(self.files.lock):
            segment = place_segment(self.files, content)
            self.manifest.add([entries[name] for name in ids], segment)

    def check_machine(self, hardware: Hardware) -> None:
        """Refuse a machine that bears the name of another one."""
        new = Machine(hardware.name, hardware.covers, hardware.description)
        known = self.manifest.machines.get(hardware.name)
        if known and new not in known:
            other = min(known)
            raise UsageError(
                f"{self.path} has another machine {hardware.name!r} "
                f"({other.description or 'not described'}; covers {other.covers}) "
                f"than this one ({new.description or 'not described'}; covers "
                f"{new.covers}): give this one a name of its own"
            )

    def add_failure(self, spec: RunSpec, origin: Origin, reason: str) -> str:
        """Record that a run failed, and why: its id, on disk when this returns."""
        content = json.dumps([run_fields(spec), reason], sort_keys=True)
        reason = reason or "no reason given"
        entry = Entry.made_now(spec, origin, content, reason=reason)
        with held(self.files.lock):
            self.manifest.refresh()
            if entry.id not in self.manifest.entries:
                self.manifest.add([entry])
        return entry.id

    # Reading ------------------------------------------------------------------

    def has(self, spec: RunSpec, hardware: str, software: str | None = None) -> bool:
        """Whether a run has been measured on a machine, with any software or this."""
        self.manifest.refresh()
        return self.manifest.find_run(spec.digest, hardware, software) is not None

    def entries(self) -> list[Entry]:
        """All entries, by id; no tree is read."""
        self.manifest.refresh()
        return [self.manifest.entries[name] for name in sorted(self.manifest.entries)]

    def trees(
        self, hardware: str | None = None, where: Where | None = None
    ) -> Iterator[ModelTree]:
        """Measured trees, one at a time."""
        chosen = {e.id: e for e in self._measured(hardware, where)}
        for names, table in read_entries(self.manifest, chosen):
            for name, (start, stop) in zip(
                names, pairwise(starts_of(table)), strict=True
            ):
                rows = table.slice(start, stop - start).to_pydict()
                yield tree_of_rows(rows, chosen[name].machine)

    def table(
        self,
        hardware: str | None = None,
        *,
        software: str | None = None,
        where: Where | None = None,
        allow_mixed: bool = False,
        name: str | None = None,
    ) -> NodeTable:
        """Forward passes as a table for training, one tree per model and size.

        Of several measurements of one run, the median of each node counts.

        Args:
            hardware: The machine; may be left out if there is one only.
            software: As `Origin.software_name`; may be left out if there is one only.
            where: Entries for which it is true only.
            allow_mixed: Whether measurements of different software may be mixed.
            name: What the table is called; by default as the hardware.

        Raises:
            UsageError: There is nothing, or several machines, software or kinds of run.
        """
        measured = self._measured(hardware, where)
        fit = choose_for_table(self.path, measured, hardware, software, allow_mixed)
        chosen = {entry.id: entry for entry in fit}
        tables = read_entries(self.manifest, chosen, TABLE_COLUMNS)
        return median_table(chosen, tables, name or fit[0].hardware)

    def _measured(self, hardware: str | None, where: Where | None) -> list[Entry]:
        return [
            entry
            for entry in self.entries()
            if entry.state == "measured"
            and hardware in (None, entry.hardware)
            and (where is None or where(entry))
        ]

    # Care ---------------------------------------------------------------------

    def check(self) -> list[Finding]:
        """Compare every file with its checksum; what was damaged, and what was done."""
        return check_store(self.manifest)

    def pack(self, small_bytes: int = SMALL_BYTES) -> Packed:
        """Pack segments below some bytes into large ones; nothing happens to one alone.

        Whenever it is ended, each entry counts in one segment. Others may add and read
        meanwhile.

        Raises:
            FormatError: A segment is damaged.
            IreneError: There is no room; the store is as it was.
        """
        return pack_segments(self.manifest, small_bytes)

    def __repr__(self) -> str:
        return f"<Store {self.path}: {len(self.manifest.entries):,} entries>"
