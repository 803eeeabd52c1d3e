"""What is in measured data or a store, in words for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.dataset import Provenance
    from irene.dataset.summaries import (
        LevelCount,
        LevelSummary,
        MachineSummary,
        ModelSummary,
        StoreSummary,
        Summary,
    )

MIB = 2**20
MANY_SEGMENTS = 500
FEW = 8


def table_lines(
    summary: Summary, provenance: Provenance | None, left_out: Sequence[str]
) -> Iterator[str]:
    """The summary of measured data, line by line."""
    yield f"{summary.name}: {summary.trees:,} trees, {summary.nodes:,} nodes"
    for name in ("hardware", "source", "date"):
        if value := getattr(provenance, name, ""):
            yield f"{name}: {value}"
    yield ""
    yield from _models(summary.models, 8)
    yield ""
    yield from _levels(summary.levels, "distinct", 9)
    for line in left_out:
        yield f"\nleft out: {line}"


def store_lines(summary: StoreSummary) -> Iterator[str]:
    """The summary of a store, line by line."""
    size = f"{summary.size_bytes / MIB:,.1f} MiB in {summary.segments:,} segments"
    yield f"{summary.path}: {summary.trees:,} trees, {summary.nodes:,} nodes, {size}"
    for machine in summary.machines:
        what = "; ".join(machine.descriptions) or "not described"
        yield f"\n{machine.name}: {what}"
        yield from (f"  {line}" for line in _machine(machine))
    if summary.failures:
        yield "\nfailed, and not measured since:"
    for failure in summary.failures:
        runs = "1 run" if failure.runs == 1 else f"{failure.runs:,} runs"
        models = _few(failure.models)
        yield f"  {failure.hardware}: {runs} of {models}: {failure.reason}"
    if summary.lost:
        lost = f"{summary.lost:,} trees were in damaged files"
        yield f"\n{lost}, which are in quarantine/"
    if summary.segments > MANY_SEGMENTS:
        yield f"\n`irene data compact {summary.path}` makes reading quicker"


def _machine(machine: MachineSummary) -> Iterator[str]:
    yield f"covers {_few(machine.covers)}, meter {_few(machine.meters) or 'unknown'}"
    for name, trees in machine.software.items():
        yield f"software {name}: {trees:,} trees"
    for host in machine.hosts:
        first, last = machine.dates.get(host, ("", ""))
        when = f": {first[:19]} … {last[:19]} by its clock" if first else ""
        yield f"host {host}{when}"
    yield from _models(machine.models, 10)
    yield from _levels(machine.levels, "unknown", 12)
    disturbed = sum(level.disturbed for level in machine.levels)
    if disturbed:
        yield (
            f"{disturbed:,} nodes were disturbed while they were measured: they weigh "
            "less in training, and widen intervals"
        )


def _models(models: Sequence[ModelSummary], digits: int) -> Iterator[str]:
    width = max(len("model"), *(len(entry.model) for entry in models))
    yield f"{'model':{width}}  {'trees':>6}  {'nodes':>{digits}}  batch sizes; lengths"
    for entry in models:
        sizes = f"{_numbers(entry.batch_sizes)}; {_numbers(entry.seq_lens)}"
        counts = f"{entry.trees:>6,}  {entry.nodes:>{digits},}"
        yield f"{entry.model:{width}}  {counts}  {sizes}"


def _levels(
    levels: Sequence[LevelSummary] | Sequence[LevelCount], what: str, digits: int
) -> Iterator[str]:
    yield f"{'level':8}{'nodes':>{digits}}{what:>10}  energy of one node"
    for level in levels:
        low_j, high_j = level.lowest_j, level.highest_j
        known = low_j is not None and high_j is not None
        energies = f"{low_j:.4g} … {high_j:.4g} J" if known else "unknown"
        counts = f"{level.nodes:>{digits},}{getattr(level, what):>10,}"
        yield f"{level.kind:8}{counts}  {energies}"


def _few(words: Sequence[str]) -> str:
    more = f" and {len(words) - FEW} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


def _numbers(values: Sequence[int]) -> str:
    """Values, or their range where there are many."""
    if len(values) <= FEW:
        return ", ".join(map(str, values))
    return f"{values[0]} … {values[-1]} ({len(values)} values)"
