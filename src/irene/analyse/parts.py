"""A tree as parts that do not overlap: primitives, and what modules use themselves.

Every joule of a tree is in exactly one part. Whatever groups parts therefore adds up to
the whole: by module, by class, by role, by layer.

Which role every node plays: attention, feed-forward, embeddings, norm, head.

Models name the same thing differently: `attention.self`, `attn`, `q_lin`. The role of a
node follows from words in its class and name, from its place (inside a numbered layer,
before the first, after the last) and from what it computes. No model is known by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from irene.arrays import Floats
from irene.tree import KINDS, ModelTree, Signature
from irene.tree.headline import whole_energy

ML, MODULE = KINDS.index("ml"), KINDS.index("module")
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
ROUNDING = 1e-12
"""Share of a tree's energy below which a part is the rounding of a sum."""


@dataclass(frozen=True, slots=True)
class Part:
    """A primitive, or what a module uses besides its children.

    Attributes:
        path: Of the node.
        call: Which call of that path.
        kind: `model`, `module` or `ml`.
        op: Class or function.
        holder: Where it is counted in the paper's tables: the module that holds
            primitives only, or the node itself; numbers of layers as `*`.
        holder_op: Class of the holder.
        role: Of `ROLES`.
        layer: Which layer, from 1; None outside.
        energy_j: J.
        flops: Floating-point operations.
        bytes: Bytes read and written.
        work: Equal for parts that do the same work: op, shapes, type.
    """

    path: str
    call: int
    kind: str
    op: str
    holder: str
    holder_op: str
    role: str
    layer: int | None
    energy_j: float
    flops: float
    bytes: float
    work: tuple[object, ...]

    def scaled(self, factor: float) -> Part:
        """The part of a run `factor` times as long."""
        return replace(
            self,
            energy_j=self.energy_j * factor,
            flops=self.flops * factor,
            bytes=self.bytes * factor,
        )


@dataclass(frozen=True, slots=True)
class Sum:
    """Several parts together: how many, and what they take."""

    count: int = 0
    energy_j: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0

    def plus(self, part: Part) -> Sum:
        """With one part more."""
        return Sum(
            self.count + 1,
            self.energy_j + part.energy_j,
            self.flops + part.flops,
            self.bytes + part.bytes,
        )


def group_by(parts: Iterable[Part], key: Callable[[Part], str]) -> dict[str, Sum]:
    """Parts added up by a key, in the order the keys first occur."""
    sums: dict[str, Sum] = {}
    for part in parts:
        name = key(part)
        sums[name] = sums.get(name, Sum()).plus(part)
    return sums


def parts_of(tree: ModelTree) -> list[Part]:
    """The parts of a tree, in running order; those that cost nothing are left out."""
    whole_energy(tree)
    flat = tree.at_level("ml").unfold()
    assert flat.energy is not None
    columns = flat.columns
    joules = _known(flat)
    moved = columns.bytes_read + columns.bytes_written
    own_j = columns.own(joules)
    own_j[np.abs(own_j) <= ROUNDING * abs(joules[0])] = 0.0
    own_flops = columns.own(columns.flops)
    own_bytes = columns.own(moved)
    places = places_of(flat)
    holders = _holders(flat)
    found = []
    used = (own_j != 0) | (own_flops != 0) | (own_bytes != 0)
    for row in np.flatnonzero(used).tolist():
        place, holder = places[row], holders[row]
        found.append(
            Part(
                flat.paths[row],
                flat.calls[row],
                KINDS[columns.kind[row]],
                _op(flat, row),
                NUMBER.sub("*", flat.paths[holder]),
                _op(flat, holder),
                place.role,
                place.layer,
                float(own_j[row]),
                float(own_flops[row]),
                float(own_bytes[row]),
                (_op(flat, row), _signature(flat, row)),
            )
        )
    return found


def _op(tree: ModelTree, row: int) -> str:
    return tree.strings[int(tree.columns.op[row])]


def _known(tree: ModelTree) -> Floats:
    """Energy of every row; where nothing is known, that of its children.

    What an unknown leaf used stays with the nearest known node above it.
    """
    assert tree.energy is not None
    joules = tree.energy.joules.copy()
    parents, count = tree.parents, tree.columns.count
    below = np.zeros(len(joules))
    for row in range(len(joules) - 1, -1, -1):
        if np.isnan(joules[row]):
            joules[row] = below[row]
        if row:
            below[parents[row]] += joules[row] * count[row]
    return joules


def _holders(tree: ModelTree) -> list[int]:
    """For every row the row it is counted under."""
    kinds, parents = tree.columns.kind, tree.parents
    above_modules = np.zeros(len(tree), dtype=bool)
    modules = np.flatnonzero(kinds == MODULE)
    above_modules[parents[modules[parents[modules] >= 0]]] = True
    holders = list(range(len(tree)))
    for row in np.flatnonzero(kinds == ML).tolist():
        parent = int(parents[row])
        if parent > 0 and not above_modules[parent]:
            holders[row] = parent
    return holders


ROLES = (
    "embeddings",
    "attention",
    "feed-forward",
    "norm",
    "residual",
    "convolution",
    "head",
    "other",
)
"""Embeddings: everything before the layers; head: everything after them. Attention:
whatever mixes tokens; residual: sums with the stream that passes a layer by."""

