"""The one place where the tree of a run is got: from a template, or by a trace."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import FormatError, UsageError
from irene.spec import RunSpec
from irene.trace.limits import (
    DEFAULT_LIMITS,
    Limits,
    checked_run,
    limits_from_environment,
)
from irene.trace.model_files import onnx_path
from irene.trace.onnx_graph import trace_onnx
from irene.trace.sources import Changed, Source, config_key, locate
from irene.trace.templates.keeping import (
    LOADED,
    Kept,
    changes_in_words,
    shipped,
    versions,
)
from irene.trace.templates.template import Template, sizes_of
from irene.trace.twins import find_config
from irene.tree import ModelTree

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    Given = str | Path | PretrainedConfig | Changed

log = logging.getLogger(__name__)
_MAY_TRACE: ContextVar[bool] = ContextVar("may_trace", default=True)


class TraceNeededError(Exception):
    """Only a trace can tell, and there is no time for one."""


@contextmanager
def at_once_alone() -> Iterator[None]:
    """Within it nothing is traced: where `tree_of_run` would, it raises instead."""
    token = _MAY_TRACE.set(False)
    try:
        yield
    finally:
        _MAY_TRACE.reset(token)


def tree_of_run(
    spec: RunSpec,
    *,
    limits: Limits | None = None,
    source: Given | None = None,
    device: str = "meta",
) -> ModelTree:
    """The folded tree of a run: at once where its template is known, else traced.

    Both are equal. The template of a config that is asked for again is made and kept.

    Args:
        spec: The run.
        limits: What is refused; by default `DEFAULT_LIMITS`.
        source: The config, where the spec's model is only its name.
        device: Where to run; `meta` for shapes alone.

    Raises:
        UsageError: The model is unknown, or a size or setting is impossible.
    """
    if (path := onnx_path(spec.model if source is None else source)) is not None:
        checked_run(spec, limits)
        return trace_onnx(path, spec)
    if device == "meta":
        tree = tree_from_template(spec, limits=limits, source=source)
        if tree is not None:
            return tree
        if not _MAY_TRACE.get():
            raise TraceNeededError(spec.model)
        log.info("%s: no template for this size, it is traced", spec.model)
    from irene.trace.tracer import trace_spec

    real = source.make() if isinstance(source, Changed) else source
    return trace_spec(spec, limits=limits, source=real, device=device).fold()


def tree_from_template(
    spec: RunSpec,
    *,
    limits: Limits | None = None,
    source: Given | None = None,
    make: bool = False,
) -> ModelTree | None:
    """The folded tree of a run by its template; None where only a trace can tell.

    Args:
        spec: The run.
        limits: What is refused.
        source: The config, where the spec's model is only its name.
        make: Make the template if there is none, however often it was asked for.
    """
    limits = checked_run(spec, limits)
    if _costs_are_changed():
        return None
    found = _source(spec, source, limits)
    if found.entry is None or found.changes or limits != DEFAULT_LIMITS:
        limits.check_config({**found.read(limits), **found.changes})
    template = _template(found, spec, spec.model if source is None else source, make)
    if template is None or not _is_that_attention(template, spec):
        return None
    template.check()
    if template.attention != spec.attention:
        spec = spec.chosen_as(attention=template.attention)
    named = replace(spec, model=found.name, config_digest=template.config_digest)
    named = template.reach.fit(named)
    sizes = sizes_of(named, template.axes)
    piece = template.piece(sizes)
    if piece is None:
        return None
    provenance = {"config": found.origin, "device": "meta"}
    provenance |= {"class": template.model_class, **versions()}
    notes = (*template.reach.notes(named), *piece.skeleton.notes)
    return piece.at(sizes, spec=named, provenance=provenance, notes=notes)


def is_at_once(spec: RunSpec) -> bool:
    """Whether the tree of a run, or why there is none, is known without a trace.

    Args:
        spec: A run of a model of the catalogue.
    """
    source = locate(spec.model)
    if source.entry is None or _costs_are_changed():
        return False
    template = shipped(source.entry.name, config_key(source), variant_of(spec, source))
    if template is None or not _is_that_attention(template, spec):
        return False
    try:
        template.check()
        fitted = template.reach.fit(spec)
    except UsageError:
        return True
    return template.piece(sizes_of(fitted, template.axes)) is not None


def _is_that_attention(template: Template, spec: RunSpec) -> bool:
    return template.attention == spec.attention or not spec.given("attention")


def _costs_are_changed() -> bool:
    """Whether somebody put formulas of their own into the table of costs."""
    table = sys.modules.get("irene.trace.costs.cost_table")
    return table is not None and bool(table.is_changed())


def _source(spec: RunSpec, source: Given | None, limits: Limits) -> Source:
    if isinstance(source, Changed):
        found = _source(spec, source.model, limits)
        return replace(found, origin="a config object", changes=source.changes)
    if source is None or isinstance(source, str | Path):
        return find_config(spec.model if source is None else source, limits)
    name = getattr(source, "_name_or_path", "") or source.model_type
    return Source(name, "a config object", fields=source.to_dict())


def variant_of(spec: RunSpec, source: Source) -> str:
    """Phase, attention and dtype, then what else was chosen than is usual.

    A prompt after a context is a phase of its own.
    """
    after = "+context" if spec.phase == "prefill" and spec.context_len else ""
    changes = dict(source.changes)
    if spec.model_class not in (None, source.usual_class):
        changes["model_class"] = spec.model_class
    run = f"{spec.phase}{after}/{spec.attention}/{spec.dtype}"
    return run + changes_in_words(changes)


def _template(source: Source, spec: RunSpec, model: Any, make: bool) -> Template | None:
    """The template of a config and a run; one that was asked for before is made."""
    key, variant = config_key(source), variant_of(spec, source)
    if source.entry is not None:
        found = shipped(source.entry.name, key, variant)
        if found is not None:
            return found
    name = hashlib.sha256(f"{key}/{variant}".encode()).hexdigest()[:32]
    if name not in _MADE:
        if not _MAY_TRACE.get():
            return None
        kept = Kept(name)
        known = kept.read()
        if known is None and name not in _ASKED and not make:
            _ASKED.add(name)
            kept.write({"asked": True})
            return None
        try:
            _MADE[name] = _read(known)
        except FormatError:  # that it was asked for, or nothing of ours
            known = _make(model, spec)
            kept.write(known)
            _MADE[name] = _read(known)
        if len(_MADE) > LOADED:
            _MADE.pop(next(iter(_MADE)))
    return _MADE[name]


_ASKED: set[str] = set()
"""What this process was asked for once: a template is made for who asks again."""
_MADE: dict[str, Template | None] = {}


def _read(known: Any) -> Template | None:
    is_none = isinstance(known, dict) and "none" in known
    return None if is_none else Template.from_dict(known)


def _make(model: Any, spec: RunSpec) -> dict[str, Any]:
    from irene.trace.models import resolve
    from irene.trace.templates.fitting import NoTemplateError
    from irene.trace.templates.making import make_template

    try:
        real = model.make() if isinstance(model, Changed) else model
        resolved = resolve(real, limits_from_environment(), spec.model_class)
        return make_template(resolved, spec).to_dict()
    except NoTemplateError as error:
        log.info("%s: no template: %s", spec.model, error)
        return {"none": str(error)}
