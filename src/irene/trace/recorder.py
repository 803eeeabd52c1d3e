"""Recorder: watches a model run and writes down the tree.

Three watchers, each for one level: hooks see modules, a function mode sees the
outermost torch call (the ML primitive), a dispatch mode sees the math ops inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch import nn

from irene.trace.captor import Captor, composite_call
from irene.trace.costs.call import Call, Leaf, TensorSpec, dtype_name, tensors_in
from irene.trace.costs.cost_table import COSTS, math_cost, math_name
from irene.trace.gradients import Gradients
from irene.trace.naming import ModuleNames
from irene.trace.primitives import (
    MATRIX_FUNCTIONS,
    composite_frame,
    function_name,
    is_primitive_module,
    run_on_meta,
)
from irene.trace.values import keeping_literals, run_with_values
from irene.trace.watchers import WatchFunctions, WatchMath
from irene.tree import Signature, TreeBuilder
from irene.tree.document import relative_path

ACCESSORS = ("get", "set", "delete")
"""Attribute access (`tensor.shape`), which a function mode sees as calls."""

NOTES = {
    "aten._grouped_mm": "experts: tokens spread evenly, weights of experts hit are read"
}
"""What a reader should know when an op is in the tree."""

COPIES = ("aten.clone", "aten._to_copy", "aten.copy_")


def signature_of(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> Signature:
    """Shapes in and out; the dtype is the first output's."""
    typed = outputs or inputs
    return Signature(
        tuple(tuple(t.shape) for t in inputs),
        tuple(tuple(t.shape) for t in outputs),
        dtype_name(typed[0].dtype) if typed else "",
    )


@dataclass(slots=True)
class _Scope:
    """A module or primitive that is running.

    Attributes:
        handle: Its node in the builder.
        path: Its dotted path.
        is_primitive: Whether torch calls inside it belong to it.
        is_atomic: Whether its formula replaces the ops inside it.
        module: The module, if it is one.
        is_inner: Whether it is a module called inside a primitive, which has the node.
        used: How often each function name was used for a child.
    """

    handle: int
    path: str
    is_primitive: bool = False
    is_atomic: bool = False
    module: nn.Module | None = None
    is_inner: bool = False
    used: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Composite:
    """A composite function that is running: its frame, node and open results."""

    frame: FrameType
    scope: _Scope
    produced: dict[int, torch.Tensor] = field(default_factory=dict)