NORM = re.compile(r"norm|(^|[._])ln(_|\d|$)", re.IGNORECASE)
MIXING = re.compile(r"attention|attn|fourier|mixer|mamba", re.IGNORECASE)
FEED_FORWARD = re.compile(
    r"feed_?forward|ffn|mlp|intermediate|dense(relu|act|gated)|moe|expert"
    r"|layerff|(^|[._])ff([._]|$)|(^|[._])fc\d",
    re.IGNORECASE,
)
EMBEDDING = re.compile(
    r"embed|patch|rotary|position|token_type|(^|[._])w[tp]e($|[._])", re.IGNORECASE
)
HEAD = re.compile(
    r"pooler|lm_head|classifier|(^|[._])score|qa_outputs|predictions|(^|[._])cls$"
    r"|(^|_)head$",
    re.IGNORECASE,
)
PRODUCTS = frozenset({"Linear", "Conv1D", "linear", "matmul", "bmm", "addmm", "einsum"})
ACTIVATION = re.compile(r"gelu|relu|silu|swish|tanh|sigmoid|activation", re.IGNORECASE)
CONVOLUTION = re.compile(r"conv\dd", re.IGNORECASE)
GAP = "host_gap"
"""Op of a serving's idle time between kernels."""
SUMS = frozenset({"add", "add_", "iadd", "__add__", "__iadd__"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands in its model.

    Attributes:
        role: One of `ROLES`.
        layer: Which layer it is in, in the order they run, from 1; None outside.
    """

    role: str
    layer: int | None


@dataclass(slots=True)
class _Above:
    """What a node inherits: a settled role, its layer, the stream of that layer."""

    role: str | None
    layer: int | None
    stream: tuple[int, ...] | None


def places_of(tree: ModelTree) -> list[Place]:
    """Role and layer of every row.

    Args:
        tree: Any tree, unfolded.
    """
    numbered = _layer_rows(tree)
    first = min(numbered, default=len(tree))
    last = max((int(tree.ends[row]) for row in numbered), default=0)
    parents = tree.parents.tolist()
    above: list[_Above] = []
    places = []
    for row in range(len(tree)):
        context = above[parents[row]] if row else _Above(None, None, None)
        here = _Above(context.role, context.layer, context.stream)
        if row in numbered:
            shapes = _signature(tree, row).outputs
            here = _Above(None, numbered[row], shapes[0] if shapes else None)
        role = _own_role(tree, row, context if row in numbered else here)
        if role in ("norm", "attention", "feed-forward", "embeddings", "head"):
            here.role = here.role if here.role == "norm" else role
        above.append(here)
        holds_layers = row < first < int(tree.ends[row])
        is_outside = here.layer is None and not holds_layers
        outside = _outside_role(row, first, last) if is_outside else "other"
        places.append(Place(role or here.role or outside, here.layer))
    return places


def _layer_rows(tree: ModelTree) -> dict[int, int]:
    """Rows of the outermost numbered modules, with their number in running order."""
    is_module = tree.columns.kind == KINDS.index("module")
    found: dict[int, int] = {}
    end = 0
    for row in np.flatnonzero(is_module).tolist():
        if row >= end and tree.paths[row].rpartition(".")[2].isdigit():
            found[row] = len(found) + 1
            end = int(tree.ends[row])
    return found


def _signature(tree: ModelTree, row: int) -> Signature:
    return tree.signatures[int(tree.columns.signature[row])]


def _own_role(tree: ModelTree, row: int, above: _Above) -> str | None:
    """The role a node's own words or work give it; None if it takes that above."""
    op = tree.strings[int(tree.columns.op[row])]
    name = tree.strings[int(tree.columns.name[row])].lstrip("/")
    if row == 0:
        return None
    if op == GAP:
        return "other"
    if above.role == "norm" or NORM.search(op) or NORM.search(name):
        return "norm"
    if above.layer is None:
        return _word_role(op, name, ((EMBEDDING, "embeddings"), (HEAD, "head")))
    if _is_residual(op, _signature(tree, row), above.stream):
        return "residual"
    words = ((MIXING, "attention"), (FEED_FORWARD, "feed-forward"))
    return _word_role(op, name, words) or _work_role(op, above)


def _word_role(
    op: str, name: str, patterns: tuple[tuple[re.Pattern[str], str], ...]
) -> str | None:
    for pattern, role in patterns:
        if pattern.search(op) or pattern.search(name):
            return role
    return None


def _work_role(op: str, above: _Above) -> str | None:
    """In a layer, outside attention: products and activations are feed-forward."""
    if above.role is not None:
        return None
    if CONVOLUTION.search(op):
        return "convolution"
    return "feed-forward" if op in PRODUCTS or ACTIVATION.search(op) else None


def _is_residual(op: str, signature: Signature, stream: tuple[int, ...] | None) -> bool:
    if op not in SUMS or stream is None or len(signature.inputs) < 2:
        return False
    return all(shape == stream for shape in signature.inputs)


def _outside_role(row: int, first: int, last: int) -> str:
    if row == 0 or first == 0 or last == 0:
        return "other"
    if row < first:
        return "embeddings"
    return "head" if row >= last else "other"
