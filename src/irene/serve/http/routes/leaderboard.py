"""All models of the catalogue by their energy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from irene.analyse.leaderboard import Leaderboard, choose_entries, rank_known
from irene.errors import UsageError
from irene.serve.answers.answering import Passing
from irene.serve.answers.filling import Filling, Known, Wanted
from irene.serve.computing.pool import Reply
from irene.serve.http.problems import Problem
from irene.serve.http.routes.asking import (
    Named,
    form_of,
    give,
    question_of,
)
from irene.serve.http.routes.openapi import answers
from irene.serve.http.routes.parameters import (
    FORM,
    LEFT_OUT,
    Form,
    HardwareQuery,
    run_of,
)
from irene.show.csv_rows import rows_csv
from irene.spec import RunSpec

__all__ = ["LeaderboardQuery", "leaderboard", "router"]

router = APIRouter(tags=["analysis"])
MOST_PARAMS = 1e15


class LeaderboardQuery(HardwareQuery):
    """Which models, and at which size."""

    batch_size: int = Field(
        8, ge=1, le=100_000_000, description="Sequences (or images, or clips) per run."
    )
    search: str = Field(
        "",
        max_length=200,
        description="Words that must all occur in a name, family or kind.",
    )
    family: str = Field(
        LEFT_OUT, max_length=100, description="Models that share an architecture."
    )
    kind: str = Field(
        LEFT_OUT,
        max_length=100,
        description="encoder, decoder, encoder-decoder, vision, …",
    )
    min_params: float = Field(
        LEFT_OUT, ge=0, le=MOST_PARAMS, description="Fewest parameters."
    )
    max_params: float = Field(
        LEFT_OUT, ge=0, le=MOST_PARAMS, description="Most parameters."
    )
    limit: int = Field(
        LEFT_OUT,
        ge=1,
        le=10_000,
        description="Only so many, those with the fewest parameters.",
    )
    partial: bool = Field(
        False,
        description="Answer at once with the models that are known, and say in "
        "`pending` how many are still being predicted.",
    )
    format: Form = Field(LEFT_OUT, description=FORM)


@router.get(
    "/leaderboard",
    summary="All models by their energy",
    responses=answers("irene.leaderboard/1", "leaderboard"),
)
async def leaderboard(
    request: Request, query: Annotated[LeaderboardQuery, Query()]
) -> Response:
    """The first time at a size takes minutes: 503 says when to ask again.

    Models that the server had no time or memory for are left out with their reason;
    such an answer is not kept, and they are tried again after some minutes.
    """
    wanted = _wanted(query)
    form = form_of(request, query.format)
    arguments = {
        "hardware": query.hardware,
        "run": dict(wanted.run),
        "models": [each.name for each in wanted.entries],
        "format": form,
    }
    question = question_of("leaderboard", Named((), {}), arguments, is_long=True)
    filling: Filling = request.app.state.filling

    async def compute(begin: Callable[[], None]) -> Reply:
        seconds = await filling.fill(wanted, begin)
        known = await asyncio.to_thread(filling.known, wanted)
        made = Passing if known.failed or known.missing else Reply
        return made(_body(wanted, known, form), seconds)

    known = await asyncio.to_thread(filling.known, wanted)
    if query.partial and known.missing:
        request.app.state.answering.begin(question, compute)
        return _partial(wanted, known)
    limit_s = request.app.state.settings.limits.seconds
    try:
        async with asyncio.timeout(limit_s):
            return await give(request, question, compute)
    except TimeoutError:
        known = await asyncio.to_thread(filling.known, wanted)
        raise Problem(
            503,
            f"{len(known.fields)} of {len(wanted.entries)} models are predicted: ask "
            "again, or with partial=true for those",
            {"Retry-After": "10"},
        ) from None


def _wanted(query: LeaderboardQuery) -> Wanted:
    entries = choose_entries(
        query.search,
        family=query.family,
        kind=query.kind,
        least_params=query.min_params,
        most_params=query.max_params,
    )
    entries.sort(key=lambda entry: (entry.params, entry.name))
    return Wanted(entries[: query.limit], run_of(query), query.hardware)


def _board(wanted: Wanted, known: Known) -> Leaderboard:
    there = [entry for entry in wanted.entries if entry.name in known.fields]
    sizes = {k: v for k, v in wanted.run.items() if k != "model_class"}
    run = RunSpec("any", **sizes).to_dict()
    shown = {k: v for k, v in run.items() if k not in ("model", "config_digest")}
    return rank_known(there, known.fields, shown, wanted.hardware)


def _body(wanted: Wanted, known: Known, form: str) -> bytes:
    board = _board(wanted, known)
    if not board.models:
        problem = board.left_out[0].problem
        raise UsageError(f"none of the models can run: {problem}")
    if form == "csv":
        return rows_csv(board.table()).encode()
    return json.dumps(board.to_dict(), allow_nan=False).encode()


def _partial(wanted: Wanted, known: Known) -> Response:
    document = {**_board(wanted, known).to_dict(), "pending": len(known.missing)}
    return Response(
        json.dumps(document, allow_nan=False),
        media_type="application/json",
        headers={"cache-control": "no-store", "retry-after": "2"},
    )
