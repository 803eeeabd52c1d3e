"""Scopes: a program's modules as a tree, from the dotted paths of its events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from irene.account.events import PHASES
from irene.account.ledger.grouping import Groups, distinct_ops, grouped, summed
from irene.account.ledger.rows import ModuleRow, Row
from irene.arrays import Floats, Ints
from irene.energy import Energy
from irene.hardware import Hardware
from irene.tree import ModelTree, TreeBuilder
from irene.tree.columns import SOURCES, EnergyColumns

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger
    from irene.tree import ModelTree

WHOLE = "(whole program)"
NUMBER = re.compile(r"\d+")


def merged(scope: str) -> str:
    """A path with every number replaced by `#`, so that layers become one."""
    return NUMBER.sub("#", scope)


class ScopeTree:
    """The modules that events ran for, each with all that is below it.

    The first node is the program, whose path is "" and whose parent -1; `node_of` has
    the node of every scope code.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.paths: list[str] = [""]
        self.parent: list[int] = [-1]
        self.depth: list[int] = [0]
        self._index = {"": 0}
        names = ledger.events.scope.names
        self.node_of = np.array([self._add(name) for name in names], dtype=np.int64)

    def _add(self, path: str) -> int:
        """Node of a path; those above it are made too."""
        node = self._index.get(path)
        if node is None:
            above = self._add(path.rpartition(".")[0])
            node = self._index[path] = len(self.paths)
            self.paths.append(path)
            self.parent.append(above)
            self.depth.append(self.depth[above] + 1)
        return node

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def event_node(self) -> Ints:
        """Node of every event."""
        return self.node_of[self.ledger.events.scope.codes]

    @cached_property
    def ancestors(self) -> Ints:
        """Levels × nodes: the node above at each level, -1 for deeper levels."""
        table = np.full((max(self.depth) + 1, len(self)), -1, dtype=np.int64)
        for node in range(len(self)):  # parents come before children
            if node:
                table[:, node] = table[:, self.parent[node]]
            table[self.depth[node], node] = node
        return table

    @cached_property
    def levels(self) -> list[Groups]:
        """Sums of all nodes, one table for each level."""
        return [
            grouped(self.ledger, above[self.event_node], self.paths)
            for above in self.ancestors
        ]

    def groups(self, node: int) -> Groups:
        """The table that has a node's sums."""
        return self.levels[self.depth[node]]

    def resolved(self, node: int) -> int:
        """The node, or the nearest above it that the sensor resolves."""
        while node and not self.groups(node).is_resolved(node):
            node = self.parent[node]
        return node

    def energy(self, node: int) -> Energy | None:
        """What a node used with all that is below it."""
        return self.groups(node).energy(self.ledger, node)

    def shared(self, nodes: Iterable[int]) -> int:
        """The lowest node that all given ones are at or below."""
        every = list(nodes)
        return reduce(self._lowest, every) if every else 0

    def _lowest(self, one: int, other: int) -> int:
        while one != other:
            if self.depth[one] >= self.depth[other]:
                one = self.parent[one]
            else:
                other = self.parent[other]
        return one

    def in_group(self, row: Row, nodes: Iterable[int]) -> Row:
        """A row; if too short for the sensor, with the group's energy beside it."""
        if row.resolved:
            return row
        return self._with_group(row, self.resolved(self.shared(nodes)))

    def _with_group(self, row: Row, node: int) -> Row:
        name = self.paths[node] or WHOLE
        return replace(row, group=name, group_energy=self.energy(node))

    def rows(self, costs: ModelTree | None = None) -> list[ModuleRow]:
        """All nodes in the order of their paths' first appearance, parents first."""
        known = module_costs(costs, self.ledger)
        return [self._row(node, known) for node in self.order() if self.ran(node)]

    def order(self) -> list[int]:
        """Nodes in pre-order, siblings as they first ran."""
        first = np.full(len(self), np.iinfo(np.int64).max)
        start = self.ledger.events.start_ns
        for above in self.ancestors:
            node = above[self.event_node]
            np.minimum.at(first, node[node >= 0], start[node >= 0])
        below: list[list[int]] = [[] for _ in self.paths]
        for node in range(1, len(self)):
            below[self.parent[node]].append(node)
        order, stack = [], [0]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(sorted(below[node], key=lambda n: -int(first[n])))
        return order

    def ran(self, node: int) -> bool:
        """Whether something ran for a node or below it."""
        return node == 0 or int(self.groups(node).count[node]) > 0

    @cached_property
    def phase_j(self) -> Floats:
        """Nodes × phases: energy of every node with all that is below it, J."""
        events, size = self.ledger.events, len(PHASES)
        names = [PHASES.index(name) for name in events.phase.names]
        phase = np.array(names, dtype=np.int64)[events.phase.codes]
        place = self.event_node * size + phase
        total = summed(place, self.ledger.energy_j, len(self) * size)
        table = total.reshape(len(self), size)
        for node in range(len(self) - 1, 0, -1):  # children come after parents
            table[self.parent[node]] += table[node]
        return table

    def _row(self, node: int, costs: Mapping[str, ModuleCost]) -> ModuleRow:
        groups, path = self.groups(node), self.paths[node]
        row = groups.row(self.ledger, node, path or WHOLE)
        group = self.resolved(node)
        if group != node:
            row = self._with_group(row, group)
        above = self.parent[node]
        parent_j = float(self.groups(above).energy_j[above]) if node else 0.0
        cost = costs.get(path)
        return ModuleRow(
            **{each.name: getattr(row, each.name) for each in fields(row)},
            path=path,
            depth=self.depth[node],
            parent_share=float(groups.energy_j[node]) / parent_j if parent_j else 1.0,
            phase_j=dict(zip(PHASES, self.phase_j[node].tolist(), strict=True)),
            flops=cost and float(cost.flops),
            bytes=cost and float(cost.bytes_read + cost.bytes_written),
        )


