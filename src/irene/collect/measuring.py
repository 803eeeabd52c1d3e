"""The work of a collection: one run, measured where the task happens to be.

`measure_run` is a pure function of its argument as far as results go; what it keeps on
the machine only saves it from measuring the same node again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from irene.collect.sweep import AXES, USUAL
from irene.dataset.store import Origin
from irene.errors import FormatError, IreneError
from irene.measure.alone.capture import digest
from irene.measure.alone.journal import Journal, default_folder
from irene.measure.alone.rounds import NodeResult
from irene.measure.protocol import MeasureProtocol, pin_threads
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.work.lock import alone_on

SCHEMA = "irene.measured-run/1"
MOST_NAMED = 3
NAMED = ("model", "batch_size", "seq_len")


def label_of(spec: RunSpec) -> str:
    """A run in a few words: `gpt2 8×64`, and what of it is not as usual."""
    values = {name: getattr(spec, name) for name in AXES if name not in NAMED}
    rest = [
        str(value) if isinstance(value, str) else f"{name}={value}"
        for name, value in values.items()
        if value != USUAL[name]
    ]
    return " ".join([f"{spec.model} {spec.batch_size}×{spec.seq_len}", *rest])


@dataclass(frozen=True, slots=True)
class Measured:
    """The document that a task returns."""

    tree: ModelTree
    origin: Origin

    def to_bytes(self) -> bytes:
        """A line of JSON that says where it comes from, and the tree's own document."""
        head = {"schema": SCHEMA, "origin": self.origin.to_dict()}
        return f"{json.dumps(head, allow_nan=False)}\n{self.tree.to_json()}".encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Measured:
        """Read what `to_bytes` wrote.

        Raises:
            FormatError: It is something else.
        """
        try:
            first, _, tree = text.partition(b"\n")
            head = json.loads(first)
            if head["schema"] != SCHEMA:
                raise FormatError(f"not {SCHEMA}: {head['schema']!r}")
            return cls(ModelTree.from_json(tree), Origin.from_dict(head["origin"]))
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"not a measured run: {error}") from error


# On the machine that measures -------------------------------------------------


def measure_run(argument: Mapping[str, Any]) -> bytes:
    """Measure one run; what `Sweep.argument` made says which, and how."""
    pin_threads()
    from irene.measure.alone.target import choose_device
    from irene.measure.api import measure

    spec = RunSpec.from_dict(argument["spec"])
    device = choose_device(argument["device"])
    books: list[SharedNodes] = []

    def journal(header: Mapping[str, Any]) -> SharedNodes:
        run = f"{label_of(spec)} ({spec.digest})"
        books.append(SharedNodes(argument["nodes"], header, run))
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
            **_sizes(spec),
        )
        duration_s = time.monotonic() - began_s
    tree = _with_shared(tree, books[0].used)
    times = {"started": started, "finished": _now(), "duration_s": duration_s}
    return Measured(tree, Origin.of_tree(tree, **times)).to_bytes()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _sizes(spec: RunSpec) -> dict[str, Any]:
    """What was given of a run, and what differs from the usual."""
    values = {name: getattr(spec, name) for name in AXES[1:]}
    return {k: v for k, v in values.items() if spec.given(k) or v != USUAL[k]}


def _with_shared(tree: ModelTree, used: Mapping[str, str]) -> ModelTree:
    """The tree with a note on which nodes were measured in which other run."""
    if not used:
        return tree
    by_run = Counter(sorted(used.values()))
    runs = ", ".join(f"{count} of {run}" for run, count in by_run.items())
    few = [run for run, _ in by_run.most_common(MOST_NAMED)]
    more = f" and {len(by_run) - len(few)} more" if len(by_run) > len(few) else ""
    note = (
        f"{len(used)} distinct nodes are shared: they were measured in other runs of "
        f"this collection: {', '.join(few)}{more}"
    )
    told = {**tree.provenance, "shared_nodes": runs}
    return tree.with_provenance(told).with_notes(note)


class SharedNodes(Journal):
    """The nodes of a collection: one that two runs have in common is measured once.

    A journal that the runs of one collection on one machine under one protocol write
    into, one after the other; a line also says of which run it is. It is kept on the
    machine that measures, where a run that was killed also finds its own nodes. `used`
    has the nodes of other runs that this one has used, with the name of the run.
    """

    def __init__(self, collection: str, header: Mapping[str, Any], run: str) -> None:
        same = {name: value for name, value in header.items() if name != "spec"}
        folder: Path = default_folder().parent / "collect"
        super().__init__(folder / f"{collection}-{digest(same)}.jsonl", same)
        self.used: dict[str, str] = {}
        self._run = run
        self._of_others: dict[str, str] = {}

    def _take(self, fields: Mapping[str, Any]) -> None:
        run = str(fields.get("run", "another run"))
        super()._take({name: v for name, v in fields.items() if name != "run"})
        key = str(fields.get("key"))
        self._of_others.pop(key, None)
        if run != self._run:
            self._of_others[key] = run

    def known(self, key: str) -> Any:
        """What was measured before under a key, in this run or in another."""
        if key in self._of_others:
            self.used[key] = self._of_others[key]
        return super().known(key)

    def append(self, result: NodeResult) -> None:
        """Put a finished node on disk."""
        self._write({**result.to_dict(), "run": self._run})
        self.results[result.key] = result


# On the machine that collects -------------------------------------------------


class Measuring:
    """Measures runs with `irene measure`'s own code."""

    call = "irene.collect.measuring:measure_run"

    def resolve(self, spec: RunSpec) -> RunSpec:
        """The same run with its model's name and the hash of its config."""
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
        fields = {**spec.to_dict(), "chosen": ()}
        kind = {k: v for k, v in fields.items() if not isinstance(v, int)}
        groups.setdefault(json.dumps(kind, sort_keys=True), []).append(spec)
    return list(groups.values())


def _planned_s(spec: RunSpec, protocol: MeasureProtocol, device: str) -> float | None:
    from irene.measure.api import plan_measurement

    try:
        sizes = _sizes(spec)
        plan = plan_measurement(spec.model, device=device, protocol=protocol, **sizes)
    except IreneError:  # it will fail, and say why then
        return None
    return plan.total_s
