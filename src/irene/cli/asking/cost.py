"""`irene cost`: kilowatt-hours, money and CO₂e."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irene.cli.asking.analysis_options import (
    add_answer_options,
    add_on_option,
    check_answer,
    number,
    put_answer,
    subject_tree,
)
from irene.cli.asking.serving_options import add_serving_options
from irene.cli.options import add_run_options

if TYPE_CHECKING:
    from rich.console import Console

    from irene.analyse.costs import Costing, Line

__all__ = ["configure", "run"]

EXAMPLES = """\
MODEL may also be a saved tree, predicted or measured. A query is one sequence.

examples:
  irene cost bert-base-uncased -b 16 -s 128 --price 0.1319 --region DE --pue 1.2
  irene cost gpt2 -b 8 --queries 1e6 --per-day 250000 --region FR
  irene cost measured.json --intensity 50
  irene cost --regions
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene cost MODEL|TREE.json [options]"
    parser.epilog = EXAMPLES
    group = parser.add_argument_group("the cost")
    group.add_argument(
        "--queries", type=number, default=1e6, metavar="N",
        help="queries to answer (default 1e6)",
    )  # fmt: skip
    group.add_argument(
        "--per-day", type=number, metavar="N", help="queries per day, for a year's cost"
    )
    group.add_argument(
        "--price", type=number, metavar="MONEY", help="price of a kWh, in any currency"
    )
    group.add_argument(
        "--region", default="WORLD", metavar="CODE",
        help="whose electricity, for CO₂e (default WORLD)",
    )  # fmt: skip
    group.add_argument(
        "--intensity", type=number, metavar="G",
        help="g CO₂e per kWh, instead of a region's",
    )  # fmt: skip
    group.add_argument(
        "--pue", type=number, default=1.0, metavar="X",
        help="energy of the building by that of its machines (default 1)",
    )  # fmt: skip
    group.add_argument(
        "--regions", action=_ListRegions, nargs=0,
        help="list the regions with year and source, and exit",
    )  # fmt: skip
    add_run_options(parser)
    add_serving_options(parser)
    add_on_option(parser)
    add_answer_options(parser, plot=False)


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


def run(options: argparse.Namespace) -> int:
    """Predict or read, then print the table."""
    from irene.analyse.costs import check_cost, cost_of

    check_answer(options)
    chosen = {
        "queries": options.queries,
        "per_day": options.per_day,
        "price_per_kwh": options.price,
        "region": options.region,
        "gco2e_per_kwh": options.intensity,
        "pue": options.pue,
    }
    check_cost(**chosen)
    found = cost_of(subject_tree(options), **chosen)
    if put_answer(options, found.to_dict()):
        from irene.cli.screens.analysis_screen import screen

        _print(screen(), found)
    return 0


def _print(console: Console, found: Costing) -> None:
    from irene.analyse.costs import PAPER_TABLE_3
    from irene.cli.screens.analysis_screen import columns, print_notes
    from irene.cli.screens.cells import plain
    from irene.show.text import human_range

    money = found.price_per_kwh is not None
    table = columns("<per", "kWh", "interval", *(["money"] if money else []), "CO₂e")
    for line in found.lines:
        table.add_row(*_cells(line, money))
    console.print(f"{plain(found.model)}: {plain(found.run)}", style="bold")
    console.print(f"{human_range(found.per_query)} per query · {found.energy_source}")
    console.print(table)
    for told in _assumptions(found):
        console.print(told, style="dim", markup=False)
    console.print(str(PAPER_TABLE_3["note"]), style="dim")
    print_notes(console, found.notes)


def _cells(line: Line, with_money: bool) -> list[str]:
    from irene.cli.screens.analysis_screen import value

    return [
        line.name,
        value(line.kwh),
        f"{value(line.kwh_low)} – {value(line.kwh_high)}",
        *([value(line.money)] if with_money else []),
        _mass(line.kg_co2e),
    ]


def _mass(kilograms: float) -> str:
    from irene.cli.screens.analysis_screen import value

    for size, unit in ((1000.0, "t"), (1.0, "kg"), (1e-3, "g"), (1e-6, "mg")):
        if kilograms >= size:
            return value(kilograms / size, unit)
    return value(kilograms * 1e9, "µg")


def _assumptions(found: Costing) -> list[str]:
    region = found.region
    told = [f"PUE {found.pue:g}"]
    if found.price_per_kwh is not None:
        told.append(f"{found.price_per_kwh:g} per kWh")
    if region.code:
        told.append(
            f"{region.gco2e_per_kwh:g} g CO₂e per kWh, {region.name} {region.year} "
            f"({region.source})"
        )
    else:
        told.append(f"{region.gco2e_per_kwh:g} g CO₂e per kWh, as given")
    return [" · ".join(told)]
