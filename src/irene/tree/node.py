"""Node: a view of one row of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from irene.energy import Energy
from irene.tree.columns import KINDS, Shape, Signature, features_of_row

if TYPE_CHECKING:
    from irene.tree.model_tree import ModelTree


class Node:
    """One node of a `ModelTree`. It holds no data of its own, only tree and row.

    Costs and energy are of one instance, children included; a folded node stands for
    `count` equal instances under its parent.
    """

    __slots__ = ("row", "tree")

    def __init__(self, tree: ModelTree, row: int) -> None:
        self.tree = tree
        self.row = row

    @property
    def path(self) -> str:
        """Dotted path from the model, "" for the model; of the first if folded."""
        return self.tree.paths[self.row]

    @property
    def name(self) -> str:
        """Path relative to the parent."""
        tree = self.tree
        return tree.strings[int(tree.columns.name[self.row])].lstrip("/")

    @property
    def kind(self) -> str:
        """`model`, `module`, `ml` or `math`."""
        return KINDS[self.tree.columns.kind[self.row]]

    @property
    def op(self) -> str:
        """Class of the module, name of the function, or name of the aten op."""
        tree = self.tree
        return tree.strings[int(tree.columns.op[self.row])]

    @property
    def call(self) -> int:
        """Which call of this path it is, from 1."""
        return self.tree.calls[self.row]

    @property
    def count(self) -> int:
        """Equal instances under the parent that this node stands for."""
        return int(self.tree.columns.count[self.row])

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the instances that this node stands for."""
        folded = self.tree.members.get(self.row)
        return tuple(name for name, _ in folded) if folded else (self.name,)

    @property
    def signature(self) -> Signature:
        """Shapes in and out, and the dtype."""
        return self.tree.signatures[int(self.tree.columns.signature[self.row])]

    @property
    def inputs(self) -> tuple[Shape, ...]:
        """Shapes of the input tensors."""
        return self.signature.inputs

    @property
    def outputs(self) -> tuple[Shape, ...]:
        """Shapes of the output tensors."""
        return self.signature.outputs

    @property
    def dtype(self) -> str:
        """Type of the first output."""
        return self.signature.dtype

    @property
    def params(self) -> int:
        """Parameters, shared ones once."""
        return int(self.tree.columns.params[self.row])

    @property
    def flops(self) -> int:
        """Floating-point operations; a multiply-add is two."""
        return int(self.tree.columns.flops[self.row])

    @property
    def bytes_read(self) -> int:
        """Bytes read from memory."""
        return int(self.tree.columns.bytes_read[self.row])

    @property
    def bytes_written(self) -> int:
        """Bytes written to memory."""
        return int(self.tree.columns.bytes_written[self.row])

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def unsupported(self) -> bool:
        """True when this op has no FLOP formula; its FLOPs are then not counted."""
        return self.op in self.tree.unsupported

    @property
    def energy(self) -> Energy | None:
        """Energy of one instance, or None where nothing is known."""
        return self.tree.energy_of(self.row)

    @property
    def features(self) -> dict[str, float]:
        """What else was measured of one instance, by name; only what is known."""
        return features_of_row(self.tree.features, self.row)

    @property
    def own_j(self) -> float | None:
        """Energy that none of the children carries, J."""
        own = self.tree.own_j
        return None if own is None else float(own[self.row])

    @property
    def parent(self) -> Node | None:
        """The node above, None for the model."""
        row = int(self.tree.parents[self.row])
        return None if row < 0 else Node(self.tree, row)

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes directly below, in the order they ran."""
        return tuple(Node(self.tree, row) for row in self.tree.children_of(self.row))

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, in pre-order."""
        for row in range(self.row, int(self.tree.ends[self.row])):
            yield Node(self.tree, row)

    def __eq__(self, other: object) -> bool:
        """Same row of the same tree object."""
        return (
            isinstance(other, Node)
            and other.tree is self.tree
            and other.row == self.row
        )

    def __hash__(self) -> int:
        return hash((id(self.tree), self.row))

    def __repr__(self) -> str:
        times = f" ×{self.count}" if self.count > 1 else ""
        return f"<Node {self.path or '(model)'} {self.kind} {self.op}{times}>"
