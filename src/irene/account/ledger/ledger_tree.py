"""The ledger as the tree that everything else uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from irene.account.ledger.grouping import distinct_ops, grouped
from irene.account.ledger.scopes import module_costs
from irene.energy import Energy
from irene.hardware import Hardware
from irene.tree import ModelTree, TreeBuilder
from irene.tree.columns import SOURCES, EnergyColumns

if TYPE_CHECKING:
    from irene.account.ledger.ledger import Ledger

PROGRAM = "Program"
MODULE = "Module"


def ledger_tree(ledger: Ledger, costs: ModelTree | None) -> ModelTree:
    """The tree of a ledger.

    Modules are nodes, and so are the ops of each, by phase. Ops that run for no module
    are below a node of their phase. Idle, other processes and unattributed energy are
    nodes below the root, so that the root is what was measured.

    Args:
        ledger: The ledger.
        costs: A trace of one step of the same model, for FLOPs, bytes and classes.
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
                handle = self._add(-1, "", "model", PROGRAM, self.ledger.total)
            elif not int(scopes.groups(node).count[node]):
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
        tree = self.builder.build(notes=ledger.notes, provenance=_provenance(ledger))
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
        return tree.with_energy(columns, _hardware(ledger))


def _hardware(ledger: Ledger) -> Hardware:
    covers = dict.fromkeys(account.covers or "power log" for account in ledger.accounts)
    return Hardware("the recorded machine", ", ".join(covers))


def _provenance(ledger: Ledger) -> dict[str, str]:
    begin_ns, end_ns = ledger.window_ns
    return {
        "begin_ns": str(begin_ns),
        "end_ns": str(end_ns),
        "events": f"{len(ledger.events):,}",
        "steps": str(len(ledger.events.steps)),
        "split": ledger.split,
    }