class ModuleCost(NamedTuple):
    """What a trace says of a module, for all steps."""

    op: str
    params: int
    flops: int
    bytes_read: int
    bytes_written: int


def module_costs(tree: ModelTree | None, ledger: Ledger) -> dict[str, ModuleCost]:
    """Costs of all steps of a ledger by path, from a trace of one step."""
    if tree is None:
        return {}
    steps = max(len(ledger.events.steps), 1)
    classes: dict[str, tuple[str, int]] = {}
    for kind in ("model", "module"):
        for node in tree.nodes(kind):
            classes.setdefault(node.path, (node.op, node.params))
    return {
        path: ModuleCost(
            *classes[path],
            cost.flops * steps,
            cost.bytes_read * steps,
            cost.bytes_written * steps,
        )
        for path, cost in tree.by_module().items()
    }


PROGRAM = "Program"
MODULE = "Module"


def ledger_tree(ledger: Ledger, costs: ModelTree | None) -> ModelTree:
    """The tree of a ledger.

    Modules are nodes, and so are the ops of each, by phase. Ops that run for no module
    are below a node of their phase. Idle, other processes and unattributed energy are
    nodes below the root, so that the root is what was measured.
    """
    growing = _Growing(ledger, costs)
    growing.modules()
    growing.ops()
    growing.rest()
    return growing.tree()