class Recorder:
    """Watches one run of a model.

    Attributes:
        builder: The nodes so far.
        unsupported: Ops without a FLOP formula, and how often each ran.
        gradients: Where backward ops belong, when recording a training step.
    """

    def __init__(self, model: nn.Module, captor: Captor | None = None) -> None:
        self.model = model
        self._captor = captor or Captor()
        self.names = ModuleNames(model)
        self.builder = TreeBuilder()
        self.unsupported: dict[str, int] = {}
        self.gradients = Gradients(self.builder, self.names)
        self._stack: list[_Scope] = []
        self._composite: _Composite | None = None

    @property
    def running(self) -> str:
        """Path of the module or primitive that is running: where an error happened."""
        return self._stack[-1].path if self._stack else ""

    def notes(self) -> list[str]:
        """Assumptions behind the numbers."""
        return [NOTES[op] for op in NOTES if any(r.op == op for r in self.builder.rows)]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Install the watchers for the block, and leave nothing behind."""
        with ExitStack() as stack:
            for module in self.model.modules():
                before = module.register_forward_pre_hook(
                    self._enter_module, with_kwargs=True
                )
                after = module.register_forward_hook(
                    self._leave_module, with_kwargs=True
                )
                stack.callback(before.remove)
                stack.callback(after.remove)
            stack.enter_context(keeping_literals())
            stack.enter_context(WatchFunctions(self.call_function))
            stack.enter_context(WatchMath(self.call_math))
            yield

    # Modules ------------------------------------------------------------------

    def _enter_module(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._close_composite()
        if self._stack and self._stack[-1].is_primitive:
            inner = replace(self._stack[-1], module=module, is_inner=True)
            self._stack.append(inner)
            return
        parent = self._stack[-1] if self._stack else None
        path = self.names.path(module, parent.path if parent else None)
        primitive = parent is not None and is_primitive_module(module)
        op = type(module).__name__
        handle = self.builder.add(
            parent.handle if parent else -1,
            relative_path(path, parent.path) if parent else "",
            "model" if parent is None else "ml" if primitive else "module",
            op,
        )
        self.gradients.modules.setdefault(path, handle)
        atomic = primitive and op in COSTS
        self._stack.append(_Scope(handle, path, primitive, atomic, module))
        self._captor.enter(handle, module, args, kwargs)

    def _leave_module(
        self, module: nn.Module, args: Any, kwargs: Any, out: Any
    ) -> None:
        self._close_composite()
        scope = self._stack.pop()
        while scope.module is not module:  # left open by an error the model caught
            scope = self._stack.pop()
        if scope.is_inner:
            return
        inputs = tensors_in((*args, *kwargs.values()))
        row = self.builder.rows[scope.handle]
        outputs = tensors_in((out,))
        row.signature = signature_of(inputs, outputs)
        row.params = self.names.params(module)
        if scope.is_atomic:
            self._add_atomic(scope, row.op, args, kwargs, inputs, outputs, module)
        self._captor.leave(scope.handle, self.builder)

    # Functions ----------------------------------------------------------------

    def call_function(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Run one outermost torch call and record it as a primitive."""
        name = function_name(func)
        if name in ACCESSORS or not self._stack or self._stack[-1].is_primitive:
            return func(*args, **kwargs)
        composite = composite_frame(3)
        if composite is not None:
            return self._call_in_composite(composite, func, args, kwargs)
        self._close_composite()
        scope = self._open_function(name)
        self._captor.enter(scope.handle, func, args, kwargs)
        out = run_on_meta(func, args, kwargs)
        self._stack.pop()
        self._close_function(scope, name, args, kwargs, out)
        return out

    def _open_function(self, name: str) -> _Scope:
        parent = self._stack[-1]
        scope = _Scope(
            self.builder.add(parent.handle, name, "ml", name),
            f"{parent.path}.{name}" if parent.path else name,
            is_primitive=True,
            is_atomic=name in COSTS,
        )
        self._stack.append(scope)
        return scope

    def _close_function(
        self, scope: _Scope, name: str, args: Any, kwargs: Mapping[str, Any], out: Any
    ) -> None:
        inputs = tensors_in((*args, *kwargs.values()))
        outputs = tensors_in((out,))
        row = self.builder.rows[scope.handle]
        if scope.is_atomic:
            self._add_atomic(scope, name, args, kwargs, inputs, outputs, None)
        elif not row.children:
            self._discard(scope)
            return
        row.signature = signature_of(inputs, outputs)
        self._name(scope, name)
        if name in MATRIX_FUNCTIONS:
            self._move_out_copies(scope)
        self._captor.leave(scope.handle, self.builder)

    def _name(self, scope: _Scope, name: str) -> None:
        """Give a function node a name that is unique below its parent."""
        parent = self._stack[-1]
        taken = self.names.children(parent.path)
        while True:
            index = parent.used.get(name, 0)
            parent.used[name] = index + 1
            unique = f"{name}_{index}" if index else name
            if unique not in taken:
                break
        self.builder.rows[scope.handle].name = unique

    def _discard(self, scope: _Scope) -> None:
        """Forget a call that did no math: a size query, a cast to the same dtype."""
        row = self.builder.rows.pop()
        assert scope.handle == len(self.builder.rows)
        self.builder.rows[row.parent].children.pop()
        self._captor.drop(scope.handle)

    def _move_out_copies(self, scope: _Scope) -> None:
        """Show the copies that a product makes first as a primitive of their own."""
        rows = self.builder.rows
        product = rows[scope.handle]
        copies = [c for c in product.children if rows[c].op in COPIES]
        if not copies:
            return
        siblings = rows[product.parent].children
        handle = self.builder.add(product.parent, "copy", "ml", "copy")
        siblings.insert(siblings.index(scope.handle), siblings.pop())
        copy = rows[handle]
        copy.children = copies
        product.children = [c for c in product.children if c not in copies]
        signatures = [rows[c].signature for c in copies]
        copy.signature = Signature(
            tuple(s.inputs[0] for s in signatures),
            tuple(s.outputs[0] for s in signatures),
            signatures[0].dtype,
        )
        for child in copies:
            rows[child].parent = handle
        self._name(_Scope(handle, ""), "copy")
        self._captor.split(scope.handle, handle)
        self._captor.leave(handle, self.builder)

    # Composite functions ------------------------------------------------------

    def _call_in_composite(
        self,
        found: tuple[FrameType, str],
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        frame, name = found
        if self._composite is None or self._composite.frame is not frame:
            self._close_composite()
            self._composite = _Composite(frame, self._open_function(name))
            self._stack.pop()
            row = self.builder.rows[self._composite.scope.handle]
            given = frame.f_locals
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            arguments = tensors_in(given[n] for n in names if n in given)
            row.signature = signature_of(arguments, [])
            handle = self._composite.scope.handle
            self._captor.enter(handle, *composite_call(frame))
        composite = self._composite
        self._stack.append(composite.scope)
        out = func(*args, **kwargs)
        self._stack.pop()
        for tensor in tensors_in((*args, *kwargs.values())):
            composite.produced.pop(id(tensor), None)
        for tensor in tensors_in((out,)):
            composite.produced[id(tensor)] = tensor
        return out

    def _close_composite(self) -> None:
        composite, self._composite = self._composite, None
        if composite is None:
            return
        row = self.builder.rows[composite.scope.handle]
        if not row.children:
            self._discard(composite.scope)
            return
        outputs = list(composite.produced.values())
        shapes = tuple(tuple(tensor.shape) for tensor in outputs)
        dtype = dtype_name(outputs[0].dtype) if outputs else row.signature.dtype
        row.signature = Signature(row.signature.inputs, shapes, dtype)
        self._name(composite.scope, row.op)
        self._captor.leave(composite.scope.handle, self.builder)

    # Math ---------------------------------------------------------------------

    def call_math(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Run one aten op and record it below what is running."""
        if self.gradients.running:
            out = run_with_values(func, args, kwargs)
            self.gradients.record(self._leaf(func, args, kwargs, out))
            return out
        if not self._stack:
            return run_with_values(func, args, kwargs)
        scope = self._stack[-1]
        stands_alone = not scope.is_primitive
        if stands_alone:
            scope = self._open_function(func._opname)
            self._stack.pop()
            self._name(scope, func._opname)
        self.gradients.claim(scope.handle)
        out = self._captor.run(func, args, kwargs)
        if not scope.is_atomic:
            leaf = self._leaf(func, args, kwargs, out)
            leaf.add_to(self.builder, scope.handle)
            row = self.builder.rows[scope.handle]
            if not row.signature.outputs:
                row.signature = leaf.signature
        self._hand_out_math(scope, stands_alone, func, args, kwargs)
        return out

    def _hand_out_math(
        self, scope: _Scope, stands_alone: bool, func: Any, args: Any, kwargs: Any
    ) -> None:
        if not scope.is_atomic:
            self._captor.math(len(self.builder.rows) - 1, func, args, kwargs)
        if stands_alone:
            self._captor.enter(scope.handle, func, args, kwargs)
            self._captor.leave(scope.handle, self.builder)

    def _leaf(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any
    ) -> Leaf:
        cost, known = math_cost(func, args, kwargs, out)
        name = math_name(func)
        if not known:
            self.unsupported[name] = self.unsupported.get(name, 0) + 1
        signature = signature_of(
            tensors_in((*args, *kwargs.values())), tensors_in((out,))
        )
        return Leaf(func._opname, name, signature, cost)

    def _add_atomic(
        self,
        scope: _Scope,
        name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        module: nn.Module | None,
    ) -> None:
        """One math leaf by the formula, in place of what this device made of it."""
        call = Call(
            name,
            [TensorSpec.of(t) for t in inputs],
            [TensorSpec.of(t) for t in outputs],
            args,
            kwargs,
            module,
        )
        leaf = Leaf(name, name, signature_of(inputs, outputs), COSTS[name](call))
        leaf.add_to(self.builder, scope.handle)
        self.gradients.keep_call(scope.handle, call)
