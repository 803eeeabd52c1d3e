"""Which role every node plays: attention, feed-forward, embeddings, norm, head.

Models name the same thing differently: `attention.self`, `attn`, `q_lin`. The role of a
node follows from words in its class and name, from its place (inside a numbered layer,
before the first, after the last) and from what it computes. No model is known by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from irene.tree import KINDS, ModelTree, Signature

__all__ = ["ROLES", "Place", "places_of"]

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
