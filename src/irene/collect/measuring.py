"""The work of a collection: one run, measured where the task happens to be.

`measure_run` is a pure function of its argument as far as results go; what it keeps on
the machine only saves it from measuring the same node again.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any

from irene.collect.point import Measured, label_of
from irene.collect.shared_nodes import SharedNodes, nodes_path
from irene.dataset.store import Origin
from irene.errors import UsageError
from irene.measure.protocol import MeasureProtocol
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.work.lock import alone_on

__all__ = ["Measuring", "measure_run"]

MOST_NAMED = 3


# On the machine that measures -------------------------------------------------


def measure_run(argument: Mapping[str, Any]) -> bytes:
    """Measure one run; what `Sweep.argument` made says which, and how.

    Args:
        argument: `spec`, `model`, `machine`, `protocol`, `meters`, `exclusive`,
            `device`, `threads`, `nodes`.

    Raises:
        IreneError: It cannot be measured.
    """
    _pin_threads()
    from irene.measure.alone.device import choose_device
    from irene.measure.api import measure

    spec = RunSpec.from_dict(argument["spec"])
    device = choose_device(argument["device"])
    books: list[SharedNodes] = []

    def journal(header: Mapping[str, Any]) -> SharedNodes:
        path = nodes_path(argument["nodes"], header)
        books.append(SharedNodes(path, header, f"{label_of(spec)} ({spec.digest})"))
        return books[0]

    with alone_on(device):
        started, began_s = _now(), time.monotonic()
        tree = measure(
            argument["model"],
            device=device,
            threads=argument["threads"],
            exclusive=argument["exclusive"],
            protocol=MeasureProtocol(**argument["protocol"]),
            meters=argument["meters"],
            name=argument["machine"],
            journal=journal,
            **_sizes(spec, measure),
        )
        duration_s = time.monotonic() - began_s
    tree = _with_shared(tree, books[0].used)
    times = {"started": started, "finished": _now(), "duration_s": duration_s}
    return Measured(tree, Origin.of_tree(tree, **times)).to_bytes()


def _pin_threads() -> None:
    """Keep each thread on a core of its own, before torch makes them."""
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_PROC_BIND", "true")
        os.environ.setdefault("OMP_PLACES", "cores")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _sizes(spec: RunSpec, measure: Any) -> dict[str, Any]:
    """The fields of a spec that a measurement can have.

    Raises:
        UsageError: Another one is set.
    """
    takes = inspect.signature(measure).parameters
    usual = {f.name: f.default for f in fields(RunSpec)}
    sizes: dict[str, Any] = {}
    for field in fields(RunSpec):
        name, value = field.name, getattr(spec, field.name)
        if name in ("model", "config_digest"):
            continue
        if name in takes:
            sizes[name] = value
        elif value != usual[name]:
            raise UsageError(f"a run with {name}={value} cannot be measured yet")
    return sizes


def _with_shared(tree: ModelTree, used: Mapping[str, str]) -> ModelTree:
    """The tree with a note on which nodes were measured in which other run."""
    if not used:
        return tree
    by_run = {
        run: sum(1 for _ in nodes) for run, nodes in groupby(sorted(used.values()))
    }
    runs = ", ".join(f"{count} of {run}" for run, count in by_run.items())
    few = sorted(by_run, key=lambda run: -by_run[run])[:MOST_NAMED]
    more = f" and {len(by_run) - len(few)} more" if len(by_run) > len(few) else ""
    note = (
        f"{len(used)} distinct nodes are shared: they were measured in other runs of "
        f"this collection: {', '.join(few)}{more}"
    )
    told = {**tree.provenance, "shared_nodes": runs}
    return tree.with_provenance(told).with_notes(note)


# On the machine that collects -------------------------------------------------


class Measuring:
    """Measures runs with `irene measure`'s own code."""

    call = "irene.collect.measuring:measure_run"

    def resolve(self, spec: RunSpec) -> RunSpec:
        """The same run with its model's name and the hash of its config.

        Raises:
            IreneError: There is no such model.
        """
        name, digest = _resolved(spec.model)
        return replace(spec, model=name, config_digest=digest)

    def guess_s(
        self, specs: Sequence[RunSpec], protocol: MeasureProtocol, device: str
    ) -> dict[str, float]:
        """Guesses from FLOPs and bytes, between two runs of a kind by their tokens."""
        found: dict[str, float] = {}
        for alike in _alike(specs):
            ends = sorted(alike, key=lambda spec: spec.tokens)
            low, high = ends[0], ends[-1]
            low_s = _planned_s(low, protocol, device)
            high_s = low_s if high is low else _planned_s(high, protocol, device)
            if low_s is None or high_s is None:
                continue
            span = max(1, high.tokens - low.tokens)
            for spec in alike:
                part = (spec.tokens - low.tokens) / span
                found[spec.digest] = low_s + part * (high_s - low_s)
        return found


@lru_cache(maxsize=1024)
def _resolved(model: str) -> tuple[str, str]:
    from irene.trace.limits import limits_from_environment
    from irene.trace.models import resolve

    found = resolve(model, limits_from_environment())
    return found.name, found.digest


def _alike(specs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Runs that differ only in their sizes."""
    groups: dict[str, list[RunSpec]] = {}
    for spec in specs:
        kind = {k: v for k, v in spec.to_dict().items() if not isinstance(v, int)}
        groups.setdefault(json.dumps(kind, sort_keys=True), []).append(spec)
    return list(groups.values())


def _planned_s(spec: RunSpec, protocol: MeasureProtocol, device: str) -> float | None:
    from irene.measure.api import measure, plan_measurement

    try:
        sizes = _sizes(spec, measure)
        plan = plan_measurement(spec.model, device=device, protocol=protocol, **sizes)
    except UsageError:  # it will fail, and say why then
        return None
    return plan.total_s
