"""A data-centre GPU that predicts trees: serving steps, generations, traced models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.human import human_width
from irene.predict.intervals import Beyond, Doubt, with_beyond, worth_saying
from irene.predict.machines.gpu.doubts import (
    SERVED,
    OpDoubts,
    beyond_servings,
    doubted,
)
from irene.predict.machines.gpu.engines import (
    TODAY,
    UNKNOWN,
    Engine,
    engines_of,
    in_words,
)
from irene.predict.machines.gpu.gpu_device import GpuDevice, OpCosts
from irene.predict.machines.gpu.kernel_work import Work
from irene.predict.machines.gpu.node_ops import (
    GAP,
    NodeOps,
    decoder_layers,
    feature,
    serving_ops,
    traced_ops,
)
from irene.predict.machines.gpu.passes import OwnCosts, Passes, passes_of, slower
from irene.predict.machines.gpu.run_likeness import shared_errors
from irene.predict.machines.gpu.serving_calibration import (
    Calibration,
    OpKinds,
    regime_of,
)
from irene.predict.machines.gpu.wall import held, walls
from irene.predict.machines.memory_fit import USABLE, memory_fit, traced_fit
from irene.saved import digest_of
from irene.spec import Attention, DType
from irene.trace.serving.tree import is_serving_tree
from irene.tree import ModelTree

ELSEWHERE = "between board and wall"
"""Cause of what is asked for elsewhere than it was measured."""
EXPERTS = "fused_moe"
STATES = frozenset({"state_update", "chunk_scan"})
"""Ops of layers that are state spaces."""


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """Energy of every node of a tree on one kind of GPU, with intervals.

    Attributes:
        device: Time, power and energy of single kernels.
        calibration: How servings differ from the sum of their kernels.
        engine: Serving engine that runs them unless somebody says otherwise.
        digest: SHA-256 of everything that decides its predictions.
    """

    device: GpuDevice
    calibration: Calibration = field(default_factory=Calibration)
    engine: str = TODAY
    digest: str = field(init=False, default="")

    usual_dtype: ClassVar[DType] = "bf16"
    usual_attention: ClassVar[Attention] = "sdpa"
    serves: ClassVar = True

    def __post_init__(self) -> None:
        """Name the content."""
        content = {
            "device": self.device.digest,
            "sheet": self.device.sheet.to_dict(),
            "calibration": self.calibration.to_dict(),
            "engines": [each.to_dict() for each in engines_of(UNKNOWN)],
            "engine": self.engine,
            "wall": walls()[self.device.sheet.host].to_dict(),
            "passes": self.passes.to_dict(),
        }
        object.__setattr__(self, "digest", digest_of(content))

    @property
    def hardware(self) -> Hardware:
        """The machine, as trees carry it."""
        sheet = self.device.sheet
        name = f"{self.device.name} {self.digest[:8]}"
        covers = "wall" if self.usual_place == "wall" else "gpu-board"
        return Hardware(self.device.name, covers, sheet.description, name)

    @property
    def streams(self) -> tuple[int, int]:
        """Least and most streams of the servings that it was measured with."""
        return SERVED[self.engine]["batch_size"]

    @property
    def usual_place(self) -> str:
        """What energy is meant unless somebody says: a desktop's was measured whole."""
        return "wall" if self.device.sheet.host == "desktop" else "board"

    @property
    def passes(self) -> Passes:
        """How plain passes differ from the sum of their kernels."""
        return passes_of(self.device.name)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Data, versions and held-out errors of kernels, servings and passes."""
        found = {"serving": self.calibration, "passes": self.passes}
        told = {name: each.to_dict() for name, each in found.items()}
        return {**self.device.provenance, **told}

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, as JSON-ready values."""
        return {
            "hardware": self.hardware.to_dict(),
            "datasheet": self.device.sheet.to_dict(),
            "provenance": dict(self.provenance),
            "digest": self.digest,
        }

    def predict(self, tree: ModelTree, step_s: float | None = None) -> ModelTree:
        """The same tree carrying predicted energies, and times as features.

        A node's energy is its kernels'; idle power between kernels is in nodes of its
        own (`gap`) in a serving, with the kernels that waited in a traced model.

        Raises:
            UsageError: The tree has no ops to predict, or a step time makes no sense.
        """
        is_serving, sheet = is_serving_tree(tree), self.device.sheet
        if step_s is not None and not (is_serving and step_s > 0):
            raise UsageError("a step time is a positive number, of a serving")
        nodes = serving_ops(tree) if is_serving else traced_ops(tree)
        if is_serving:
            reasons = doubted(nodes.ops, sheet, self.calibration.engine)
            nodes = replace(nodes, reasons=reasons)
        costs = self.device.costs(nodes.ops, eager=not is_serving)
        doubts = OpDoubts.of(nodes, costs)
        if is_serving:
            own = self._own(tree, nodes, costs)
            widths, notes = self._fill_gaps(tree, nodes, own, step_s)
            fit = memory_fit(tree, sheet)
        else:
            own = self.passes.own(tree, nodes, costs, sheet)
            fit = traced_fit(tree, sheet.memory_bytes, USABLE)
            widths = self.passes.energy_width, self.passes.time_width
            notes = [self.passes.note()]
        tree = tree.with_notes(*fit.notes())
        at_root = {"memory_share": fit.share, "time_spread": math.exp(widths[1])}
        own = self._limited(tree, nodes, own, step_s is not None)
        notes = doubts.notes(tree, nodes, own.each_j) + notes
        if is_serving:
            notes.append(f"servings calibrated on {self.calibration.source}")
        width, causes = doubts.widths(tree, nodes, own, widths[0])
        causes += beyond_servings(tree, own.joules, self.device.name, self.calibration)
        causes += self.passes.beyond(tree, nodes, own)
        place = tree.spec.at if tree.spec and tree.spec.at else self.usual_place
        wall = walls()[sheet.host]
        gpus = tree.spec.gpus if tree.spec else 1
        if place == "board":
            most_w = (tree.spec and tree.spec.power_limit_w) or sheet.tdp_w
            at_root |= {"idle_w": gpus * sheet.idle_w, "tdp_w": gpus * most_w}
        if place == "wall":
            both = np.stack([own.joules, own.static_j])
            joules, static_j = wall.joules(both, own.time_s, gpus)
            own = replace(own, joules=joules, static_j=static_j)
            notes.append(wall.note())
        if place != self.usual_place:
            far = np.full(len(tree), wall.width)
            causes += Beyond.of(tree, own.joules, [Doubt(ELSEWHERE, place, far)])
        tree = self._composed(tree, own, width, causes)
        known = {name: _root(tree, value) for name, value in at_root.items()}
        return tree.with_features({**tree.features, **known}).with_notes(*notes)

    def _own(self, tree: ModelTree, nodes: NodeOps, costs: OpCosts) -> OwnCosts:
        """What every row takes by itself, without gaps."""
        size, runs = len(tree), nodes.runs * slower(tree, nodes.ops)[nodes.place]
        has_base = nodes.base >= 0

        def beyond(values: Floats) -> Floats:
            found = values[nodes.place] - np.where(has_base, values[nodes.base], 0.0)
            return np.maximum(found, 0.0)

        def spread(values: Floats) -> Floats:
            return np.bincount(nodes.rows, values, size).astype(np.float64)

        sheet = self.device.sheet
        told, kinds = self.calibration, OpKinds.of(nodes.ops, sheet)
        taken_s = costs.time_s * told.factors(kinds)
        work = Work(costs.flops, costs.bytes)
        time_s = beyond(taken_s) * runs
        each_s = time_s * nodes.ranks
        joules = told.running_w(kinds, sheet)[nodes.place] * each_s
        counted_j = beyond(told.counted_j(kinds, taken_s, work, sheet))
        joules += counted_j * runs * nodes.ranks
        static_j = spread(each_s) * sheet.idle_w
        return OwnCosts(spread(joules), joules, each_s, spread(time_s), static_j)

    def _fill_gaps(
        self, tree: ModelTree, nodes: NodeOps, own: OwnCosts, step_s: float | None
    ) -> tuple[tuple[float, float], list[str]]:
        """Give the nodes of gaps their time and energy.

        Returns:
            Half the intervals of energy and time, in log units; and what to say.
        """
        spec = tree.spec
        assert spec is not None, "a serving has a run"
        known = engines_of(spec.engine or self.engine)
        rows = np.flatnonzero(tree.columns.op == tree.strings.index(GAP))
        runs = feature(tree, "runs", 1.0)[rows]
        kernels = np.array([(own.joules * tree.multiplicity).sum(),
                            (own.time_s * tree.multiplicity).sum()])  # fmt: skip
        notes, each_s = [f"engine: {in_words(known)}"], None
        if step_s is not None:
            steps = spec.output_len or 1
            notes.append(f"steps of {step_s * 1e3:g} ms, as measured")
            if kernels[1] > step_s * steps:
                alone_ms = kernels[1] / steps * 1e3
                notes.append(f"warning: kernels alone would take {alone_ms:.3g} ms")
            each_s = max(step_s * steps - kernels[1], 0.0) / runs.sum()
        is_hybrid = not STATES.isdisjoint(tree.strings)
        # Groups that share no experts do not wait for each other.
        groups = 1 if EXPERTS in tree.strings else spec.data_parallel
        ranks = spec.gpus // groups
        regime = regime_of(nodes.ops, ranks, spec.output_len or 1, is_hybrid)
        found = [self._gaps(tree, rows, each, each_s, regime) * runs for each in known]
        totals = np.array([self._total(kernels, each, spec.gpus) for each in found])
        least, most = totals[:, 0].argmin(), totals[:, 0].argmax()
        (low, *_), (high, *_) = totals[least], totals[most]
        part = (np.sqrt(low * high) - low) / (high - low) if high > low else 0.0
        middle = found[least] + part * (found[most] - found[least])
        own.joules[rows], own.time_s[rows] = middle
        own.static_j[rows] = self.device.sheet.idle_w * middle[1] * spec.gpus
        apart = np.log(totals / self._total(kernels, middle, spec.gpus))
        energy, time = np.abs(apart).max(axis=0).tolist()
        told = self.calibration
        others = [each for each in known if each.name != told.engine]
        if why := told.unlike(regime):
            assumed = human_width(told.energy_width)
            notes.append(f"extrapolation: {why}: {assumed} is assumed")
        is_shared = ranks > 1
        usual = told.width(regime), told.width(regime, True)
        energy += max([usual[0], *(e.width(usual[0], is_shared) for e in others)])
        time += max([usual[1], *(e.width(usual[1], is_shared, True) for e in others)])
        return (energy, math.hypot(time, told.unserved_time)), notes

    def _total(self, kernels: Floats, gaps: Floats, gpus: int) -> Floats:
        """Joules and seconds of kernels and gaps, each J above idle and s."""
        above_j, time_s = kernels + gaps.sum(axis=1)
        all_s = np.array(time_s * gpus)
        joules = self.calibration.limited_j(above_j, all_s, self.device.sheet)
        return np.array([joules, time_s])

    def _gaps(
        self,
        tree: ModelTree,
        rows: npt.NDArray[np.intp],
        engine: Engine,
        given_s: float | None,
        regime: str,
    ) -> Floats:
        """J above idle of all GPUs and seconds of gaps, each time they occur."""
        assert tree.spec is not None
        places = tree.columns.signature[rows].tolist()
        shapes = [tree.signatures[i].inputs for i in places]
        if any(len(inputs) < 2 for inputs in shapes):
            raise UsageError(
                "this serving was saved by an older version, without its vocabulary: "
                f"predict {tree.spec.model} again"
            )
        sequences, words = np.array([(s[0][0], s[1][0]) for s in shapes], float).T
        ranks, layers = np.array(tree.spec.gpus), np.array(decoder_layers(tree))
        is_long, has_experts = regime.endswith("long one"), regime.startswith("experts")
        told = self.calibration
        own_s, own = told.gap(sequences, words, layers, is_long, has_experts)
        host_s, weighed = engine.waits(sequences, layers, ranks)
        if engine.name == told.engine:
            # Its waiting is in the calibration.
            host_s, weighed = 0.0 * host_s, 0.0 * weighed
        if given_s is not None:
            own_s = np.minimum(own_s, given_s)
            share = weighed / np.where(host_s > 0, host_s, 1.0)
            host_s = given_s - own_s
            weighed = share * host_s
        above_j = told.span_w(self.device.sheet) * (own + weighed)
        return np.stack([above_j * tree.spec.gpus, own_s + host_s])

    def _within_limit(self, tree: ModelTree, own: OwnCosts) -> Floats:
        """By which factor the power limit lowers what each row takes above idle.

        The limit holds for the whole, and for prefill and decode by themselves; passes
        were measured under it.
        """
        if not is_serving_tree(tree):
            return np.ones(len(tree))
        sheet, times = self.device.sheet, tree.multiplicity
        part = np.zeros(len(tree), dtype=np.intp)
        if tree.spec is not None and tree.spec.phase == "generate":
            for place, child in enumerate(tree.root.children):
                part[child.row :] = place
        above_j = np.bincount(part, own.joules * times)
        all_s = np.bincount(part, own.static_j * times) / sheet.idle_w
        most_j = self.calibration.span_w(sheet) * all_s
        told = self.calibration.limited_j(above_j.sum(), all_s.sum(), sheet)
        left_j = told - sheet.idle_w * all_s.sum()
        factors, is_free = np.zeros(len(above_j)), above_j > 0
        for _ in above_j:
            factors[is_free] = left_j / max(above_j[is_free].sum(), 1e-300)
            is_full = is_free & (factors * above_j > most_j)
            factors[is_full] = most_j[is_full] / above_j[is_full]
            left_j = left_j - most_j[is_full].sum()
            is_free &= ~is_full
        return factors[part]

    def _limited(
        self, tree: ModelTree, nodes: NodeOps, own: OwnCosts, is_timed: bool
    ) -> OwnCosts:
        """With idle power, and within the limit of the boards.

        No limit changes the time of steps where that was measured.
        """
        factors = self._within_limit(tree, own)
        sheet, spec = self.device.sheet, tree.spec
        idle_w = sheet.idle_w
        limit_w = sheet.checked_limit_w(spec.power_limit_w if spec else None)
        joules = own.static_j + own.joules * factors
        each_j = own.each_s * idle_w + own.each_j * factors[nodes.rows]
        gpus = spec.gpus if spec else 1
        time_s = (own.time_s * tree.multiplicity).sum() * gpus
        whole = np.array([(joules * tree.multiplicity).sum(), time_s])
        within = np.array(held(whole[0], whole[1], idle_w, limit_w))
        held_j, held_s = within / np.maximum(whole, 1e-300)
        if is_timed:
            held_j, held_s = held_j / held_s, 1.0
        return OwnCosts(
            joules * held_j, each_j * held_j, own.each_s * held_s, own.time_s * held_s,
            own.static_j * held_s,
        )  # fmt: skip

    def _composed(
        self, tree: ModelTree, own: OwnCosts, width: Floats, causes: list[Beyond]
    ) -> ModelTree:
        """Sums up the tree, with intervals of energy; what makes them wider is said."""
        each = np.column_stack([own.joules, own.time_s, own.static_j])
        sums = tree.columns.inclusive(each, tree.structure.levels)
        features = {**tree.features, "time_s": sums[:, 1], "static_j": sums[:, 2]}
        name, hardware = self.device.name, self.hardware
        if tree.spec is not None and tree.spec.at is not None:
            covers = "wall" if tree.spec.at == "wall" else "gpu-board"
            hardware = replace(hardware, covers=covers)
        errors = shared_errors(tree, name, float(width[0]), causes, self.engine)
        told = tree.with_features(features).with_predicted(
            *(sums[:, 0], with_beyond(width, causes), hardware, "kernels"), errors
        )
        said = [c for c in worth_saying(width, causes) if c.cause != ELSEWHERE]
        return told.with_notes(*(c.note() for c in said))


def _root(tree: ModelTree, value: float) -> Floats:
    """A feature that the whole alone has."""
    return np.append(value, np.full(len(tree) - 1, np.nan))
