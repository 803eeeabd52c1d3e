"""Ledger: the energy of every op call, and every way to look at it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from irene.account.align.nesting import Segments
from irene.account.align.power import PowerSeries
from irene.account.align.sampled_together import Doubts
from irene.account.events import Coded, Events
from irene.account.ledger import ledger_documents
from irene.account.ledger.grouping import distinct_ops, grouped, summed
from irene.account.ledger.rows import NO_POWER, ChannelAccount, ModuleRow, RestRow, Row
from irene.account.ledger.scopes import ScopeTree, ledger_tree, merged
from irene.account.ledger.timeline import Timeline, timeline
from irene.arrays import Bools, Floats, Ints
from irene.energy import Energy, Source, source_of_sum
from irene.meters.channel import without
from irene.presented import presenter
from irene.tables import csv_of_columns, data_frame

if TYPE_CHECKING:
    from irene.tree import ModelTree

LAYER = re.compile(r"((\w+_)?(layer|block|stage)_?)?\d+")


class Total(Energy):
    """The energy of a whole ledger, which may be called, as that of a tree is."""

    __slots__ = ()

    def __call__(self) -> Energy:
        """Itself."""
        return self


@dataclass(frozen=True)
class Ledger:
    """Where the energy of a program went; made by `account`.

    Attributes:
        events: What ran.
        segments: Own time of the events, inside the window.
        power: The power that was split.
        accounts: Where the energy of each channel went; each adds up.
        window_ns: Begin and end of what is accounted for.
        split: How ops that ran at once share.
        energy_j: Energy of every event's own time, J.
        half_width_j: Half the width of its interval from the meter's error, J.
        unknown_s: Seconds of every event without known power.
        resolution_s: What the sensor resolves at every event, s.
        is_charged: Whether there is power for the event's device.
        is_estimated: Whether that power is estimated.
        doubts: What of each channel may be another's, by what was sampled together.
        notes: What a reader should know, in words.
    """

    events: Events
    segments: Segments
    power: tuple[PowerSeries, ...]
    accounts: tuple[ChannelAccount, ...]
    window_ns: tuple[int, int]
    split: str
    energy_j: Floats
    half_width_j: Floats
    unknown_s: Floats
    resolution_s: Floats
    is_charged: Bools
    is_estimated: Bools
    doubts: tuple[Doubts, ...] = ()
    notes: tuple[str, ...] = ()

    # The whole ----------------------------------------------------------------

    @property
    def measured_j(self) -> float:
        """All energy that is known in the window, J."""
        return sum(account.measured_j for account in self.accounts)

    @property
    def attributed_j(self) -> float:
        """Energy that was charged to ops, J."""
        return sum(account.attributed_j for account in self.accounts)

    @property
    def window_s(self) -> float:
        """Length of the window, s."""
        return (self.window_ns[1] - self.window_ns[0]) * 1e-9

    @property
    def source(self) -> Source:
        """`measured`, or `estimated` if any channel is."""
        return source_of_sum(account.source for account in self.accounts)

    @property
    def produced_by(self) -> str:
        """The channels; a part of a machine says what it is without."""
        names = ", ".join(account.name for account in self.accounts)
        return names + without(name for power in self.power for name in power.without)

    @property
    def total(self) -> Total:
        """The measured energy with its interval; `total()`, as a tree has it, too."""
        whole = self._energy(lambda account: account.measured_j)
        return Total(*(getattr(whole, each.name) for each in fields(whole)))

    @cached_property
    def own_s(self) -> Floats:
        """Own time of every event inside the window, s."""
        width_ns = (self.segments.end_ns - self.segments.start_ns).astype(np.float64)
        return summed(self.segments.owner, width_ns * 1e-9, len(self.events))

    @cached_property
    def lane_order(self) -> Ints:
        """Segments of charged events, lane after lane and in the order of time."""
        segments, lane = self.segments, self.events.lane.codes
        rows = np.flatnonzero(self.is_charged[segments.owner])
        order = np.lexsort((segments.start_ns[rows], lane[segments.owner[rows]]))
        found: Ints = rows[order]
        return found

    @cached_property
    def resolved(self) -> Bools:
        """Whether every event is at least as long as what the sensor resolves."""
        return self.own_s >= self.resolution_s

    def _energy(self, part: Callable[[ChannelAccount], float]) -> Energy:
        """The energy of a part of every account."""
        joules = sum(map(part, self.accounts))
        half_j = sum(
            part(a) * a.relative_half_width(self.window_s) for a in self.accounts
        )
        low_j = max(0.0, joules - half_j)
        return Energy(joules, low_j, joules + half_j, self.source, self.produced_by)

    # Views --------------------------------------------------------------------

    def by_op(self) -> list[Row]:
        """Every op of the framework, the largest first."""
        op = self.events.op
        rows = self._rows(op)
        return _largest_first([replace(row, op=row.name) for row in rows])

    def by_phase(self) -> list[Row]:
        """Forward, backward, optimizer, loss, data, other; the largest first."""
        rows = self._rows(self.events.phase)
        return _largest_first([replace(row, phase=row.name) for row in rows])

    def by_device(self) -> list[Row]:
        """Every device that has power, the largest first."""
        return _largest_first(self._rows(self.events.device))

    def by_module(self, costs: ModelTree | None = None) -> list[ModuleRow]:
        """Every module with what is below it, in the order they ran.

        Args:
            costs: A trace of one step of the same model, for FLOPs and bytes.
        """
        return self.scopes.rows(costs)

    def by_layer(self, costs: ModelTree | None = None) -> list[ModuleRow]:
        """The modules that are numbered as layers are: `0`, `layer_3`, `block5`."""
        rows = self.by_module(costs)
        return [row for row in rows if LAYER.fullmatch(row.path.rpartition(".")[2])]

    def operations(self, top: int | None = None) -> list[Row]:
        """Op, module and phase with all layers merged, the largest first."""
        names, codes = self.operation_codes()
        labels = [" · ".join(filter(None, parts)) for parts in names]
        parts_of = dict(zip(labels, names, strict=True))
        rows = _largest_first(self._rows(Coded(codes, tuple(labels))))[:top]
        found = []
        for row in rows:
            scope, op, phase = parts_of[row.name]
            found.append(replace(row, scope=scope, op=op, phase=phase))
        return found

    def operation_codes(self) -> tuple[list[tuple[str, str, str]], Ints]:
        """Scope with layers merged, op and phase of every operation; each event's."""
        events = self.events
        patterns = Coded.from_strings(merged(name) for name in events.scope.names)
        distinct, codes = distinct_ops(events, patterns.codes[events.scope.codes])
        names = [
            (patterns.names[scope], events.op.names[op], events.phase.names[phase])
            for scope, op, phase in distinct
        ]
        return names, codes

    def rest(self) -> list[RestRow]:
        """What belongs to no op: idle, other processes, unattributed, unknown."""
        measured_j, found = self.measured_j, []
        without_op_s = sum(account.no_op_s for account in self.accounts)
        parts: tuple[tuple[str, Callable[[ChannelAccount], float], float], ...] = (
            ("idle", lambda a: a.idle_j, without_op_s),
            ("other processes", lambda a: a.other_j, 0.0),
            ("unattributed", lambda a: a.unattributed_j, without_op_s),
        )
        for name, part, time_s in parts:
            energy = self._energy(part)
            share = energy.joules / measured_j if measured_j > 0 else 0.0
            found.append(RestRow(name, energy, time_s, share))
        unknown_s = sum(account.unknown_s for account in self.accounts)
        return [*found, RestRow(NO_POWER, None, unknown_s, 0.0)]

    def timeline(self, depth: int = 2, points: int = 2000) -> Timeline:
        """Power over time, with the modules that ran marked."""
        return timeline(self, depth, points)

    @cached_property
    def scopes(self) -> ScopeTree:
        """The modules as a tree."""
        return ScopeTree(self)

    def tree(self, costs: ModelTree | None = None) -> ModelTree:
        """Modules and ops as the tree that everything else uses.

        The root carries the measured energy; what belongs to no op is a node, too.
        """
        return ledger_tree(self, costs)

    def _rows(self, column: Coded) -> list[Row]:
        """Rows of all groups in which something was charged."""
        groups = grouped(self, column.codes, column.names)
        scopes: dict[int, set[int]] = {}
        # Which modules the calls of a group ran for, each pair once.
        pairs = column.codes * len(self.scopes) + self.scopes.event_node
        for pair in np.unique(pairs[self.is_charged]).tolist():
            group, node = divmod(pair, len(self.scopes))
            scopes.setdefault(group, set()).add(node)
        return [
            self.scopes.in_group(groups.row(self, group), scopes[group])
            for group in np.flatnonzero(groups.count).tolist()
        ]

    # Documents ----------------------------------------------------------------

    def to_dict(self, costs: ModelTree | None = None) -> dict[str, Any]:
        """The tree's document with the ledger in it, as JSON-ready values."""
        document = ledger_documents.ledger_dict(self, costs)
        return {**self.tree(costs).to_dict(), "ledger": document}

    def to_json(self, costs: ModelTree | None = None) -> str:
        """The document `irene.tree/1` with the `irene.ledger/1` in it."""
        return json.dumps(self.to_dict(costs), allow_nan=False)

    def to_html(self, costs: ModelTree | None = None, title: str | None = None) -> str:
        """One page to look at in a browser; it needs no network."""
        return presenter().ledger_page(self, costs, title)

    def to_csv(self, by: str = "op", top: int | None = None) -> str:
        """A view as CSV, with what belongs to no op."""
        return csv_of_columns(self.columns(by, top))

    def columns(self, by: str = "op", top: int | None = None) -> dict[str, list[Any]]:
        """A view by column, as in its CSV; None where there is no value."""
        return ledger_documents.view_columns(self, by, top)

    def to_pandas(self, by: str = "op") -> Any:
        """A view as a pandas DataFrame, with the columns of its CSV."""
        return data_frame(self.columns(by))

    def _repr_html_(self) -> str:
        return presenter().ledger_notebook(self)

    def to_parquet(self, path: str | Path) -> None:
        """Write every event with its energy."""
        ledger_documents.to_parquet(self, Path(path))

    def to_perfetto(self, path: str | Path) -> None:
        """Write a trace that opens in Perfetto, with energies and power lanes."""
        ledger_documents.to_perfetto(self, Path(path))

    def __repr__(self) -> str:
        return (
            f"<Ledger {len(self.events):,} events, {self.measured_j:.6g} J "
            f"{self.source}, {self.attributed_j:.6g} J attributed>"
        )


def _largest_first(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row.energy.joules if row.energy else 1.0)
