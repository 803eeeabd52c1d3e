"""Store: measured trees on disk that many add to and predictors learn from."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from irene.dataset.store import known
from irene.dataset.store.choosing import choose_for_table
from irene.dataset.store.columns import tree_of_rows, tree_rows
from irene.dataset.store.entry import Entry, entry_id
from irene.dataset.store.known import KnownNode
from irene.dataset.store.layout import Layout, create_store, is_store, opened
from irene.dataset.store.locking import held
from irene.dataset.store.manifest import Manifest
from irene.dataset.store.medians import median_table
from irene.dataset.store.migration import migrate
from irene.dataset.store.origin import Origin
from irene.dataset.store.reading import read_segments
from irene.dataset.store.recovery import (
    Finding,
    check_store,
    entry_line,
    finish_writing,
    is_unfinished,
)
from irene.dataset.store.segments import SegmentWriter, entry_table, entry_tables
from irene.dataset.table import NodeTable
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tree import ModelTree

__all__ = ["Store", "Where"]

log = logging.getLogger(__name__)

Where = Callable[[Entry], bool]


class Store:
    """A folder of measured trees; made by `Store.open`.

    Any number of processes may add to one store and read it at the same time. What
    `add` has answered for is on disk, whatever happens then.

    Attributes:
        path: The folder.
        layout: Places of its files.
        manifest: What is in it.
    """

    def __init__(self, layout: Layout) -> None:
        self.path = layout.folder
        self.layout = layout
        self.manifest = Manifest(layout.manifest)

    @classmethod
    def open(cls, path: Path | str, create: bool = False) -> Store:
        """Open a store, and finish what a killed writer began.

        Args:
            path: The folder.
            create: Whether to make one if there is none.

        Raises:
            UsageError: There is none, or something else is in the way.
            FormatError: It is damaged, or of a newer version.
        """
        folder = Path(path)
        if create and not is_store(folder):
            create_store(folder)
        migrate(folder)
        store = cls(opened(folder))
        store.manifest.refresh()
        if is_unfinished(store.layout, store.manifest):
            try:
                finish_writing(store.layout, store.manifest)
            except (UsageError, PermissionError) as error:
                log.warning("%s is read as it is: %s", path, error)
        return store

    # Adding -------------------------------------------------------------------

    def add(
        self,
        tree: ModelTree,
        origin: Origin,
        *,
        keys: Sequence[str | None] = (),
        results: Mapping[str, Mapping[str, Any]] | None = None,
        unless_there: bool = False,
    ) -> str:
        """Put one measured run into the store; on disk when this returns.

        Args:
            tree: With spec and energy. It is kept unfolded.
            origin: Where it comes from.
            keys: For each row of the tree, the key of the distinct node that was
                measured (`DistinctNode.key`); for `known_nodes`.
            results: `NodeResult.to_dict()` of keys, to be used again.
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
        if len(keys) not in (0, len(flat)):
            raise UsageError(f"{len(keys)} keys for a tree of {len(flat)} nodes")
        name = entry_id(origin, flat.to_json())
        there = self._there(name, tree.spec, origin, unless_there)
        if there is not None:
            return there
        self._check_machine(origin.hardware)
        entry = Entry(
            name, tree.spec, origin.hardware.name, origin, "measured", len(flat),
            time.time_ns(), "",
        )  # fmt: skip
        told = {
            "spec": tree.spec.to_dict(),
            "provenance": flat.provenance,
            "notes": list(flat.notes),
            "unsupported": flat.unsupported,
            "produced_by": tree.energy.produced_by,
        }
        rows = tree_rows(flat, keys, results)
        return self._write(entry, told, rows, unless_there)

    def _write(
        self, entry: Entry, told: Mapping[str, Any], rows: Any, unless_there: bool
    ) -> str:
        with SegmentWriter(self.layout) as writer:
            writer.write(entry_table(entry, told, rows))
            segment = writer.finish()
            with held(self.layout.lock):
                self.manifest.refresh()
                there = self._there(entry.id, entry.spec, entry.origin, unless_there)
                if there is not None:
                    return there
                self._check_machine(entry.origin.hardware)
                writer.place()
                placed = {**entry.to_dict(), "segment": segment.file}
                line = entry_line(Entry.from_dict(placed), segment)
                self.manifest.append([line])
        return entry.id

    def _there(
        self, name: str, spec: RunSpec, origin: Origin, unless_there: bool
    ) -> str | None:
        self.manifest.refresh()
        if name in self.manifest.entries:
            return name
        run = (spec.digest, origin.hardware.name, origin.software_name)
        if not (unless_there and self.manifest.has_run(*run)):
            return None
        entries = self.manifest.entries.values()
        return next(e.id for e in entries if e.state == "measured" and e.run == run)

    def _check_machine(self, hardware: Hardware) -> None:
        """Refuse a machine that bears the name of another one."""
        known = self.manifest.machines.get(hardware.name)
        if known and (hardware.covers, hardware.description) not in known:
            covers, description = sorted(known)[0]
            raise UsageError(
                f"{self.path} has another machine {hardware.name!r} "
                f"({description or 'not described'}; covers {covers}) than this one "
                f"({hardware.description or 'not described'}; covers "
                f"{hardware.covers}): give this one a name of its own"
            )

    def add_failure(self, spec: RunSpec, origin: Origin, reason: str) -> str:
        """Record that a run failed, and why; on disk when this returns.

        Args:
            spec: What was run.
            origin: Where.
            reason: What happened, in words.

        Returns:
            Id of the entry.

        Raises:
            IreneError: It cannot be written; the store is as it was.
        """
        name = entry_id(origin, json.dumps([spec.to_dict(), reason], sort_keys=True))
        entry = Entry(
            name, spec, origin.hardware.name, origin, "failed", 0, time.time_ns(), "",
            reason or "no reason given",
        )  # fmt: skip
        with held(self.layout.lock):
            self.manifest.refresh()
            if name not in self.manifest.entries:
                self.manifest.append([entry_line(entry)])
        return name

    # Reading ------------------------------------------------------------------

    def has(self, spec: RunSpec, hardware: str, software: str | None = None) -> bool:
        """Whether a run has been measured on a machine.

        Args:
            spec: What is run.
            hardware: Name of the machine in this store.
            software: As `Origin.software_name`; None for any.
        """
        self.manifest.refresh()
        return self.manifest.has_run(spec.digest, hardware, software)

    def entries(self) -> list[Entry]:
        """All entries, by id; no tree is read."""
        self.manifest.refresh()
        return [self.manifest.entries[name] for name in sorted(self.manifest.entries)]

    def trees(
        self, hardware: str | None = None, where: Where | None = None
    ) -> Iterator[ModelTree]:
        """Measured trees, one at a time.

        Args:
            hardware: Of this machine only.
            where: Of entries for which it is true only.
        """
        chosen = {e.id: e for e in self._measured(hardware, where)}
        for path, ids in read_segments(self, chosen):
            for name, table in entry_tables(path, ids):
                rows = {c: table.column(c).to_pylist() for c in table.column_names}
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
        chosen = choose_for_table(self.path, measured, hardware, software, allow_mixed)
        return median_table(self, chosen, name or chosen[0][0].hardware)

    def known_nodes(
        self,
        hardware: str,
        software: str | None = None,
        where: Where | None = None,
    ) -> dict[str, KnownNode]:
        """Distinct nodes that were measured, by the key of `add`.

        Args:
            hardware: Name of the machine.
            software: As `Origin.software_name`; None for any.
            where: Of entries for which it is true only, such as of one protocol.
        """
        measured = self._measured(hardware, where)
        fit = [e for e in measured if software in (None, e.origin.software_name)]
        return known.known_nodes(self, fit)

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
        """Compare every file with its checksum; set aside what is damaged.

        Returns:
            What was wrong, and what was done about it.
        """
        return check_store(self.layout, self.manifest)

    def __repr__(self) -> str:
        """Short, for people."""
        return f"<Store {self.path}: {len(self.manifest.entries):,} entries>"
