"""A machine that learned itself: time and energy of nodes, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from irene.arrays import Floats
from irene.energy import SharedError
from irene.hardware import Hardware
from irene.predict.intervals import BEYOND, Beyond, with_beyond
from irene.predict.machines.learned.time_fit import TimeModel, is_product
from irene.predict.machines.learned.timed_op import (
    TimedOp,
    TimedWork,
    coldness,
    timed_work,
)
from irene.predict.machines.memory_fit import with_fit
from irene.predict.machines.predictor import OfRuns
from irene.predict.machines.specs.work import refuse_cut
from irene.saved import (
    checked_content,
    digest_of,
    fields_of,
    read_values,
)
from irene.tree import KINDS, ModelTree

LEARNED_SCHEMA = "irene.learned-machine/1"
WORTH_SAYING = 0.02
FAR = 0.7
"""Sizes further outside than this factor's logarithm count as never measured."""
APART = 4.0
"""How fast errors of two runs part with the share of their time that is not in the same
ops, an assumption: with none in common, of which blocks left out tell, e⁻⁴ is left."""
UNKNOWN_WIDTH = math.log(3.0)
"""Half the interval of time that nobody measured, in log units."""


@dataclass(frozen=True, slots=True)
class LearnedMachine(OfRuns):
    """Time and energy of every node of a tree on a machine that learned itself.

    Attributes:
        hardware: The machine.
        model: Time of its ops, and its power.
        widths: By level, times, s, and half-widths there of 90 % intervals of time,
            in log units: what takes long is known better.
        power_width: The same of its power: what the meter is uncertain of.
        provenance: Meter, date, software, surroundings, exam, held-out errors.
        digest: SHA-256 of all of it.
    """

    hardware: Hardware
    model: TimeModel
    widths: Mapping[str, Floats]
    power_width: float
    provenance: Mapping[str, Any]
    digest: str = field(init=False, default="")

    schema: ClassVar = LEARNED_SCHEMA

    def __post_init__(self) -> None:
        """Refuse widths of no times, and name the content."""
        for knots in self.widths.values():
            if knots.ndim != 2 or len(knots) != 2 or not (knots > 0).all():
                raise ValueError("times and widths are expected")
        object.__setattr__(self, "digest", digest_of(self.content()))
        named = f"{self.hardware.name} {self.digest[:8]}"
        object.__setattr__(self, "hardware", replace(self.hardware, predictor=named))

    def predict(self, tree: ModelTree, step_s: float | None = None) -> ModelTree:
        """The same tree carrying predicted energies, and times as features.

        Parts add up: a node's energy is what it takes inside this run.
        """
        refuse_cut(tree)
        work = timed_work(tree)
        cold = np.full(len(work.ops), float(coldness(work.footprint_mib)))
        each_s = self.model.unwatched_s(work.ops, cold)
        calls_s = work.calls @ self.model.calls_s
        calls_s[0] += self.model.run_s
        product = np.array([is_product(op) for op in work.ops], bool)
        times = np.column_stack(
            [
                work.counts @ (each_s * product),
                work.counts @ (each_s * ~product),
                calls_s,
            ]
        )
        seconds = times.sum(axis=1)
        unknown, notes = self._doubts(work, each_s, float(seconds[0]))
        rough = (work.counts @ (each_s * unknown)) / np.maximum(seconds, 1e-12)
        width = np.hypot(self._widths(tree, seconds), rough * UNKNOWN_WIDTH)
        causes = []
        if tree.spec is not None and tree.spec.phase == "train":
            words = "of training, which was never measured on this machine"
            far = np.full(len(tree), BEYOND["phase"])
            causes = [Beyond("phase train", words, far, 1.0, is_assumed=True)]
        place = self._place(work, each_s, float(seconds[0]), float(width[0]))
        # Of the same ops the same is wrong, and so is one power of all runs.
        name = self.hardware.name
        shared = [
            SharedError(f"ops of {name}", float(width[0]), place),
            SharedError(f"power of {name}", self.power_width),
            *(SharedError(f"{c.cause} on {name}", c.width) for c in causes),
        ]
        width = with_beyond(width, causes)
        spread = np.full(len(tree), np.nan)
        spread[0] = math.exp(width[0])
        features = {**tree.features, "time_s": seconds, "time_spread": spread}
        size_bytes = self.provenance.get("memory_bytes")
        carrying = with_fit(tree.with_features(features), size_bytes).with_notes(
            *(each.note() for each in causes),
            *(*notes, *self.provenance.get("caveats", ())),
        )
        both = np.hypot(width, self.power_width)
        joules = times @ self.model.watts
        return carrying.with_predicted(joules, both, self.hardware, "timed ops", shared)

    @staticmethod
    def _place(
        work: TimedWork, each_s: Floats, total_s: float, width: float
    ) -> dict[str, float]:
        """Where a run is among others: by the part of its time in each of its ops."""
        times_s = (work.counts[0] * each_s).tolist()
        calls = "calls", total_s - sum(times_s)
        named = [
            (op.kind, *op.sizes, s) for op, s in zip(work.ops, times_s, strict=True)
        ]
        place: dict[str, float] = {}
        for *words, taken_s in (*named, calls):
            name = " ".join(map(str, words))
            at = APART * width**2 * taken_s / max(total_s, 1e-12)
            place[name] = place.get(name, 0.0) + at
        return place

    def _widths(self, tree: ModelTree, seconds: Floats) -> Floats:
        width = np.zeros(len(tree))
        for place, kind in enumerate(KINDS):
            rows = tree.columns.kind == place
            level = "ml" if kind == "math" else kind
            width[rows] = self.width(level, seconds[rows])
        return width

    def width(self, level: str, seconds: npt.ArrayLike) -> Floats:
        """Half-width of the interval of something that takes so long, in log units."""
        at, widths = self.widths[level]
        found: Floats = np.interp(np.log(np.maximum(seconds, 1e-9)), np.log(at), widths)
        return found

    def _doubts(
        self, work: TimedWork, each_s: Floats, total_s: float
    ) -> tuple[Floats, list[str]]:
        """Which ops nobody measured, and what to say about them."""
        taken_s = work.counts[0] * each_s / max(total_s, 1e-12)
        unmeasured = np.array([not self.model.is_measured(op) for op in work.ops], bool)
        far = self._far(work.ops) & ~unmeasured
        notes = []
        for which, words in ((unmeasured, "kinds of ops"), (far, "sizes")):
            share = float(taken_s[which].sum())
            if share > WORTH_SAYING:
                slowest = sorted(np.flatnonzero(which), key=lambda i: -taken_s[i])
                kinds = dict.fromkeys(work.ops[int(i)].kind for i in slowest)
                notes.append(
                    f"extrapolation: {share:.0%} of the time is of {words} that were "
                    f"never measured here: {', '.join([*kinds][:3])}"
                )
        return (unmeasured | far).astype(float), notes

    def _far(self, ops: Sequence[TimedOp]) -> Any:
        far = np.zeros(len(ops), bool)
        for place, op in enumerate(ops):
            known = self.model.ops.get(op.kind)
            if known is not None:
                far[place] = bool(known.is_beyond([op])[0] > FAR)
        return far

    def content(self) -> dict[str, Any]:
        """Everything that its digest names: not the name that it has from that."""
        content = OfRuns.content(self)
        del content["hardware"]["predictor"]
        return content

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> LearnedMachine:
        """Read what `to_dict` wrote.

        Raises:
            FormatError: It is not such a machine, is damaged, or of a newer version.
        """
        content = checked_content(fields, LEARNED_SCHEMA, digest_of, "machine")
        with fields_of("not a learned machine"):
            return read_values(cls, content)
