"""A template from traces: fitted at a few sizes, proved by equality at further ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from torch import nn

from irene.errors import IreneError, NoAttentionError, TraceError
from irene.spec import RunSpec
from irene.trace.inputs import make_inputs
from irene.trace.models import Resolved, build
from irene.trace.positions import Reach, reach_of
from irene.trace.sources import quiet
from irene.trace.templates.fewer_layers import FewerLayers
from irene.trace.templates.fitting import (
    FIRST,
    Box,
    Fit,
    NoTemplateError,
    Seen,
    look,
    points_in,
    telling,
)
from irene.trace.templates.piece import Basis, Piece, Sizes, is_within
from irene.trace.templates.template import AXES, MOST_TOKENS, Template, in_dtype
from irene.trace.tracer import run_recorded
from irene.tree import ModelTree

LONGEST = 1 << 17
"""Length up to which a model without a limit is tried."""
SMALLEST = 2
"""Batch and lengths of 1 have structures of their own."""
MOST_PIECES = 6
"""For batches, but for single lengths; as many again for a batch of 1."""
FURTHER = 4
"""Times the longest length of a fit at which it is looked at before the last of all."""
BATCHES = (1, 2, 4, 8)
"""Those that have pieces of their own where inputs are gone through one by one."""
LENGTHS = (32, 64, 128, 256)
"""Those that have pieces of their own, for all batches, where no other piece has."""
FAR = (41, 83, 167, 331)
"""Above the smallest size, where functions beside monomials may differ at last."""
REBUILT = "set_attention_type"
"""A model with such a method changes for good when a short input comes."""
CHANGES_AT = ("window", "chunk", "block", "position", "length")
"""Words of config fields at whose values a structure may change."""


@quiet()
def make_template(resolved: Resolved, spec: RunSpec) -> Template:
    """Find the trees of a model as a function of the sizes of a run, and prove it.

    Args:
        resolved: The model.
        spec: Phase, attention and dtype; its sizes do not matter, but for whether
            there is a context.

    Raises:
        NoTemplateError: There is no such function, or it did not hold.
    """
    try:
        try:
            return _Prober(resolved, spec, fewer=True).template()
        except NoTemplateError:
            raise  # with all its layers, too
        except IreneError:
            return _Prober(resolved, spec, fewer=False).template()
    except IreneError as error:
        raise NoTemplateError(str(error)) from error


def is_renamed(resolved: Resolved, spec: RunSpec, template: Template) -> bool:
    """Whether a run has a template's trees but for the name of its dtype.

    Both dtypes are traced with fewer layers, at sizes of every piece.

    Args:
        resolved: The model.
        spec: The run in the other dtype.
        template: Of the same run in `bf16`.
    """
    known = _Prober(resolved, replace(spec, dtype="bf16"), fewer=True)
    other = _Prober(resolved, spec, fewer=True)
    if (template.axes, template.reach) != (other.axes, other.reach):
        return False
    for piece in template.pieces:
        near = {a: min(low + 5, high) for a, (low, high) in piece.where.items()}
        far = {a: high for a, (_, high) in piece.where.items() if a != "b"}
        for sizes in (near, {"b": piece.where["b"][0], **far}):
            mine = look(in_dtype(known.trace(sizes), "bf16", spec.dtype))
            if not mine.is_as(look(other.trace(sizes))):
                return False
    return True


class _Prober:
    """Traces one model at many sizes."""

    def __init__(self, resolved: Resolved, spec: RunSpec, fewer: bool) -> None:
        self.resolved = resolved
        self.model, self.spec = _built(resolved, spec)
        self.reach = reach_of(self.model)
        self.axes = _axes(spec, self.reach)
        self.model_class = type(self.model).__name__
        self.fewer = self._with_fewer() if fewer else None
        self._seen: dict[tuple[int, ...], Seen] = {}
        self._is_changed_by_runs = hasattr(self.model, REBUILT)
        self._is_changed_by_runs |= self._remembers()
        if self.axes == "b" and self._follows_length():
            self.axes = "bs"

    def _remembers(self) -> bool:
        """Whether a second run of the model is another: it keeps what it computed."""
        sizes = dict.fromkeys(self.axes, SMALLEST + FIRST[0]) | {"b": SMALLEST}
        with suppress(IreneError):
            return not self.see(sizes).is_as(look(self.trace(sizes)))
        return False

    def _follows_length(self) -> bool:
        """Whether a model without tokens has inputs whose size is the run's length."""
        with suppress(IreneError):  # the longer one goes too far
            one, other = (look(self.trace({"b": 2, "s": n})) for n in (61, 130))
            return not one.is_as(other)
        return True

    def _with_fewer(self) -> FewerLayers:
        return FewerLayers(self.model, keep_last=self.spec.phase == "train")

    def template(self) -> Template:
        """The function, as far as it holds."""
        pieces = self._pieces()
        if self.fewer:
            self._prove_whole(pieces)
        kind, attention = self.model_class, self.spec.attention
        return Template(
            self.resolved.digest, kind, attention, self.reach, self.axes, pieces
        )

    def _prove_whole(self, pieces: Sequence[Piece]) -> None:
        """Compare every piece with a trace of the model with all its layers."""
        model, _ = _built(self.resolved, self.spec)
        for piece in pieces:
            ends = enumerate(piece.where.items())
            sizes = {a: min(low + 7 + i, high) for i, (a, (low, high)) in ends}
            most = MOST_TOKENS // max(sum(sizes.values()) - sizes["b"], 1)
            sizes["b"] = max(min(sizes["b"], most), piece.where["b"][0])
            if self._is_changed_by_runs:
                model, _ = _built(self.resolved, self.spec)
            traced = look(_traced(model, self.spec, sizes, self.reach))
            found = piece.at(sizes)
            if found is None or not look(found.unfold()).is_as(traced):
                raise TraceError("layers that are built alike do not run alike", "")

    def see(self, sizes: Sizes) -> Seen:
        key = tuple(sizes[axis] for axis in self.axes)
        if key not in self._seen:
            self._seen[key] = look(self.trace(sizes))
        return self._seen[key]

    def trace(self, sizes: Sizes) -> ModelTree:
        if self._is_changed_by_runs:
            self._build_anew()
        return _traced(self.model, self.spec, sizes, self.reach)

    def _build_anew(self) -> None:
        self.model, _ = _built(self.resolved, self.spec)
        self.fewer = self._with_fewer() if self.fewer else None

    # Pieces -------------------------------------------------------------------

    def _pieces(self) -> tuple[Piece, ...]:
        found = self._fits()
        if not self._is_changed_by_runs and not all(map(self._holds_anew, found)):
            self._is_changed_by_runs = True  # as by a long one: a table that grew
            self._seen.clear()
            found = self._fits()
        return tuple(fit.piece(self.fewer) for fit in found)

    def _fits(self) -> list[Fit]:
        for axis, (low, high) in self._whole_box().items():
            if low > high:
                raise NoTemplateError(f"no room for a {AXES[axis]} of {low} and more")
        found: list[Fit] = []
        problem = None
        try:
            self._cover(self._whole_box(), found)
        except IreneError as error:
            problem = error
            for batch in BATCHES:
                box = {
                    axis: (low, min(high, MOST_TOKENS // batch))
                    for axis, (low, high) in self._whole_box().items()
                }
                self._cover_rest({**box, "b": (batch, batch)}, found)
        for length in LENGTHS:
            self._cover_length(length, found)
        if problem and not found:
            raise problem
        for fit in found:
            if not self._take_in_single(fit):
                self._cover({**fit.where, "b": (1, 1)}, found)
        return found

    def _whole_box(self) -> Box:
        longest = min(self.reach.limit or LONGEST, LONGEST)
        if self.spec.phase == "decode":
            longest -= 1
        box = dict.fromkeys(self.axes, (SMALLEST, longest))
        if "c" in self.axes and "s" in self.axes and self.reach.limit:
            box |= dict.fromkeys("sc", (SMALLEST, longest // 2))
        return {**box, "b": (SMALLEST, MOST_TOKENS)}

    def _cover(self, box: Box, found: list[Fit]) -> None:
        """Add pieces until a box is full, or no more is known of it."""
        fit = self._fit(box)
        rest: list[Box] = []
        for axis in self.axes[1:]:
            low, high = box[axis]
            at = [point[axis] for point in fit.points]
            further = FURTHER * max(at)
            first = 1 + self._end(fit, axis, min(at), (low,), low - 1)
            last = -1 + self._end(fit, axis, max(at), (further, high), high + 1)
            parts = ((last + 1, high), (low, first - 1))
            rest += [{**fit.where, axis: part} for part in parts if part[0] <= part[1]]
            fit.where[axis] = (first, last)
        self._prove_far(fit)
        found.append(fit)
        for each in rest:
            if sum(fit.where["b"][0] == box["b"][0] for fit in found) < MOST_PIECES:
                self._cover_rest(each, found)

    def _end(
        self, fit: Fit, axis: str, good: int, lengths: Sequence[int], beyond: int
    ) -> int:
        """The first length at which a fit does not hold, on the way to the last."""
        for length in lengths:
            if min(good, beyond) < length < max(good, beyond):
                if not self._agrees(fit, axis, length):
                    return self._bisect(fit, axis, good, length)
                good = length
        return beyond

    def _cover_rest(self, box: Box, found: list[Fit]) -> None:
        with suppress(IreneError):  # what is longer is traced, or cannot run
            self._cover(box, found)

    def _cover_length(self, length: int, found: list[Fit]) -> None:
        """Add a piece for all batches of one length, unless one holds there."""
        box = self._whole_box()
        lengths = dict.fromkeys(self.axes[1:], length)
        sizes = {"b": SMALLEST, **lengths}
        is_known = any(is_within(sizes, fit.where) for fit in found)
        if lengths and is_within(sizes, box) and not is_known:
            alone = dict.fromkeys(lengths, (length, length))
            self._cover_rest({"b": box["b"], **alone}, found)

    def _prove_far(self, fit: Fit) -> None:
        """At sizes that are far from those of the fit in all directions at once."""
        lengths = {a: high for a, (_, high) in fit.where.items() if a != "b"}
        most = MOST_TOKENS // max(sum(lengths.values()), 1)
        low, high = fit.where["b"]
        batch = low if low == high else max(2, min(97, most))
        for part, step in ((1, 1), (3, 1), (2, 64)):
            sizes = {
                a: max(n // part // step * step, fit.where[a][0])
                for a, n in lengths.items()
            }
            if not self._holds(fit, {"b": max(batch - part + 1, low), **sizes}):
                raise NoTemplateError(f"it does not hold at {sizes}")

    def _agrees(self, fit: Fit, axis: str, length: int) -> bool:
        return self._holds(fit, {**fit.points[0], axis: length})

    def _holds(self, fit: Fit, sizes: Sizes) -> bool:
        try:
            return fit.agrees(self.see(sizes), sizes)
        except IreneError:  # it cannot run at that size
            return False

    def _holds_anew(self, fit: Fit) -> bool:
        """Whether a model that never ran is what a fit says."""
        self._build_anew()
        return fit.agrees(look(self.trace(fit.points[0])), fit.points[0])

    def _bisect(self, fit: Fit, axis: str, good: int, bad: int) -> int:
        """The first length at which a fit does not hold, from a good to a bad one."""
        tried = [bad + (1 if bad < good else -1), *self._guesses()]
        while abs(bad - good) > 1:
            length = tried.pop(0) if tried else (good + bad) // 2
            if not min(good, bad) < length < max(good, bad):
                continue
            if self._agrees(fit, axis, length):
                good = length
            else:
                bad = length
        return bad

    def _guesses(self) -> list[int]:
        """Lengths that the config names, and those beside them."""
        named = {
            value
            for field, value in self.resolved.config.to_dict().items()
            if type(value) is int and any(word in field for word in CHANGES_AT)
        }
        return sorted({n + i for n in named for i in (-1, 0, 1)})

    # Fits ---------------------------------------------------------------------

    def _fit(self, box: Box) -> Fit:
        basis = Basis(self.axes)
        points = list(points_in(box, self.axes))
        fit = Fit(dict(box), basis, points, [self.see(p) for p in points])
        least = {axis: low for axis, (low, _) in box.items()}
        # Where the fewest tokens reach every expert, all do.
        hits = tuple(
            h for h in fit.hits() if Basis(self.axes, (h,)).at(least)[-1] != h[1]
        )
        if hits:
            basis = Basis(self.axes, hits)
            points = telling(points, self._beside(box, points[-1], len(hits)), basis)
            seen = [self.see(p) for p in points]
            fit = Fit(dict(box), basis, points, seen)
        fit.solve()
        return fit

    def _beside(self, box: Box, last: Sizes, count: int) -> Iterator[dict[str, int]]:
        """Further sizes of a box, at which functions beside monomials may differ.

        So many that all pair up; so few tokens that not every expert gets one; so many
        that another side is the longest.
        """
        least = {axis: low for axis, (low, _) in box.items()}
        free = [axis for axis, (low, high) in box.items() if low != high]
        if "b" in free:
            yield {**last, "b": least["b"] + 5}
        if free:
            is_decode = self.spec.phase == "decode" and "b" in free
            axis = "b" if is_decode else free[-1]
            near = range(7 * (axis == "b"), count + 7)
            for step in (*near, *FAR):
                if least[axis] + step <= box[axis][1]:
                    yield {**least, axis: least[axis] + step}

    def _take_in_single(self, fit: Fit) -> bool:
        """Whether a piece holds for a batch of 1 as well, which then it does."""
        points = [{**p, "b": 1} for p in fit.points if p["b"] == fit.points[0]["b"]]
        if fit.where["b"][0] != SMALLEST or fit.where["b"][1] == SMALLEST:
            return True
        if not all(self._holds(fit, sizes) for sizes in points):
            return False
        fit.where["b"] = (1, fit.where["b"][1])
        return True


def _axes(spec: RunSpec, reach: Reach) -> str:
    """Letters of the sizes that count in a phase."""
    if not reach.reads_tokens:
        return "b"
    if spec.phase == "decode":
        return "bsc" if reach.has_decoder else "bc"
    axes = "bsd" if reach.has_decoder else "bs"
    return f"{axes}c" if spec.context_len else axes


def _built(resolved: Resolved, spec: RunSpec) -> tuple[nn.Module, RunSpec]:
    try:
        return build(resolved, spec), spec
    except NoAttentionError:
        if spec.attention == "eager":
            raise
        spec = replace(spec, attention="eager")
        return build(resolved, spec), spec


def _traced(model: nn.Module, spec: RunSpec, sizes: Sizes, reach: Reach) -> ModelTree:
    values: Mapping[str, Any] = {
        "batch_size": sizes["b"],
        "seq_len": sizes.get("s", 128),
        "decoder_len": sizes.get("d"),
        "context_len": sizes.get("c"),
    }
    run = replace(spec, **values, chosen=())
    inputs = make_inputs(model, reach.fit(run), "meta")
    try:
        return run_recorded(model, inputs, run, {}, inputs.notes, "meta")
    except IreneError:
        raise
    except Exception as error:  # it looks at its data
        raise TraceError(str(error), "") from error
