"""TreeBuilder: collects nodes one by one and makes a ModelTree of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from irene.errors import LimitError
from irene.tree.columns import KINDS, Columns, Signature
from irene.tree.model_tree import ModelTree

EMPTY = Signature((), (), "")


@dataclass(slots=True)
class _Row:
    parent: int
    name: str
    kind: str
    op: str
    signature: Signature = EMPTY
    params: int = 0
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    count: int = 1
    members: tuple[tuple[str, int], ...] = ()
    children: list[int] = field(default_factory=list)


class TreeBuilder:
    """Collects nodes; a parent before its children, in any other order.

    Costs given to `add` are a node's own: what its children do not carry.
    """

    def __init__(self) -> None:
        self.rows: list[_Row] = []

    def add(self, parent: int, name: str, kind: str, op: str, **values: Any) -> int:
        """Append a node and return its handle.

        Args:
            parent: Handle of the parent; -1 for the root.
            name: Path relative to the parent; a leading "/" for an absolute one.
            kind: One of `KINDS`.
            op: Class, function or aten op.
            **values: Further fields: signature, params, flops, bytes_read,
                bytes_written, count, members.
        """
        handle = len(self.rows)
        self.rows.append(_Row(parent, name, kind, op, **values))
        if parent >= 0:
            self.rows[parent].children.append(handle)
        return handle

    def order(self) -> list[int]:
        """Handles in pre-order; the position of a handle is its row in the tree."""
        order, stack = [], [0]
        while stack:
            handle = stack.pop()
            order.append(handle)
            stack.extend(reversed(self.rows[handle].children))
        return order

    def build(self, **attributes: Any) -> ModelTree:
        """The finished tree."""
        strings: dict[str, int] = {}
        signatures: dict[Signature, int] = {}
        lists: dict[str, list[int]] = {name: [] for name in Columns.__slots__}
        depth: dict[int, int] = {-1: -1}
        members = {}
        for row, handle in enumerate(self.order()):
            node = self.rows[handle]
            depth[handle] = depth[node.parent] + 1
            lists["depth"].append(depth[handle])
            lists["kind"].append(KINDS.index(node.kind))
            lists["name"].append(strings.setdefault(node.name, len(strings)))
            lists["op"].append(strings.setdefault(node.op, len(strings)))
            number = signatures.setdefault(node.signature, len(signatures))
            lists["signature"].append(number)
            for name in ("count", "params", "flops", "bytes_read", "bytes_written"):
                lists[name].append(getattr(node, name))
            if node.members:
                members[row] = node.members
        columns = _inclusive(lists)
        words, shapes = list(strings), list(signatures)
        return ModelTree(columns, words, shapes, members=members, **attributes)


def _inclusive(lists: dict[str, list[int]]) -> Columns:
    """Columns whose costs include the children's, checked for overflow."""
    try:
        columns = Columns.from_lists(lists)
    except OverflowError as error:
        raise LimitError(f"a cost does not fit into 63 bits: {error}") from error
    sums = {}
    for name in ("flops", "bytes_read", "bytes_written"):
        own = getattr(columns, name)
        if float((own.astype(float) * columns.multiplicity()).sum()) >= 2.0**63:
            raise LimitError(f"the model's {name} do not fit into 63 bits")
        sums[name] = columns.inclusive(own)
    return columns.select(np.s_[:], **sums)
