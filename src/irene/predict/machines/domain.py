"""What a machine was measured on, and how far beyond it a run is, cause by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2, prod

import numpy as np
import numpy.typing as npt

from irene.arrays import Bools, Floats
from irene.predict.intervals import ASSUMED, Beyond, Doubt, Widths
from irene.predict.machines.specs.work import (
    MIB,
    OTHER,
    PRODUCT_OF,
    STREAM,
    Kernel,
    TreeWork,
)
from irene.saved import Saved
from irene.tree import MATH, ModelTree

Range = tuple[int, int]

SLACK = 1.05
"""How far outside a range is still inside."""
LOOPED = 32
"""Equal ops that one module calls from which on it is a loop over steps."""
LOOP = "in a loop over steps as it was traced, where a fused kernel takes far less"
MOST = "group"
"""The cause that is as far as sizes can be: far away a roofline is all there is."""
MEASURED_PHASES = ("forward", "prefill")


@dataclass(frozen=True, slots=True)
class Domain(Saved):
    """Ranges that were measured.

    Attributes:
        models: Names of the models.
        tokens: Least and most tokens of a run.
        lengths: Shortest and longest sequence.
        widths: Narrowest and widest side of a weight.
        groups: Groups of kernels that were run alone.
        dtype: Floating-point type.
        software: What ran them, in words.
        elements: Least and most elements of kernels that are no products, by group; of
            elementwise work (`stream`) those of all groups.
    """

    models: tuple[str, ...]
    tokens: Range
    lengths: Range
    widths: Range
    groups: tuple[str, ...]
    dtype: str
    software: str
    elements: Mapping[str, Range] = field(default_factory=dict)

    def beyond(
        self, tree: ModelTree, work: TreeWork, joules: Floats, widths: Widths
    ) -> list[Beyond]:
        """What of a run was never measured; the energy that it concerns counts."""
        own_j = np.maximum(tree.columns.own(joules, tree.parents), 0.0)
        found = []
        for cause, which, words, far in self._causes(tree, work, own_j):
            if far.any():
                doubt = np.minimum(far * widths.rate(cause), widths.rate(MOST))
                error, assumed = f"{cause} {which}", cause in ASSUMED
                found.append(Doubt(error, words, doubt, assumed))
        return Beyond.of(tree, own_j, found)

    def _causes(
        self, tree: ModelTree, work: TreeWork, own_j: Floats
    ) -> Iterator[tuple[str, str, str, Floats]]:
        """Every cause, which one it is, its words, and how far beyond each row is.

        Runs share an error on one side of what was measured, of one group of kernels,
        of one type or phase: what is too large tells nothing of what is too small.
        """
        kernels, rows = _kernel_rows(tree, work)
        for cause, what, limits, sides in (
            ("width", "in weights of a width", {"gemm": self.widths}, slice(2, 4)),
            ("tokens", "in products of a size", {"gemm": self.tokens}, slice(1, 2)),
            ("length", "in attention of a length", {"bmm": self.lengths}, slice(1, 3)),
            ("elements", "in kernels of a size", self.elements, None),
        ):
            each = {
                place: (k.sizes[sides] if sides else (prod(k.sizes),), limits[k.group])
                for place, k in enumerate(kernels)
                if k.group in limits
            }
            octaves = {place: _octaves(*sized) for place, sized in each.items()}
            if not any(octaves.values()):
                continue
            far = np.zeros(len(kernels) + 1)
            far[list(octaves)] = list(octaves.values())
            if cause == "tokens" and tree.spec is not None:
                # A pooler or a head has few rows in runs of any size.
                far = np.minimum(far, _octaves([tree.spec.tokens], self.tokens))
            if far.any():
                own = np.bincount(rows, own_j * tree.multiplicity, len(far))
                values, (low, high) = each[int((far * (own + 1e-300)).argmax())]
                value = max(values, key=lambda v: _octaves([v], (low, high)))
                words = f"{what} never measured ({value:,}, not {low:,} to {high:,})"
                side = "below" if value < low else "above"
                yield cause, side, words, far[rows]
        yield "group", *self._unmeasured(tree, kernels, rows)
        spec = tree.spec
        if spec is not None:
            everything = np.ones(len(tree))
            if spec.dtype != self.dtype:
                words = f"in {spec.dtype}, which was never measured"
                yield "dtype", spec.dtype, words, everything
            if spec.phase not in MEASURED_PHASES:
                words = f"of phase {spec.phase}, which was never measured"
                yield "phase", spec.phase, words, everything

    def _unmeasured(
        self, tree: ModelTree, kernels: Sequence[Kernel], rows: npt.NDArray[np.intp]
    ) -> tuple[str, str, Floats]:
        """Kernels of a group that nobody ran alone, and loops traced step by step."""
        known = {*self.groups, STREAM}
        is_new = np.array([k.group not in known for k in kernels] + [False])
        new, looped = is_new[rows], is_looped(tree)
        which = new | looped
        if not which.any():
            return "", "", np.zeros(len(tree))
        each = np.repeat(tree.columns.op[which], tree.multiplicity[which])
        ops = Counter(each.tolist()).most_common(3)
        common = ", ".join(tree.strings[op].removeprefix("aten.") for op, _ in ops)
        words = f"in kernels that were never measured ({common})"
        if looped.any() and not new.any():
            words = f"{LOOP} ({common})"
        return common, words, which.astype(np.float64)


def _kernel_rows(
    tree: ModelTree, work: TreeWork
) -> tuple[list[Kernel], npt.NDArray[np.intp]]:
    """Kernels, elementwise work among them, and the place of every row's.

    The last place is that of rows with none.
    """
    is_math = tree.columns.kind == MATH
    rows = np.full(len(tree), -1, dtype=np.intp)
    if work.kernels:
        first = work.counts.argmax(axis=1)
        has = work.counts[np.arange(len(tree)), first] > 0
        rows = np.where(is_math & has, first, rows)
    elements = np.rint(work.stream_mib.sum(axis=1) * MIB / 8).astype(np.int64)
    streams = is_math & (rows < 0) & (elements > 0)
    sizes = elements[streams].tolist()
    places = {n: len(work.kernels) + i for i, n in enumerate(sorted({*sizes}))}
    rows[streams] = [places[n] for n in sizes]
    kernels = [*work.kernels, *(Kernel(STREAM, (n, 1)) for n in places)]
    rows[rows < 0] = len(kernels)
    return kernels, rows


def is_looped(tree: ModelTree) -> Bools:
    """Ops that a module calls over and over, each after the other."""
    columns = tree.columns
    known = (columns.op, columns.signature, columns.params)
    key = "looped", *(column.tobytes() for column in known)
    return tree.structure.once(key, lambda: _find_looped(tree))


def _find_looped(tree: ModelTree) -> Bools:
    columns = tree.columns
    rows = np.flatnonzero(columns.kind == MATH)
    above = tree.parents[rows]
    keys = np.column_stack(
        [tree.parents[above], columns.op[rows], columns.signature[rows]]
    )
    if not len(rows):
        return np.zeros(len(tree), dtype=np.bool_)
    _, which = np.unique(keys, axis=0, return_inverse=True)
    times = np.bincount(which.ravel(), columns.count[rows] * columns.count[above])
    looped = np.zeros(len(tree), dtype=np.bool_)
    # Equal layers side by side have weights of their own.
    looped[rows] = (times >= LOOPED)[which.ravel()] & (columns.params[above] == 0)
    return looped


def _octaves(values: Sequence[int], limits: Range) -> float:
    """How many times a size would have to be halved or doubled to be inside."""
    least, most = min(values), max(values)
    if limits[0] <= least and most <= limits[1]:
        return 0.0
    low, high = limits[0] / SLACK, limits[1] * SLACK
    beyond = max(low / max(least, 1), max(most, 1) / high)
    return log2(beyond) if beyond > 1.0 else 0.0


def domain_of(
    sizes: Sequence[tuple[str, int, int]],
    kernels: Sequence[Kernel],
    dtype: str,
    software: str,
) -> Domain:
    """The domain of measured runs, by model, batch size and length of each."""
    tokens = [batch * length for _, batch, length in sizes]
    lengths = [length for _, _, length in sizes]
    sides = [size for k in kernels if k.group == "gemm" for size in k.sizes[2:]] or [1]
    elements: dict[str, list[int]] = {}
    for kernel in kernels:
        if kernel.group not in (*PRODUCT_OF.values(), OTHER):
            for group in (kernel.group, STREAM):
                elements.setdefault(group, []).append(prod(kernel.sizes))
    return Domain(
        tuple(dict.fromkeys(model for model, _, _ in sizes)),
        (min(tokens), max(tokens)),
        (min(lengths), max(lengths)),
        (min(sides), max(sides)),
        tuple(sorted({k.group for k in kernels})),
        dtype,
        software,
        {group: (min(sizes), max(sizes)) for group, sizes in elements.items()},
    )
