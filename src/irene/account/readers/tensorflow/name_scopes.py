"""Name scopes: which layer and phase a TensorFlow op belongs to, by its name.

TensorFlow names an op after the scopes it was made in: `model/dense/MatMul`. Scopes are
layers, but also functions of TensorFlow itself (`Tensordot`, `moments`), calls of other
functions and traces of optimizers. What is what shows only from all names of a trace
together, so that they are looked at first.

Keras 3 opens two scopes for every call of a layer, one to build and one to run it, and
TensorFlow numbers the second: `dense` runs as `dense_1`, and when it is called again as
`dense_3`. So every layer of Keras 3 has exactly one number too many. Keras 2 has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

CALL = re.compile(r"(Stateful)?PartitionedCall(_\d+)?|__\w+|_\d+")
"""Scopes that calls of functions leave."""
NUMBER = re.compile(r"_\d+$")
BRANCHES = {"then", "else", "body", "cond"}
REWRITERS = {"ArithmeticOptimizer", "ConstantFolding", "LayoutOptimizer", "inject"}
"""Scopes that TensorFlow's graph optimizer adds."""
BACKWARD = {"gradient_tape", "gradients"}
OPTIMIZER = re.compile(
    r"(^|_)(optimizers?|adam|adamw|adamax|nadam|sgd|rms_?prop|adagrad|adadelta|ftrl|lion"
    r"|adafactor|lamb|muon|momentum)(_|$)"
)
LOSS = re.compile(
    r"(^|_)(loss|losses|crossentropy|cross_entropy|hinge|divergence|squared_error"
    r"|absolute_error|percentage_error)(_|$)"
)
DATA = re.compile(r"Iterator|Optional|Dataset|MakeIterator")
PLUMBING = {"_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "NoOp"}
PLUMBING |= {"Placeholder", "Const"}
UPDATES = re.compile(r"Resource(Sparse)?Apply|^(Sparse)?Apply|^AssignSub")
FUNCTIONS = {
    "add", "sub", "mul", "truediv", "div", "div_no_nan", "floordiv", "floormod", "mod",
    "pow", "neg", "matmul", "einsum", "moments", "strided_slice", "concat", "stack",
    "unstack", "split", "transpose", "reshape", "batchnorm", "embedding_lookup", "and",
    "or", "while", "stateless_dropout", "stateless_random_uniform", "random_uniform",
    "clip_by_value", "l2_normalize", "ones", "zeros", "ones_like", "zeros_like",
    "range", "mean", "sum", "max", "min", "equal", "not_equal", "greater", "less",
    "logical_and", "logical_or", "Tensordot", "Gelu", "Relu", "Selu", "Silu", "swish",
    "stateless_random_normal", "stateless_truncated_normal", "assert_equal", "Assert",
    "AssignMovingAvg", "AssignMovingAvg_1", "batch_normalization_moments",
}  # fmt: skip
"""Scopes that functions of TensorFlow open, which are no layers."""
READ = "ReadVariableOp"
METRICS = "compile_metrics"
"""Keras's own name for what it computes beside the loss."""


def is_optimizer(scope: str) -> bool:
    """Whether a scope is called as optimizers are."""
    return bool(OPTIMIZER.search(_snake(scope)))


def is_loss(scope: str) -> bool:
    """Whether a scope is called as losses are."""
    return bool(LOSS.search(_snake(scope)))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Placed(NamedTuple):
    """Layer and phase of an op; `follows` if it belongs to the backward op before it.

    `AddN` sums the gradients of a tensor that was used several times, and has no scope.
    """

    scope: str
    phase: str
    follows: bool = False


class NameScopes:
    """The scopes of one trace, of its ops as `("model/dense/MatMul", "MatMul")`."""

    def __init__(self, ops: Iterable[tuple[str, str]]) -> None:
        self._ops = [(_parts(name), kind) for name, kind in set(ops)]
        self._paths = {tuple(parts) for _, parts in map(_forward, self._names())}
        self._types = {kind.lstrip("_") for _, kind in self._ops}

    def _names(self) -> Iterable[list[str]]:
        return (parts for parts, _ in self._ops)

    @cached_property
    def has_backward(self) -> bool:
        """Whether any op is of a gradient."""
        return any(_forward(parts)[0] for parts in self._names())

    @cached_property
    def is_keras_fit(self) -> bool:
        """Whether Keras 3's own training or evaluation step ran."""
        return any(parts[0] == "compile_loss" for parts in self._paths if parts)

    @cached_property
    def optimizers(self) -> set[str]:
        """First scopes of optimizers."""
        known = {p[0] for p in self._paths if len(p) > 1 and is_optimizer(p[0])}
        differentiated = {
            forward[0] for back, forward in map(_forward, self._names()) if back
        }
        updating = {
            parts[0]
            for parts, kind in self._ops
            if len(parts) > 1 and UPDATES.search(kind)
        }
        return known | (updating - differentiated - BACKWARD)

    @cached_property
    def _owners(self) -> set[tuple[str, ...]]:
        """Layers that read a weight."""
        found = set()
        for parts in self._paths:
            if parts[-1:] != (READ,) or parts[0] in self.optimizers:
                continue
            owner = parts[:-1]
            if owner and owner[-1][:1].isupper():
                owner = owner[:-1]  # the op that reads it: `dense_1/BiasAdd/…`
            while owner and NUMBER.sub("", owner[-1]) in FUNCTIONS:
                owner = owner[:-1]
            if owner:
                found.add(owner)
        return found

    @cached_property
    def _above_owners(self) -> set[tuple[str, ...]]:
        return {owner[:n] for owner in self._owners for n in range(1, len(owner) + 1)}

    @cached_property
    def is_numbered(self) -> bool:
        """Whether all layers have a number too many, as Keras 3's have."""
        named = all(NUMBER.search(owner[-1]) for owner in self._owners)
        return (bool(self._owners) and named) or self.is_keras_fit

    @cached_property
    def _children(self) -> set[tuple[str, ...]]:
        return {path[:n] for path in self._paths for n in range(1, len(path) + 1)}

    def place(self, name: str, kind: str) -> Placed:
        """Where an op belongs."""
        backward, parts = _forward(_parts(name))
        layers = self._layers(parts[:-1])
        scope = ".".join(layers)
        if backward:
            return Placed(scope, "backward")
        if len(parts) > 1 and parts[0] in self.optimizers:
            return Placed(parts[0], "optimizer")
        if len(parts) > 1 and is_loss(parts[0]):
            return Placed(scope or parts[0], "loss")
        if layers:
            return Placed(scope, "forward")
        return self._place_root(kind)

    def _place_root(self, kind: str) -> Placed:
        """Where an op outside all layers belongs."""
        if DATA.search(kind):
            return Placed("", "data")
        if kind in PLUMBING:
            return Placed("", "other")
        if kind == "AddN" and self.has_backward:
            return Placed("", "backward", follows=True)
        if self.is_keras_fit:
            return Placed(METRICS, "loss")
        return Placed("", "forward")

    def _layers(self, scopes: list[str]) -> list[str]:
        """Names of the layers at the begin of a path."""
        found = []
        for index, name in enumerate(scopes):
            if not self._is_layer(tuple(scopes[:index]), name):
                break
            found.append(NUMBER.sub("", name) if self.is_numbered else name)
        # A dot would look like another level; transformers writes `layer_._0`.
        return [name.replace("._", "").replace(".", "_") for name in found]

    def _is_layer(self, above: tuple[str, ...], name: str) -> bool:
        path = (*above, name)
        if path in self._above_owners:
            return True
        if self._is_function(name) or path in self._paths:
            return False
        if not self.is_numbered or is_loss((above or path)[0]):
            return True
        bare = (*above, NUMBER.sub("", name))
        return bare != path and bare not in self._children

    def _is_function(self, name: str) -> bool:
        """Whether a scope that holds no weights is none of a layer.

        Keras names its layers in lower case, TensorFlow its ops with a capital.
        """
        bare = NUMBER.sub("", name)
        return bare in FUNCTIONS or bare in self._types or bare[:1].isupper()


def _parts(name: str) -> list[str]:
    """Scopes and name of an op, without what calls and rewriters added."""
    parts = name.split("/")
    for index in range(len(parts) - 2, 0, -1):
        # `model/lstm/while/body/_31/model/lstm/while/cell/MatMul` repeats all.
        if re.fullmatch(r"_\d+", parts[index]) and parts[index - 1] in BRANCHES:
            parts = parts[index + 1 :]
            break
    last = len(parts) - 1
    kept = [
        part
        for index, part in enumerate(parts)
        if index == last or not (CALL.fullmatch(part) or part in REWRITERS)
    ]
    return [part for part in kept if part != "while"] or parts[-1:]


def _forward(parts: list[str]) -> tuple[bool, list[str]]:
    """Whether an op is of a gradient, and the path of what it is the gradient of."""
    begin = 0
    while begin < len(parts) - 1 and parts[begin] in BACKWARD:
        begin += 1
    return begin > 0, parts[begin:]
