"""Where backward ops belong: below the module whose forward made them necessary.

Autograd numbers its nodes in the order the forward pass creates them. We note which
primitive was running when a number was given out; in the backward pass the running
node's number leads back to that primitive.
"""

from __future__ import annotations

from typing import Any

import torch

from irene.trace.costs.call import Call, Leaf, TensorSpec
from irene.trace.costs.cost_table import COSTS
from irene.trace.naming import ModuleNames
from irene.tree import Signature, TreeBuilder

SUFFIX = "backward"


class Gradients:
    """Collects backward ops and hangs them below the right modules.

    Attributes:
        enabled: Whether a backward pass will follow.
        running: Whether the backward pass is running.
        modules: Node of every module that ran, by path.
    """

    def __init__(self, builder: TreeBuilder, names: ModuleNames) -> None:
        self.enabled = False
        self.running = False
        self.modules: dict[str, int] = {}
        self._builder = builder
        self._names = names
        self._owners: dict[int, int] = {}
        self._calls: dict[int, Call] = {}
        self._leaves: dict[int, list[Leaf]] = {}

    def claim(self, handle: int) -> None:
        """Note that this primitive made the newest autograd node."""
        if self.enabled:
            newest = torch.autograd._get_sequence_nr() - 1  # type: ignore[attr-defined]
            self._owners.setdefault(newest, handle)

    def keep_call(self, handle: int, call: Call) -> None:
        """Keep a call whose backward is known by formula."""
        if self.enabled and f"{call.op}.{SUFFIX}" in COSTS:
            self._calls[handle] = call

    def record(self, leaf: Leaf) -> None:
        """Take a backward op, while its autograd node is running."""
        self._leaves.setdefault(self._owner(), []).append(leaf)

    def _owner(self) -> int:
        node: Any = torch._C._current_autograd_node()
        if node is None:
            return 0
        variable = getattr(node, "variable", None)
        if variable is not None:  # a gradient that is added to its parameter's
            return self.modules.get(self._names.owner(variable) or "", 0)
        return self._owners.get(node._sequence_nr(), 0)

    def attach(self) -> None:
        """Make a `backward` node beside every primitive that has backward work."""
        for handle, leaves in self._leaves.items():
            row = self._builder.rows[handle]
            is_primitive = row.kind == "ml"
            backward = self._builder.add(
                row.parent if is_primitive else handle,
                f"{row.name}.{SUFFIX}" if is_primitive else SUFFIX,
                "ml",
                f"{row.op}.{SUFFIX}",
                signature=Signature(
                    row.signature.outputs, row.signature.inputs, row.signature.dtype
                ),
            )
            for leaf in self._known(handle) or leaves:
                leaf.add_to(self._builder, backward)

    def _known(self, handle: int) -> list[Leaf]:
        """The one op of a backward that has a formula of its own."""
        forward = self._calls.get(handle)
        if forward is None:
            return []
        grads = [TensorSpec(o.shape, o.dtype, o.numel) for o in forward.outputs]
        name = f"{forward.op}.{SUFFIX}"
        call = Call(name, [*grads, *forward.inputs], forward.inputs)
        signature = Signature(
            tuple(spec.shape for spec in call.inputs),
            tuple(spec.shape for spec in call.outputs),
            self._builder.rows[handle].signature.dtype,
        )
        return [Leaf(name, name, signature, COSTS[name](call))]
