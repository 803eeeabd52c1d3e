"""What to look at first: where the energy goes, and what of it is wasted.

The modules are those of Tables 10 and 12 of the IrEne paper (Cao et al., ACL 2021):
modules that hold primitives only, and primitives that stand beside modules.

What a machine does at best: joules per FLOP and per byte, and where they meet.

A node cannot use less than its FLOPs at the best joules per FLOP, nor less than its
bytes at the best joules per byte. Where both are equal is the ridge: above so many FLOP
per byte a node is bound by arithmetic, below by memory (the energy roofline of Choi et
al., "A Roofline Model of Energy", IPDPS 2013). What a node uses beyond that is what a
better kernel, larger sizes or fewer calls could save at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from irene.analyse.parts import Part, group_by, parts_of
from irene.energy import Energy
from irene.plain import Document
from irene.presented import Drawn
from irene.tree import ModelTree
from irene.tree.headline import energy_source, model_name, run_words, whole_energy

if TYPE_CHECKING:
    from irene.hardware import Hardware

OUTSIDE = "outside the layers"

VIEWS: dict[str, Callable[[Part], str]] = {
    "module": lambda part: part.holder or part.holder_op,
    "class": lambda part: part.holder_op,
    "role": lambda part: part.role,
    "primitive": lambda part: part.op if part.kind == "ml" else f"({part.kind} itself)",
    "layer": lambda part: OUTSIDE if part.layer is None else f"layer {part.layer}",
    "level": lambda part: part.kind,
}
"""Ways to add up the parts of a tree, by name."""


@dataclass(frozen=True, slots=True)
class Bottleneck(Document):
    """Parts of a tree that belong together.

    Attributes:
        name: What they have in common; layers are numbered from 1, and `*` in a path
            stands for every layer.
        op: Class of the module, "" where there are several.
        energy_j: J.
        share: Of the whole, 0 to 1.
        together: Share of this and all larger ones.
        flops: Floating-point operations.
        bytes: Bytes read and written.
        at_best_j: Least the machine needs for these FLOPs and bytes, J.
        wasted_j: What is used beyond that, J.
        bound: What decides the energy: `compute`, `memory` or `overhead`.
    """

    name: str
    op: str
    energy_j: float
    share: float
    together: float
    flops: float
    bytes: float
    at_best_j: float
    wasted_j: float
    bound: str

    also: ClassVar = ("joules_per_gflop", "joules_per_gb", "flop_per_byte")

    @property
    def joules_per_gflop(self) -> float | None:
        """J per 10⁹ FLOP, None without FLOPs."""
        return self.energy_j / self.flops * 1e9 if self.flops else None

    @property
    def joules_per_gb(self) -> float | None:
        """J per 10⁹ bytes, None where nothing moves."""
        return self.energy_j / self.bytes * 1e9 if self.bytes else None

    @property
    def flop_per_byte(self) -> float | None:
        """FLOP per byte, None where nothing moves."""
        return self.flops / self.bytes if self.bytes else None


@dataclass(frozen=True, slots=True, repr=False)
class Bottlenecks(Drawn, Document):
    """Where the energy of a tree goes.

    Attributes:
        model: Name of the model.
        run: Sizes and settings in words, a star for what was chosen.
        energy: Of the whole.
        best: What the machine does at best.
        wasted_j: What all parts use beyond that, J.
        views: Bottlenecks by every key of `VIEWS`, the largest first; layers in order.
        notes: Warnings and assumptions of the tree.
    """

    model: str
    run: str
    energy: Energy
    best: BestRates
    wasted_j: float
    views: dict[str, tuple[Bottleneck, ...]]
    notes: tuple[str, ...]

    schema: ClassVar = "irene.bottlenecks/1"

    def top(self, share: float = 0.9, view: str = "module") -> list[Bottleneck]:
        """The largest that together have at least a share of the energy.

        Args:
            share: 0 to 1.
            view: A key of `VIEWS`.
        """
        ranked = sorted(self.views[view], key=lambda found: -found.energy_j)
        wanted: list[Bottleneck] = []
        reached = 0.0
        for found in ranked:
            if reached >= share - 1e-12:
                break
            wanted.append(found)
            reached += found.share
        return wanted


def find_bottlenecks(tree: ModelTree, best: BestRates | None = None) -> Bottlenecks:
    """Where the energy of a tree goes, and what of it the machine need not have used.

    Args:
        tree: Predicted, measured or accounted.
        best: What the machine does at best; by default the best of this tree and of
            the machine's predictor.

    Raises:
        UsageError: The tree carries no energy.
    """
    parts = parts_of(tree)
    energy = whole_energy(tree)
    if best is None:
        best = best_rates(parts, machine_rates(tree.hardware))
    views = {n: _view(parts, k, energy.joules, best) for n, k in VIEWS.items()}
    in_order = list(dict.fromkeys(map(VIEWS["layer"], parts)))
    by_layer = sorted(views["layer"], key=lambda found: in_order.index(found.name))
    machine = energy_source(tree).partition(" · by ")[0]
    return Bottlenecks(
        model_name(tree),
        " · ".join(filter(None, (run_words(tree), machine))),
        energy,
        best,
        sum(_wasted_j(part, best) for part in parts),
        {**views, "layer": tuple(by_layer)},
        tree.notes,
    )


def _wasted_j(part: Part, best: BestRates) -> float:
    # A module that was measured to use less than its children has negative own energy.
    least_j = min(part.energy_j, 0.0)
    return max(part.energy_j - best.at_best_j(part.flops, part.bytes), least_j)


def _view(
    parts: Sequence[Part], key: Callable[[Part], str], total_j: float, best: BestRates
) -> tuple[Bottleneck, ...]:
    """Parts by a key, the largest first."""
    sums = group_by(parts, key)
    wasted = dict.fromkeys(sums, 0.0)
    ops: dict[str, set[str]] = {name: set() for name in sums}
    for part in parts:
        wasted[key(part)] += _wasted_j(part, best)
        ops[key(part)].add(part.holder_op)
    ranked = sorted(sums.items(), key=lambda item: -item[1].energy_j)
    shares = [found.energy_j / total_j if total_j else 0.0 for _, found in ranked]
    return tuple(
        Bottleneck(
            name,
            next(iter(ops[name])) if len(ops[name]) == 1 else "",
            found.energy_j,
            share,
            together,
            found.flops,
            found.bytes,
            found.energy_j - wasted[name],
            wasted[name],
            best.bound(found.energy_j, found.flops, found.bytes),
        )
        for (name, found), share, together in zip(
            ranked, shares, accumulate(shares), strict=True
        )
    )


BOUNDS = ("compute", "memory", "overhead")
"""Overhead: neither FLOPs nor bytes explain a third of the energy; calls and waiting,
or sizes that do not fill the machine, do."""
EXPLAINED = 1 / 3
NEGLIGIBLE = 1e-3
"""Share of a tree below which a part's rate is not trusted to be the best."""


