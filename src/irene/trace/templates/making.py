"""A template from traces: fitted at a few sizes, proved by equality at further ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from irene.errors import IreneError, NoAttentionError, TraceError
from irene.spec import RunSpec
from irene.trace.inputs import make_inputs
from irene.trace.models import Resolved, build
from irene.trace.positions import Reach, reach_of
from irene.trace.templates.fewer_layers import FewerLayers
from irene.trace.templates.fitting import (
    SQUARE,
    Box,
    Fit,
    NoTemplateError,
    Seen,
    look,
    points_in,
)
from irene.trace.templates.template import (
    AXES,
    MOST_TOKENS,
    Basis,
    Piece,
    Sizes,
    Template,
    in_dtype,
)
from irene.trace.tracer import run_recorded
from irene.tree import ModelTree

LONGEST = 1 << 17
"""Length up to which a model without a limit is tried."""
SMALLEST = 2
"""Batch and lengths of 1 have structures of their own."""
MOST_PIECES = 4
"""For batches; as many again for a batch of 1."""
REBUILT = "set_attention_type"
"""A model with such a method changes for good when a short input comes."""
CHANGES_AT = ("window", "chunk", "block", "position", "length")
"""Words of config fields at whose values a structure may change."""


def make_template(resolved: Resolved, spec: RunSpec, whole: bool = True) -> Template:
    """Find the trees of a model as a function of the sizes of a run, and prove it.

    Args:
        resolved: The model.
        spec: Phase, attention and dtype; its sizes do not matter, but for whether
            there is a context.
        whole: Prove it also on the model with all its layers.

    Raises:
        NoTemplateError: There is no such function, or it did not hold.
    """
    digest = resolved.digest  # before building writes into the config
    try:
        try:
            return _made(_Prober(resolved, spec, fewer=True), digest, whole)
        except IreneError:
            return _made(_Prober(resolved, spec, fewer=False), digest, whole)
    except IreneError as error:
        raise NoTemplateError(str(error)) from error


def _made(prober: _Prober, digest: str, whole: bool) -> Template:
    template = prober.template(digest)
    if whole:
        prober.prove_whole(template)
    return template


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
            its = look(other.trace(sizes))
            if mine.structure != its.structure or (mine.numbers != its.numbers).any():
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
        if self.axes == "b" and self._follows_length():
            self.axes = "bs"

    def _follows_length(self) -> bool:
        """Whether a model without tokens has inputs whose size is the run's length."""
        one, other = (look(self.trace({"b": 2, "s": n})) for n in (61, 64))
        same = one.structure == other.structure
        return not same or bool((one.numbers != other.numbers).any())

    def _with_fewer(self) -> FewerLayers:
        return FewerLayers(self.model, keep_last=self.spec.phase == "train")

    def template(self, digest: str) -> Template:
        """The function, as far as it holds."""
        return Template(
            digest,
            self.model_class,
            self.spec.attention,
            self.reach,
            self.axes,
            tuple(self._pieces()),
        )

    def prove_whole(self, template: Template) -> None:
        """Compare with a trace of the model with all its layers."""
        if not self.fewer:
            return
        piece = template.pieces[0]
        sizes = {axis: piece.where[axis][0] + 7 + i for i, axis in enumerate(self.axes)}
        sizes = {a: min(n, piece.where[a][1]) for a, n in sizes.items()}
        model, _ = _built(self.resolved, self.spec)
        traced = _traced(model, self.spec, sizes, self.reach)
        found = piece.at(sizes)
        if found is None or found.unsupported != traced.unsupported:
            raise NoTemplateError("ops without a formula differ by layer")
        mine, its = look(found), look(traced)
        if mine.structure != its.structure or (mine.numbers != its.numbers).any():
            raise NoTemplateError("layers that are built alike do not run alike")

    def see(self, sizes: Sizes) -> Seen:
        key = tuple(sizes[axis] for axis in self.axes)
        if key not in self._seen:
            self._seen[key] = look(self.trace(sizes))
        return self._seen[key]

    def trace(self, sizes: Sizes) -> ModelTree:
        if hasattr(self.model, REBUILT):
            self.model, _ = _built(self.resolved, self.spec)
            self.fewer = self._with_fewer() if self.fewer else None
        return _traced(self.model, self.spec, sizes, self.reach)

    # Pieces -------------------------------------------------------------------

    def _pieces(self) -> Iterator[Piece]:
        for axis, (low, high) in self._whole_box().items():
            if low > high:
                raise NoTemplateError(f"no room for a {AXES[axis]} of {low} and more")
        found: list[Fit] = []
        self._cover(self._whole_box(), found)
        for fit in found:
            if not self._take_in_single(fit):
                self._cover({**fit.where, "b": (1, 1)}, found)
        for fit in found:
            yield fit.piece(self.fewer)

    def _whole_box(self) -> Box:
        box = {"b": (SMALLEST, MOST_TOKENS)}
        longest = min(self.reach.limit or LONGEST, LONGEST)
        if self.spec.phase == "decode":
            longest -= 1
        for axis in self.axes[1:]:
            box[axis] = (SMALLEST, longest)
        if "c" in self.axes and "s" in self.axes and self.reach.limit:
            box = {
                a: (low, high // 2 if a in "sc" else high)
                for a, (low, high) in box.items()
            }
        return box

    def _cover(self, box: Box, found: list[Fit]) -> None:
        """Add pieces until a box is full, or no more is known of it."""
        if sum(fit.where["b"][0] == box["b"][0] for fit in found) >= MOST_PIECES:
            return
        fit = self._fit(box)
        for axis in self.axes[1:]:
            good = max(p[axis] for p in fit.points)
            for length in dict.fromkeys((box[axis][0], box[axis][1])):
                if self._agrees(fit, axis, length):
                    good = max(good, length)
                    continue
                if length < good:  # what is shorter is traced
                    shortest = min(p[axis] for p in fit.points)
                    if length == shortest:
                        raise NoTemplateError(f"it differs at {AXES[axis]}={length}")
                    fit.where[axis] = (shortest, fit.where[axis][1])
                    continue
                end = self._bisect(fit, axis, good, length)
                fit.where[axis] = (fit.where[axis][0], end - 1)
                self._prove_far(fit)
                found.append(fit)
                if box["b"] != (1, 1):
                    self._cover_rest({**box, axis: (end, box[axis][1])}, found)
                return
        self._prove_far(fit)
        found.append(fit)

    def _cover_rest(self, box: Box, found: list[Fit]) -> None:
        try:
            self._cover(box, found)
        except IreneError:  # what is longer is traced, or cannot run
            return

    def _prove_far(self, fit: Fit) -> None:
        """At sizes that are far from those of the fit in all directions at once."""
        lengths = {a: high for a, (_, high) in fit.where.items() if a != "b"}
        most = MOST_TOKENS // max(sum(lengths.values()), 1)
        batch = fit.where["b"][0] if fit.where["b"][1] == 1 else max(2, min(97, most))
        for part, step in ((1, 1), (3, 1), (2, 64)):
            sizes = {
                a: max(n // part // step * step, fit.where[a][0])
                for a, n in lengths.items()
            }
            if not self._holds(fit, {"b": batch, **sizes}):
                raise NoTemplateError(f"it does not hold at {sizes}")

    def _agrees(self, fit: Fit, axis: str, length: int) -> bool:
        return self._holds(fit, {**fit.points[0], axis: length})

    def _holds(self, fit: Fit, sizes: Sizes) -> bool:
        try:
            return fit.agrees(self.see(sizes), sizes)
        except IreneError:  # it cannot run at that size
            return False

    def _bisect(self, fit: Fit, axis: str, good: int, bad: int) -> int:
        """The first length at which a fit does not hold."""
        tried = [bad - 1, *self._guesses()]
        while bad - good > 1:
            length = tried.pop(0) if tried else (good + bad) // 2
            if not good < length < bad:
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
        hits = fit.hits()
        if hits:
            # So few tokens that not every expert gets one; so many that all pair up.
            least = {axis: low for axis, (low, _) in box.items()}
            is_decode = self.spec.phase == "decode" and box["b"] != (1, 1)
            axis, step = ("b", 7) if is_decode else (self.axes[-1], 0)
            points += [
                {**points[-1], "b": least["b"] + 5}
                if among == SQUARE
                else {**least, axis: least[axis] + step + i}
                for i, (_, among) in enumerate(hits)
            ]
            seen = [self.see(p) for p in points]
            fit = Fit(dict(box), Basis(self.axes, hits), points, seen)
        fit.solve()
        return fit

    def _take_in_single(self, fit: Fit) -> bool:
        """Whether a piece holds for a batch of 1 as well, which then it does."""
        points = [{**p, "b": 1} for p in fit.points if p["b"] == fit.points[0]["b"]]
        if fit.where["b"][0] != SMALLEST:
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
