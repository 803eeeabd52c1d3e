"""Energies as functions of a size, on the screen: of `what-if` and `compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.cli.output import machine_words, print_left_out
from irene.human import human_energy, human_spread
from irene.show.terminal import columns
from irene.show.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from irene.analyse.curve import Curves

SHOWN = 9
"""Points of a curve on the screen; the document has all."""


def print_curves(console: Console, found: Curves) -> None:
    """What was looked for first, then some points of every curve."""
    for told in _answers(found):
        console.print(plain(told), style="bold")
    table = columns("<model", found.over, "J per run", "interval")
    for line in found.lines:
        step = -(-len(line.points) // SHOWN)
        for number, point in enumerate(line.points):
            if number % step and point is not line.points[-1]:
                continue
            name = line.name if number == 0 else ""
            energy = point.energy
            table.add_row(
                name, f"{point.size:,}", human_energy(energy.joules),
                human_spread(energy),
            )  # fmt: skip
    console.print(table)
    machines = dict.fromkeys(machine_words(line.hardware) for line in found.lines)
    console.print(f"for {', '.join(machines)}", style="dim")
    print_left_out(console, found.left_out)


def _answers(found: Curves) -> Iterator[str]:
    """One sentence for each budget and each crossing."""
    name = found.over
    for line in found.lines if found.under_j is not None else ():
        budget = human_energy(found.under_j or 0.0)
        if line.largest is None:
            least = line.points[0].size
            yield f"{line.name} takes more than {budget} already at {name} {least:,}"
        elif line.largest == line.most:
            yield f"{line.name} stays under {budget} to its end, {name} {line.most:,}"
        else:
            yield f"{line.name} stays under {budget} up to {name} {line.largest:,}"
    for each in found.crossings:
        if each.since is None:
            yield f"{each.cheaper} and {each.dearer} take the same"
            continue
        since = f"from {name} {each.since:,} on"
        told = f"{each.cheaper} is cheaper than {each.dearer} {since}"
        if each.surely_since is None:
            yield f"{told}, nowhere for sure"
        elif each.surely_since == each.since:
            yield f"{told}, for sure"
        else:
            yield f"{told}, for sure from {each.surely_since:,} on"