@dataclass(frozen=True, slots=True)
class BestRates:
    """The best rates of a machine.

    Attributes:
        joules_per_flop: J per floating-point operation.
        joules_per_byte: J per byte read or written.
        source: Where they come from, in words.
    """

    joules_per_flop: float
    joules_per_byte: float
    source: str

    @property
    def ridge(self) -> float:
        """FLOP per byte above which arithmetic decides."""
        if not self.joules_per_flop:
            return float("inf")
        return self.joules_per_byte / self.joules_per_flop

    def at_best_j(self, flops: float, moved: float) -> float:
        """Least energy that FLOPs and bytes allow, J."""
        return max(flops * self.joules_per_flop, moved * self.joules_per_byte)

    def work_j(self, flops: float, moved: float) -> float:
        """FLOPs and bytes priced at the best rates and added up, J."""
        return flops * self.joules_per_flop + moved * self.joules_per_byte

    def bound(self, energy_j: float, flops: float, moved: float) -> str:
        """What decides the energy: one of `BOUNDS`."""
        if self.at_best_j(flops, moved) < EXPLAINED * energy_j:
            return "overhead"
        arithmetic = flops * self.joules_per_flop >= moved * self.joules_per_byte
        return "compute" if arithmetic else "memory"

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        ridge = self.ridge
        finite = ridge if np.isfinite(ridge) else None
        return {**asdict(self), "ridge_flop_per_byte": finite}


def best_rates(
    parts: Sequence[Part], known: BestRates | None = None, name: str = "this tree"
) -> BestRates:
    """The best rates seen among parts, or known of the machine if those are better."""
    least_j = NEGLIGIBLE * sum(part.energy_j for part in parts)
    large = [part for part in parts if part.energy_j > max(least_j, 0.0)]
    per_flop = [part.energy_j / part.flops for part in large if part.flops > 0]
    per_byte = [part.energy_j / part.bytes for part in large if part.bytes > 0]
    sources = [f"the best primitive of {name}"]
    if known is not None:
        per_flop.append(known.joules_per_flop)
        per_byte.append(known.joules_per_byte)
        sources.insert(0, known.source)
    return BestRates(
        min(per_flop, default=0.0), min(per_byte, default=0.0), " and ".join(sources)
    )


def machine_rates(hardware: Hardware | None) -> BestRates | None:
    """Rates of the predictor that ships for a machine; None for any other machine."""
    from irene.predict.machines.finding import find_machine, known_predictors
    from irene.predict.machines.predictor import Predictor
    from irene.predict.machines.specs.specs_model import SpecsModel
    from irene.predict.machines.specs.work import MIB

    if hardware is None or hardware.name not in known_predictors():
        return None
    predictor = find_machine(hardware.name)
    if hardware.predictor != predictor.hardware.predictor:
        return None
    if not isinstance(predictor, Predictor) or not isinstance(
        predictor.model, SpecsModel
    ):
        return None
    streams = predictor.model.composition.stream_j
    moving = [float(rate) for rate in streams if rate > 0]
    if "gemm" not in predictor.model.groups or not moving:
        return None
    per_flop = predictor.model.joules_per_gflop() / 1e9
    source = f"the rates of {hardware.predictor}"
    return BestRates(per_flop, min(moving) / MIB, source)
