"""From joules to kilowatt-hours, money and CO₂e: per request, per million, per year.

A request is one sequence (image, clip) of a batch. Intervals are carried through; every
figure is a constant times the energy of a run, so that twice the requests cost twice.
"""

from __future__ import annotations

import csv
import difflib
import io
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, ClassVar

from irene.energy import Energy
from irene.errors import UsageError
from irene.parameters import Asked, parameters_of
from irene.plain import Document
from irene.presented import Shown
from irene.spec import RunSpec

if TYPE_CHECKING:
    from irene.tree import ModelTree

JOULES_PER_KWH = 3.6e6
DAYS_PER_YEAR = 365.25
LARGEST = 1e18
THE_COST = "the cost"


def _amount(also: str = "", metavar: str = "N") -> Asked:
    other = (also,) if also else ()
    flags = tuple(f"--{name}" for name in other)
    return Asked(flags, other, 0, LARGEST, metavar=metavar, group=THE_COST)


@dataclass(frozen=True, slots=True)
class Region:
    """Where electricity comes from: its mean over a year, and who says so."""

    code: str
    name: str
    gco2e_per_kwh: float
    year: int
    source: str


@dataclass(frozen=True, slots=True)
class CostTerms:
    """How much is answered, where, and at which price.

    Attributes:
        requests: Requests to answer; one is one sequence.
        per_day: Requests per day, for a year's cost.
        price_per_kwh: Price of a kWh.
        currency: Of the price.
        region: Whose electricity, for CO₂e: a code or name of those that are listed.
        gco2e_per_kwh: g CO₂e per kWh, instead of a region's.
        pue: Power usage effectiveness: energy of the building by that of its machines.
    """

    requests: Annotated[float, _amount("queries")] = 1e6
    per_day: Annotated[float | None, _amount()] = None
    price_per_kwh: Annotated[float | None, _amount("price", "MONEY")] = None
    currency: Annotated[
        str, Asked(longest=3, pattern=r"[A-Za-z]{3}", metavar="CODE",
                   examples=("USD", "EUR"), group=THE_COST),
    ] = "USD"  # fmt: skip
    region: Annotated[str, Asked(longest=60, metavar="CODE", group=THE_COST)] = "WORLD"
    gco2e_per_kwh: Annotated[float | None, _amount("intensity", "G")] = None
    pue: Annotated[float, Asked(least=1, most=1000, metavar="X", group=THE_COST)] = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be, and regions that are unknown."""
        for each in parameters_of(CostTerms):
            if getattr(self, each.name) is not None:
                each.check(getattr(self, each.name))
        _region(self.region)

    @property
    def place(self) -> Region:
        """The region, or the intensity that was given."""
        if self.gco2e_per_kwh is None:
            return _region(self.region)
        return Region("", "given", self.gco2e_per_kwh, 0, "given")


@dataclass(frozen=True, slots=True)
class Line:
    """What so many requests take at the meter of the building: with the PUE."""

    name: str
    queries: float
    kwh: float
    kwh_low: float
    kwh_high: float
    money: float | None
    money_low: float | None
    money_high: float | None
    kg_co2e: float
    kg_co2e_low: float
    kg_co2e_high: float


@dataclass(frozen=True, slots=True, repr=False)
class Costing(Shown, Document):
    """What a model costs to run.

    Attributes:
        model: Its name.
        run: Sizes and settings in words.
        energy_source: Where the energy comes from, in words.
        per_query: Energy of one request, J, without the PUE.
        lines: Per request, for the requests asked for, per million, per year.
        price_per_kwh: Money per kWh, if anybody said so.
        currency: Of the money.
        region: Whose electricity.
        pue: Power usage effectiveness: energy of the building by that of the machine.
        notes: Warnings and assumptions of the tree.
        spec: The run as the machine runs it.
    """

    model: str
    run: str
    energy_source: str
    per_query: Energy
    lines: tuple[Line, ...]
    price_per_kwh: float | None
    currency: str
    region: Region
    pue: float
    notes: tuple[str, ...]
    spec: RunSpec | None = None

    schema: ClassVar = "irene.cost/1"


@cache
def regions() -> dict[str, Region]:
    """Regions whose yearly intensity is known, by code."""
    from irene.saved import read_values  # a help needs no numpy

    file = resources.files("irene.analyse").joinpath("tables", "grid_intensity.csv")
    rows = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))
    return {
        row["region"]: read_values(Region, {**row, "code": row["region"]})
        for row in rows
    }


def _region(code: str) -> Region:
    known = regions()
    if code.upper() in known:
        return known[code.upper()]
    by_name = {region.name.lower(): region for region in known.values()}
    if code.lower() in by_name:
        return by_name[code.lower()]
    near = difflib.get_close_matches(code.lower(), by_name, n=1)
    hint = f"did you mean {by_name[near[0]].code}? There" if near else "there"
    raise UsageError(
        f"no region {code!r}; {hint} are {', '.join(known)}; for any other give "
        "its grams of CO₂e per kWh (gco2e_per_kwh)"
    )


def cost_of(tree: ModelTree, terms: CostTerms | None = None) -> Costing:
    """What it costs to answer requests with a model.

    Args:
        tree: Predicted, measured or accounted.
        terms: How much is answered, where, and at which price.

    Raises:
        UsageError: The tree carries no energy.
    """
    from irene.tree.headline import (
        energy_source,
        model_name,
        run_words,
        sequence_energy,
    )

    terms = terms or CostTerms()
    requests, per_day, pue = terms.requests, terms.per_day, terms.pue
    price_per_kwh, place = terms.price_per_kwh, terms.place
    per_query = sequence_energy(tree)
    amounts = {"request": 1.0, "million requests": 1e6}
    if requests not in amounts.values():
        amounts[f"{requests:,.0f} requests"] = requests
    if per_day is not None:
        amounts["day"] = per_day
        amounts["year"] = per_day * DAYS_PER_YEAR
    return Costing(
        model_name(tree),
        run_words(tree),
        energy_source(tree),
        per_query,
        tuple(
            _line(name, count, per_query, price_per_kwh, place, pue)
            for name, count in amounts.items()
        ),
        price_per_kwh,
        terms.currency.upper(),
        place,
        pue,
        tree.notes,
        tree.spec,
    )


def _line(
    name: str,
    queries: float,
    per_query: Energy,
    price: float | None,
    region: Region,
    pue: float,
) -> Line:
    factor = queries * pue / JOULES_PER_KWH
    kwh = [per_query.joules * factor, per_query.low * factor, per_query.high * factor]
    money = [None if price is None else each * price for each in kwh]
    carbon = [each * region.gco2e_per_kwh / 1000 for each in kwh]
    return Line(name, queries, *kwh, *money, *carbon)
