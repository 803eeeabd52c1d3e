"""What is in a store, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irene.dataset.store.summary import MachineSummary, StoreSummary

__all__ = ["store_lines"]

MIB = 2**20
MANY_SEGMENTS = 500
FEW = 8


def store_lines(summary: StoreSummary) -> Iterator[str]:
    """The summary of a store, line by line."""
    size = f"{summary.size_bytes / MIB:,.1f} MiB in {summary.segments:,} segments"
    yield f"{summary.path}: {summary.trees:,} trees, {summary.nodes:,} nodes, {size}"
    for machine in summary.machines:
        yield ""
        yield from _machine(machine)
    if summary.failures:
        yield ""
        yield "failed, and not measured since:"
    for failure in summary.failures:
        runs = "1 run" if failure.runs == 1 else f"{failure.runs:,} runs"
        models = _few(failure.models)
        yield f"  {failure.hardware}: {runs} of {models}: {failure.reason}"
    if summary.lost:
        yield ""
        yield f"{summary.lost:,} trees were in damaged files, which are in quarantine/"
    if summary.segments > MANY_SEGMENTS:
        yield ""
        yield f"`irene data compact {summary.path}` makes reading quicker"


def _machine(machine: MachineSummary) -> Iterator[str]:
    what = "; ".join(machine.descriptions) or "not described"
    yield f"{machine.name}: {what}"
    yield f"  covers {_few(machine.covers)}, meter {_few(machine.meters) or 'unknown'}"
    for name, trees in machine.software.items():
        yield f"  software {name}: {trees:,} trees"
    for host in machine.hosts:
        first, last = machine.dates.get(host, ("", ""))
        when = f": {first[:19]} … {last[:19]} by its clock" if first else ""
        yield f"  host {host}{when}"
    width = max(len("model"), *(len(model.model) for model in machine.models))
    yield f"  {'model':{width}}  {'trees':>6}  {'nodes':>10}  batch sizes; lengths"
    for model in machine.models:
        sizes = f"{_numbers(model.batch_sizes)}; {_numbers(model.seq_lens)}"
        counts = f"{model.trees:>6,}  {model.nodes:>10,}"
        yield f"  {model.model:{width}}  {counts}  {sizes}"
    yield f"  {'level':8}{'nodes':>12}{'unknown':>10}  energy of one node"
    for level in machine.levels:
        energies = _range(level.lowest_j, level.highest_j)
        yield f"  {level.kind:8}{level.nodes:>12,}{level.unknown:>10,}  {energies}"


def _few(words: Sequence[str]) -> str:
    more = f" and {len(words) - FEW} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


def _numbers(values: Sequence[int]) -> str:
    """Values, or their range where there are many."""
    if len(values) <= FEW:
        return ", ".join(map(str, values))
    return f"{values[0]} … {values[-1]} ({len(values)} values)"


def _range(lowest_j: float | None, highest_j: float | None) -> str:
    if lowest_j is None or highest_j is None:
        return "unknown"
    return f"{lowest_j:.4g} … {highest_j:.4g} J"
