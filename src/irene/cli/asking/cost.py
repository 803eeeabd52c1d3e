"""`irene cost`: kilowatt-hours, money and CO₂e."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.cli.asking.answering import Asking
from irene.cli.output import print_notes, print_unfit
from irene.human import human_range
from irene.show.terminal import columns, value
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.costs import Costing, Line

USAGE = "MODEL|TREE.json [options]"
EXAMPLES = """\
MODEL may also be a saved tree, predicted or measured. A request is one sequence.

examples:
  irene cost bert-base-uncased -b 16 -s 128 --price 0.1319 --region DE --pue 1.2
  irene cost gpt2 -b 8 --requests 1e6 --per-day 250000 --region FR
  irene cost measured.json --intensity 50
  irene cost --regions
"""


def _print(console: Console, found: Costing, _: argparse.Namespace) -> None:
    money = found.price_per_kwh is not None
    head = [found.currency] if money else []
    table = columns("<per", "electricity", "interval", *head, "CO₂e")
    for line in found.lines:
        table.add_row(*_cells(line, money))
    console.print(f"{plain(found.model)}: {plain(found.run)}", style="bold")
    notes = print_unfit(console, found.notes)
    console.print(f"{human_range(found.per_query)} per request · {found.energy_source}")
    console.print(table)
    for told in _assumptions(found):
        console.print(told, style="dim")
    print_notes(console, notes)


def _cells(line: Line, with_money: bool) -> list[str]:
    from irene.show.picture.units import amount

    whole, low, high = (
        amount(1000 * kwh, "Wh") for kwh in (line.kwh, line.kwh_low, line.kwh_high)
    )
    size, unit = (1e-3, "t") if line.kg_co2e >= 1000 else (1e3, "g")
    money = [value(line.money)] if with_money else []
    return [
        line.name,
        whole,
        f"{low} – {high}",
        *money,
        amount(line.kg_co2e * size, unit),
    ]


def _assumptions(found: Costing) -> list[str]:
    region = found.region
    told = [f"PUE {found.pue:g}"]
    if found.price_per_kwh is not None:
        told.append(f"{found.price_per_kwh:g} {found.currency} per kWh")
    if region.code:
        told.append(
            f"{region.gco2e_per_kwh:g} g CO₂e per kWh, {region.name} {region.year} "
            f"({region.source})"
        )
    else:
        told.append(f"{region.gco2e_per_kwh:g} g CO₂e per kWh, as given")
    return [" · ".join(told)]


class _ListRegions(argparse.Action):
    """Print all regions and leave; a model is not needed for that."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """List and exit."""
        from irene.analyse.costs import regions

        for region in regions().values():
            print(
                f"{region.code:5}  {region.gco2e_per_kwh:7.2f} g CO₂e/kWh  "
                f"{region.year}  {region.name}"
            )
        print(f"source: {next(iter(regions().values())).source}")
        parser.exit()


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--regions", action=_ListRegions, nargs=0,
        help="list the regions with year and source, and exit",
    )  # fmt: skip


COMMAND = Asking(question="cost", show=_print, add=_add)