class _Growing:
    """A tree with the energies of its nodes, in the order of their handles."""

    def __init__(self, ledger: Ledger, costs: ModelTree | None) -> None:
        self.ledger, self.scopes = ledger, ledger.scopes
        self.builder = TreeBuilder()
        self.energies: list[Energy | None] = []
        self.handles: dict[int | str, int] = {}
        self.costs = module_costs(costs, ledger)

    def _add(
        self, parent: int, name: str, kind: str, op: str, energy: Energy | None
    ) -> int:
        self.energies.append(energy)
        return self.builder.add(parent, name, kind, op)

    def modules(self) -> None:
        """The program and every module that something ran for."""
        scopes = self.scopes
        for node in scopes.order():
            path, above = scopes.paths[node], scopes.parent[node]
            if node == 0:
                handle = self._add(-1, "", "model", PROGRAM, self.ledger.total())
            elif not scopes.ran(node):
                continue
            else:
                name = path.rpartition(".")[2]
                energy = scopes.energy(node)
                handle = self._add(self.handles[above], name, "module", MODULE, energy)
            self.handles[node] = handle
            self._set_costs(node, self.builder.rows[handle])

    def _set_costs(self, node: int, row: Any) -> None:
        """What a trace says of a module; those above carry only the rest."""
        scopes, cost = self.scopes, self.costs.get(self.scopes.paths[node])
        if cost is None:
            return
        row.op, row.params = cost.op, cost.params
        above = scopes.parent[node]
        while above >= 0 and scopes.paths[above] not in self.costs:
            above = scopes.parent[above]
        for name in ("flops", "bytes_read", "bytes_written"):
            setattr(row, name, getattr(cost, name))
            if above >= 0:
                upper = self.builder.rows[self.handles[above]]
                left = getattr(upper, name) - getattr(cost, name)
                setattr(upper, name, max(left, 0))

    def ops(self) -> None:
        """Ops of every module, forward and backward apart."""
        ledger, events = self.ledger, self.ledger.events
        nodes = self.scopes.event_node
        distinct, codes = distinct_ops(events, nodes)
        groups = grouped(ledger, codes, [""] * len(distinct))
        homeless = np.where(nodes == 0, events.phase.codes, -1)
        by_phase = grouped(ledger, homeless, events.phase.names)
        for group in np.flatnonzero(groups.count).tolist():
            node, op, phase = distinct[group]
            words = events.phase.names[phase]
            parent = self.handles[node]
            if node == 0:
                parent = self._phase(words, by_phase.energy(ledger, phase))
            name = events.op.names[op]
            label = name if words == "forward" or node == 0 else f"{name} ({words})"
            energy = groups.energy(ledger, group)
            # A dot would look like another level.
            self._add(parent, label.replace(".", "_"), "ml", name, energy)

    def _phase(self, phase: str, energy: Energy | None) -> int:
        """Node of the ops of a phase that run for no module."""
        key = f"({phase})"
        if key not in self.handles:
            self.handles[key] = self._add(0, key, "module", phase, energy)
        return self.handles[key]

    def rest(self) -> None:
        """What belongs to no op."""
        for row in self.ledger.rest():
            if row.energy is not None and row.energy.joules > 0:
                self._add(0, f"({row.name})", "ml", row.name, row.energy)

    def tree(self) -> ModelTree:
        """The tree with its energies."""
        ledger = self.ledger
        begin_ns, end_ns = ledger.window_ns
        told = {
            "begin_ns": str(begin_ns),
            "end_ns": str(end_ns),
            "events": f"{len(ledger.events):,}",
            "steps": str(len(ledger.events.steps)),
            "split": ledger.split,
        }
        tree = self.builder.build(notes=ledger.notes, provenance=told)
        order = self.builder.order()
        found = [self.energies[handle] for handle in order]
        nan = float("nan")
        columns = EnergyColumns(
            np.array([e.joules if e else nan for e in found]),
            np.array([e.low if e else nan for e in found]),
            np.array([e.high if e else nan for e in found]),
            np.array(
                [SOURCES.index(e.source) if e else 0 for e in found], dtype=np.uint8
            ),
            ledger.produced_by,
        )
        covers = dict.fromkeys(each.covers or "power log" for each in ledger.accounts)
        hardware = Hardware("the recorded machine", ", ".join(covers))
        return tree.with_energy(columns, hardware)
