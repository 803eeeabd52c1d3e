"""Questions asked of trees: the documents of the commands of the same names."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import Field

from irene.serve.http.problems import Problem
from irene.serve.http.routes.asking import (
    form_of,
    give,
    name_models,
    question_of,
)
from irene.serve.http.routes.openapi import answers
from irene.serve.http.routes.parameters import (
    FORM,
    LEFT_OUT,
    LISTED,
    FixedRunQuery,
    Form,
    Hardware,
    HardwareQuery,
    Model,
    ModelQuery,
    run_of,
)
from irene.serve.http.routes.subjects import read_subject

__all__ = [
    "CompareQuery",
    "CostQuery",
    "TradeOffQuery",
    "WhatIfQuery",
    "bottlenecks",
    "compare",
    "cost",
    "own_trade_off",
    "router",
    "suggest",
    "trade_off",
    "what_if",
]

router = APIRouter(tags=["analysis"])
SUBJECT_PARTS = r"^[^\x00-\x1f]+$"
MOST_ROWS = 200
LARGEST = 1e18
List = Annotated[
    str,
    Field(
        max_length=500,
        description="Values to try, as `1,8,32` or `64:512:64`.",
        examples=["1,8,32"],
    ),
]


class CompareQuery(HardwareQuery):
    """Two or more runs side by side."""

    subject: list[
        Annotated[str, Field(min_length=1, max_length=300, pattern=SUBJECT_PARTS)]
    ] = Field(
        min_length=2,
        max_length=8,
        description="`MODEL`, `MODEL@b16s256,fp16,on=pc1`, `upload:ID` or "
        "`answer:KEY`; all are compared with the first.",
        examples=[["bert-base-uncased", "distilbert-base-uncased@b16s256"]],
    )
    per: Literal["run", "sequence", "token"] = Field(
        "run", description="Unit of all energies."
    )
    format: Form = Field(LEFT_OUT, description=FORM)


@router.get(
    "/compare",
    summary="What differs between models, sizes, machines or trees",
    responses=answers("irene.comparisons/1", "compare"),
)
async def compare(
    request: Request, query: Annotated[CompareQuery, Query()]
) -> Response:
    """Aligned by role and by path, with the interval of each difference."""
    run = run_of(query)
    read = [read_subject(text, query.hardware, run) for text in query.subject]
    models = await name_models(request, [each.model for each in read], trees=True)
    arguments = {
        "subjects": [
            {"model": name, "run": dict(each.run), "hardware": each.on}
            for name, each in zip(models.names, read, strict=True)
        ],
        "per": query.per,
        "format": form_of(request, query.format),
    }
    return await give(request, question_of("compare", models, arguments))


@router.get(
    "/bottlenecks",
    summary="What to look at first",
    responses=answers("irene.bottlenecks/1", "bottlenecks"),
)
async def bottlenecks(
    request: Request, query: Annotated[ModelQuery, Query()]
) -> Response:
    """The parts of a model by their energy, added up in several ways."""
    return await _of_model(request, query, "bottlenecks", trees=True)


@router.get(
    "/suggest",
    summary="What to change, and what it saves",
    responses=answers("irene.suggestions/1", "suggest"),
)
async def suggest(request: Request, query: Annotated[ModelQuery, Query()]) -> Response:
    """What every rule says; a saving is a real prediction of the change."""
    return await _of_model(request, query, "suggest", is_long=True)


class CostQuery(ModelQuery):
    """How much is answered, where, and at which price."""

    queries: float = Field(
        1e6, ge=0, le=LARGEST, description="Queries to answer; one is one sequence."
    )
    per_day: float = Field(
        LEFT_OUT, ge=0, le=LARGEST, description="Queries per day, for a year's cost."
    )
    price: float = Field(
        LEFT_OUT, ge=0, le=LARGEST, description="Price of a kWh, in any currency."
    )
    region: str = Field(
        "WORLD", max_length=60, description="A code that `/regions` lists."
    )
    intensity: float = Field(
        LEFT_OUT, ge=0, le=LARGEST, description="g CO₂e per kWh, instead of a region's."
    )
    pue: float = Field(
        1.0, ge=1, le=1000, description="Energy of the building by its machines'."
    )


@router.get(
    "/cost",
    summary="Kilowatt-hours, money and CO₂e",
    responses=answers("irene.cost/1", "cost"),
)
async def cost(request: Request, query: Annotated[CostQuery, Query()]) -> Response:
    """What it takes to answer queries with a model."""
    from irene.analyse.costs import check_cost

    chosen: dict[str, Any] = {
        "queries": query.queries,
        "per_day": query.per_day,
        "price_per_kwh": query.price,
        "region": query.region,
        "gco2e_per_kwh": query.intensity,
        "pue": query.pue,
    }
    check_cost(**chosen)
    return await _of_model(request, query, "cost", trees=True, cost=chosen)


class WhatIfQuery(FixedRunQuery):
    """A model, and what to vary of it."""

    model: Model
    hardware: Hardware = "pc1"
    batch_size: List = "1"
    seq_len: List = "128"
    dtype: List = "fp32"
    attention: List = "eager"
    norm: List = ""
    set: list[Annotated[str, Field(min_length=3, max_length=500)]] = Field(
        default=[],
        max_length=8,
        description="`FIELD=VALUE,…`: a field of the config, or `model`.",
        examples=[["hidden_act=relu,gelu"]],
    )
    sensitivity: bool = Field(
        False, description="How the energy follows every number of the config."
    )
    format: Form = Field(LEFT_OUT, description=FORM)


@router.get(
    "/what-if",
    summary="Other sizes, settings and architectures",
    responses=answers("irene.what_if/1", "what-if"),
)
async def what_if(request: Request, query: Annotated[WhatIfQuery, Query()]) -> Response:
    """Every combination of the values, compared with the first."""
    from irene.analyse.grid import read_choices

    lists = {name: getattr(query, name) for name in (*LISTED, "norm")}
    read_choices(query.set, lists)
    if query.sensitivity and query.set:
        raise Problem(400, "sensitivity goes without set")
    models = await name_models(request, [query.model])
    arguments = {
        "model": models.names[0],
        "hardware": query.hardware,
        "run": {k: v for k, v in run_of(query).items() if k not in LISTED},
        "set": query.set,
        "lists": lists,
        "sensitivity": query.sensitivity,
        "format": form_of(request, query.format),
    }
    question = question_of("what-if", models, arguments, is_long=True)
    return await give(request, question)


class TradeOffQuery(HardwareQuery):
    """At which size, and within which bounds."""

    batch_size: int = Field(
        16, ge=1, le=100_000_000, description="Sequences (or images, or clips) per run."
    )
    budget_j: float = Field(
        LEFT_OUT, ge=0, le=LARGEST, description="Most energy per sequence, J."
    )
    at_least: float = Field(LEFT_OUT, ge=0, le=LARGEST, description="Least accuracy.")
    format: Form = Field(LEFT_OUT, description=FORM)


@router.get(
    "/trade-off",
    summary="Accuracy against energy",
    responses=answers("irene.trade_off/1", "trade-off"),
)
async def trade_off(
    request: Request, query: Annotated[TradeOffQuery, Query()]
) -> Response:
    """The Pareto front of the published accuracies on SST-2."""
    return await _trade_off(request, query, None)


@router.post(
    "/trade-off",
    summary="Your own accuracies against energy",
    responses=answers("irene.trade_off/1", "trade-off"),
)
async def own_trade_off(
    request: Request,
    query: Annotated[TradeOffQuery, Query()],
    table: Annotated[
        str,
        Body(
            media_type="text/csv",
            description="Columns model and accuracy; also energy_j, split, source.",
            examples=["model,accuracy\nbert-base-uncased,92.7\n"],
        ),
    ],
) -> Response:
    """The Pareto front of a table that the client has."""
    return await _trade_off(request, query, table)


async def _trade_off(
    request: Request, query: TradeOffQuery, table: str | None
) -> Response:
    run = run_of(query)
    names: list[str] = []
    if table is not None:
        names = _models_of(table, query.hardware, run)
    models = await name_models(request, names)
    arguments = {
        "hardware": query.hardware,
        "run": run,
        "table": table,
        "budget_j": query.budget_j,
        "at_least": query.at_least,
        "format": form_of(request, query.format),
    }
    question = question_of("trade-off", models, arguments, is_long=True)
    return await give(request, question)


def _models_of(table: str, hardware: str, run: dict[str, Any]) -> list[str]:
    """The models of a table that have to be predicted."""
    from irene.analyse.pareto import parse_accuracies

    rows = [row for row in parse_accuracies(table, "the table") if row.energy_j is None]
    if len(rows) > MOST_ROWS:
        raise Problem(
            400,
            f"the table has {len(rows):,} models to predict, this server takes "
            f"{MOST_ROWS}: give the energy_j of the others",
        )
    return [read_subject(row.model, hardware, run).model for row in rows]


async def _of_model(
    request: Request,
    query: ModelQuery,
    name: str,
    *,
    trees: bool = False,
    is_long: bool = False,
    **further: Any,
) -> Response:
    """Answer a question about one model."""
    models = await name_models(request, [query.model], trees=trees)
    arguments = {
        "model": models.names[0],
        "hardware": query.hardware,
        "run": run_of(query),
        **further,
    }
    return await give(request, question_of(name, models, arguments, is_long=is_long))
