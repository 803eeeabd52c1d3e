"""What is in measured data or a store, in words for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding

from irene.show.terminal import columns

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

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


def table_parts(
    summary: Summary, provenance: Provenance | None, left_out: Sequence[str]
) -> Iterator[RenderableType]:
    """The summary of measured data, part by part."""
    yield f"{summary.name}: {summary.trees:,} trees, {summary.nodes:,} nodes"
    for name in ("hardware", "source", "date"):
        if value := getattr(provenance, name, ""):
            yield f"{name}: {value}"
    yield ""
    yield _models(summary.models)
    yield ""
    yield _levels(summary.levels, "distinct")
    for line in left_out:
        yield f"\n{left_out_line(line)}"


def left_out_line(line: str) -> str:
    """What was left out of data, or what a reader is warned of."""
    return line if line.startswith("warning: ") else f"left out: {line}"


def store_parts(summary: StoreSummary) -> Iterator[RenderableType]:
    """The summary of a store, part by part."""
    size = f"{summary.size_bytes / MIB:,.1f} MiB in {summary.segments:,} segments"
    yield f"{summary.path}: {summary.trees:,} trees, {summary.nodes:,} nodes, {size}"
    for machine in summary.machines:
        what = "; ".join(machine.descriptions) or "not described"
        yield f"\n{machine.name}: {what}"
        for part in _machine(machine):
            words = isinstance(part, str)
            beside = (0, 0, 0, 2)
            yield f"  {part}" if words else Padding(part, beside, expand=False)
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


def _machine(machine: MachineSummary) -> Iterator[RenderableType]:
    yield f"covers {_few(machine.covers)}, meter {_few(machine.meters) or 'unknown'}"
    for name, trees in machine.software.items():
        yield f"software {name}: {trees:,} trees"
    for host in machine.hosts:
        first, last = machine.dates.get(host, ("", ""))
        when = f": {first[:19]} … {last[:19]} by its clock" if first else ""
        yield f"host {host}{when}"
    yield _models(machine.models)
    yield _levels(machine.levels, "unknown")
    disturbed = sum(level.disturbed for level in machine.levels)
    if disturbed:
        yield (
            f"{disturbed:,} nodes were disturbed while they were measured: they weigh "
            "less in training, and widen intervals"
        )


def _models(models: Sequence[ModelSummary]) -> Table:
    sizes = "batch sizes; lengths"
    table = columns("<model", "trees", "nodes", f"<{sizes}", wide=(sizes,))
    for each in models:
        lengths = f"{_numbers(each.batch_sizes)}; {_numbers(each.seq_lens)}"
        table.add_row(each.model, f"{each.trees:,}", f"{each.nodes:,}", lengths)
    return table


def _levels(levels: Sequence[LevelSummary | LevelCount], what: str) -> Table:
    table = columns("<level", "nodes", what, "<energy of one node")
    for each in levels:
        low_j, high_j = each.lowest_j, each.highest_j
        known = low_j is not None and high_j is not None
        energies = f"{low_j:.4g} – {high_j:.4g} J" if known else "unknown"
        table.add_row(
            each.kind, f"{each.nodes:,}", f"{getattr(each, what):,}", energies
        )
    return table


def _few(words: Sequence[str]) -> str:
    more = f" and {len(words) - FEW} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


def _numbers(values: Sequence[int]) -> str:
    """Values, or their range where there are many."""
    if len(values) <= FEW:
        return ", ".join(map(str, values))
    return f"{values[0]} … {values[-1]} ({len(values)} values)"
