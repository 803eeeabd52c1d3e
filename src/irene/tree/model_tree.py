"""ModelTree: the one tree that runs through everything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from irene.arrays import Floats, Ints
from irene.energy import Energy, SharedError
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.human import human_range
from irene.presented import Drawing, presenter
from irene.spec import RunSpec
from irene.tree.columns import (
    KINDS,
    ML,
    MODULE,
    SOURCES,
    Columns,
    Cost,
    EnergyColumns,
    Signature,
    checked_features,
)
from irene.tree.node import Node
from irene.tree.structure import Structure
from irene.whole_file import whole_file

OWN = "(own)"
"""Key of `by_operator` for energy that belongs to no primitive."""
KEPT = (
    "strings", "signatures", "members", "spec", "hardware", "provenance", "notes",
    "unsupported", "energy", "features",
)  # fmt: skip
"""What trees of other rows have in common with the tree they are made from."""
STRUCTURE = ("depth", "kind", "name", "count")
"""Columns that decide, with strings and members, what their structure is."""


class ModelTree:
    """A model as a tree of modules, ML primitives and math operations.

    Arrays inside (`columns`), node views outside (`root`, `nodes()`, `find`). Trees are
    immutable: `fold`, `unfold`, `at_level` and `with_energy` return new ones.

    Attributes:
        columns: The arrays, one row per node, in pre-order.
        strings: Names and ops that the columns index.
        signatures: Shapes and dtypes that the columns index.
        members: For folded rows, name and sibling position of every instance.
        spec: The run it describes, if it is a run of a named model.
        hardware: The machine its energy holds for.
        provenance: How it came about: versions, device, model class.
        notes: Assumptions a reader should know, in words.
        unsupported: Ops that ran without a FLOP formula, and how often each did.
        energy: Energy of every row, or None.
        features: What else was measured of every row, by name, for one instance; NaN
            where unknown.
        structure: What trees of the same rows and names have in common.
    """

    def __init__(
        self,
        columns: Columns,
        strings: Sequence[str],
        signatures: Sequence[Signature],
        *,
        members: Mapping[int, tuple[tuple[str, int], ...]] | None = None,
        spec: RunSpec | None = None,
        hardware: Hardware | None = None,
        provenance: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        unsupported: Mapping[str, int] | None = None,
        energy: EnergyColumns | None = None,
        features: Mapping[str, Floats] | None = None,
    ) -> None:
        self.columns = columns
        self.strings = tuple(strings)
        self.signatures = tuple(signatures)
        self.members = dict(members or {})
        self.spec = spec
        self.hardware = hardware
        self.provenance = dict(provenance or {})
        self.notes = tuple(notes)
        self.unsupported = dict(unsupported or {})
        self.energy = energy
        self.features = dict(features or {})
        self.structure = Structure(columns, self.strings)

    # Structure ----------------------------------------------------------------

    def __len__(self) -> int:
        """Number of nodes (rows) as stored; see `node_count` for the unfolded one."""
        return len(self.columns)

    @property
    def root(self) -> Node:
        """The model."""
        return Node(self, 0)

    def nodes(self, kind: str | None = None) -> Iterator[Node]:
        """All nodes in pre-order, or those of one kind."""
        if kind is None:
            return (Node(self, row) for row in range(len(self)))
        rows = np.flatnonzero(self.columns.kind == KINDS.index(kind))
        return (Node(self, int(row)) for row in rows)

    def find(self, path: str, call: int = 1) -> Node:
        """The node at a dotted path.

        Raises:
            KeyError: No node has that path and call.
        """
        for row in self.structure.rows_by_path.get(path, ()):
            if self.calls[row] == call:
                return Node(self, row)
        raise KeyError(f"no node {path!r} (call {call}) in this tree")

    @property
    def parents(self) -> Ints:
        """Row of every row's parent; -1 for the root."""
        return self.structure.parents

    @property
    def ends(self) -> Ints:
        """Row after the last descendant of every row."""
        return self.structure.ends

    def children_of(self, row: int) -> list[int]:
        """Rows directly below a row."""
        rows, child, end = [], row + 1, int(self.ends[row])
        while child < end:
            rows.append(child)
            child = int(self.ends[child])
        return rows

    @property
    def paths(self) -> list[str]:
        """Dotted path of every row."""
        return self.structure.paths

    @property
    def calls(self) -> list[int]:
        """Which call of its path every row is, from 1."""
        return self.structure.calls

    @property
    def multiplicity(self) -> Ints:
        """How many times each row occurs in the unfolded tree."""
        return self.structure.multiplicity

    @property
    def node_count(self) -> int:
        """Number of nodes of the unfolded tree."""
        return int(self.multiplicity.sum())

    # Answers ------------------------------------------------------------------

    def total(self) -> Cost:
        """Cost of the whole model."""
        return self._sum(np.array([0]))

    def by_module(self) -> dict[str, Cost]:
        """Cost of the model and of every module, by path; calls of one path summed.

        In a folded tree a path is that of the first of the equal modules, and the cost
        is of all of them.
        """
        depth_of_module = self.columns.kind <= MODULE
        groups: dict[str, list[int]] = {}
        for row in np.flatnonzero(depth_of_module).tolist():
            groups.setdefault(self.paths[row], []).append(row)
        return {path: self._sum(np.array(rows)) for path, rows in groups.items()}

    def by_operator(self) -> dict[str, Cost]:
        """Cost of every ML primitive, by op, the largest first.

        Costs of primitives add up to the total; energy that belongs to no primitive is
        under `OWN`.
        """
        rows = np.flatnonzero(self.columns.kind == ML)
        order = np.argsort(self.columns.op[rows], kind="stable")
        ops, starts = np.unique(self.columns.op[rows][order], return_index=True)
        groups = np.split(rows[order], starts[1:]) if len(rows) else []
        costs = {
            self.strings[op]: self._sum(group)
            for op, group in zip(ops.tolist(), groups, strict=True)
        }
        if self.own_j is not None:
            above = self.columns.kind < ML
            own_j = float((self.own_j * self.multiplicity)[above].sum())
            costs[OWN] = Cost(int(self.multiplicity[above].sum()), 0, 0, 0, own_j)
        return dict(sorted(costs.items(), key=lambda item: item[1].rank))

    def table(self, depth: int | None = None, level: str = "ml") -> str:
        """The tree as plain text, equal layers folded.

        Args:
            depth: Levels below the model to show; None for all.
            level: Deepest kind to show (`module`, `ml` or `math`).
        """
        return presenter().tree_text(self, depth, level)

    def to_latex(self, depth: int | None = None, level: str = "ml") -> str:
        """The same as a LaTeX table with a line to cite, for papers."""
        return presenter().tree_latex(self, depth, level)

    def _sum(self, rows: Ints) -> Cost:
        times, columns, energy = self.multiplicity[rows], self.columns, self.energy
        return Cost(
            int(times.sum()),
            int((columns.flops[rows] * times).sum()),
            int((columns.bytes_read[rows] * times).sum()),
            int((columns.bytes_written[rows] * times).sum()),
            None if energy is None else float((energy.joules[rows] * times).sum()),
        )

    # Energy -------------------------------------------------------------------

    def energy_of(self, row: int) -> Energy | None:
        """Energy of one instance of a row, or None where nothing is known."""
        if self.energy is None or np.isnan(self.energy.joules[row]):
            return None
        return Energy(
            float(self.energy.joules[row]),
            float(self.energy.low[row]),
            float(self.energy.high[row]),
            SOURCES[self.energy.source[row]],
            self.energy.produced_by,
            () if row else self.energy.errors,
        )

    @cached_property
    def own_j(self) -> Floats | None:
        """Energy of every row that none of its children carries, J."""
        if self.energy is None:
            return None
        return self.columns.own(self.energy.joules, self.parents)

    def with_energy(
        self, energy: EnergyColumns, hardware: Hardware | None = None
    ) -> ModelTree:
        """The same tree carrying these energies, one per row, of a machine."""
        given = len(energy.joules)
        if given != len(self):
            raise UsageError(f"{given} energies for a tree of {len(self)} nodes")
        return self._derive(self.columns, energy=energy, hardware=hardware)

    def with_predicted(
        self,
        joules: Floats,
        widths: Floats,
        hardware: Hardware,
        method: str,
        errors: Sequence[SharedError] = (),
    ) -> ModelTree:
        """The same tree carrying predicted energies, see `EnergyColumns.predicted`."""
        by = f"{method}, {hardware.predictor}"
        energy = EnergyColumns.predicted(joules, widths, by, tuple(errors))
        return self.with_energy(energy, hardware)

    def with_features(self, features: Mapping[str, Floats]) -> ModelTree:
        """The same tree carrying these measured values, by name, one per row."""
        return self._derive(
            self.columns, features=checked_features(features, len(self))
        )

    def with_notes(self, *notes: str) -> ModelTree:
        """The same tree with more that a reader should know."""
        if not notes:
            return self
        return self._derive(self.columns, notes=(*self.notes, *notes))

    def with_spec(self, spec: RunSpec | None) -> ModelTree:
        """The same tree as that of another run."""
        return self._derive(self.columns, spec=spec)

    def with_provenance(self, provenance: Mapping[str, str]) -> ModelTree:
        """The same tree with another story of how it came about."""
        return self._derive(self.columns, provenance=provenance)

    # Shapes of the same tree --------------------------------------------------

    def fold(self) -> ModelTree:
        """Equal numbered siblings (layers, repeated calls) as one node with a count."""
        from irene.tree.folding import fold

        return fold(self)

    def unfold(self) -> ModelTree:
        """The tree before `fold`, exactly."""
        from irene.tree.folding import unfold

        return unfold(self)

    def at_level(self, level: str) -> ModelTree:
        """The tree cut below a kind of node; costs stay in the nodes above the cut."""
        from irene.tree.folding import cut

        return cut(self, level)

    def select(
        self, rows: Ints, columns: Mapping[str, Ints] | None = None, **changed: Any
    ) -> ModelTree:
        """The tree of some rows, in the order given, with whole columns replaced."""
        return self._derive(
            self.columns.select(rows, **(columns or {})),
            energy=self.energy and self.energy.select(rows),
            features={name: values[rows] for name, values in self.features.items()},
            **changed,
        )

    def _derive(self, columns: Columns, **changed: Any) -> ModelTree:
        keep = {name: getattr(self, name) for name in KEPT}
        tree = ModelTree(columns, **{**keep, **changed})
        same = all(getattr(columns, n) is getattr(self.columns, n) for n in STRUCTURE)
        if same and tree.strings is self.strings and "members" not in changed:
            tree.structure = self.structure
        return tree

    # Documents ----------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.tree/1` as JSON-ready values."""
        from irene.tree.document import to_dict

        return to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """The document `irene.tree/1` as text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_html(self, title: str | None = None) -> str:
        """One page to look at in a browser; it needs no network.

        Args:
            title: Heading of the page; the model's name if None.
        """
        return presenter().tree_page(self, title)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row per node; costs are of one instance."""
        from irene.tree.document import tree_frame

        return tree_frame(self)

    def picture(self, kind: str = "icicle", depth: int | None = None) -> Drawing:
        """An `icicle`, or `annotated` as Figure 5 of the paper, down to a depth."""
        return presenter().tree_picture(self, kind, depth)

    def _repr_html_(self) -> str:
        return presenter().tree_notebook(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> ModelTree:
        """Read what `to_json` wrote.

        Raises:
            FormatError: The text is not such a document, or of a newer version.
        """
        from irene.tree.document import from_json

        return from_json(text)

    def save(self, path: str | Path) -> None:
        """Write the document to a file, whole or not at all."""
        with whole_file(Path(path), make_folder=False) as file:
            file.write(f"{self.to_json()}\n".encode())

    def __eq__(self, other: object) -> bool:
        """Every node, cost, energy and label equal."""
        if not isinstance(other, ModelTree):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = self.spec.model if self.spec else self.root.op
        energy = self.root.energy
        used = "" if energy is None else f"{human_range(energy)}, "
        return f"<ModelTree {what}: {used}{self.node_count:,} nodes>"
