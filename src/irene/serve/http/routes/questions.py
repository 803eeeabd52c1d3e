"""The questions: an endpoint for each, made from what it says of itself.

Their answers have permalinks, for as long as the store has them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Annotated, Any, get_args, get_origin

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, ValidationError

from irene.analyse.leaderboard import Leaderboard, rank_known
from irene.errors import UsageError
from irene.parameters import nearest
from irene.predict.machines.chosen import named
from irene.predict.machines.finding import find_machine
from irene.questions import QUESTIONS, AskLeaderboard, AskTradeOff, Question
from irene.serve.answers.answering import Answering, Passing
from irene.serve.answers.filling import Filling, Known, Wanted
from irene.serve.answers.memory import FOREVER
from irene.serve.computing.moments import Reply
from irene.serve.http.access import client_of
from irene.serve.http.problems import Problem
from irene.serve.http.routes.asking import form_of, give, inquire, send
from irene.serve.http.routes.openapi import PROBLEMS, Key, answers
from irene.serve.http.routes.parameters import query_of

router = APIRouter(tags=["questions"])
Endpoint = Callable[[Request, BaseModel], Awaitable[Response]]
PARTIAL: Any = (
    bool,
    Field(
        False,
        description="Answer at once with the models that are known, and say in "
        "`pending` how many are still being predicted.",
    ),
)


def _asked(question: type[Question[Any]], query: BaseModel, **more: Any) -> Any:
    values = query.model_dump(exclude_unset=True, exclude={"format", "partial"})
    return question.asked({**values, **more})


async def _answer(
    request: Request, question: type[Question[Any]], query: BaseModel, **more: Any
) -> Response:
    form = form_of(request, question, getattr(query, "format", None))
    inquiry = await inquire(request, _asked(question, query, **more), form)
    return await give(request, inquiry)


def _told(error: ValidationError, kind: type[BaseModel]) -> list[dict[str, Any]]:
    """What is wrong with a query; of an unknown name the one that is meant."""
    wrong: list[dict[str, Any]] = []
    for each in error.errors():
        wrong.append({**each, "loc": ("query", *each["loc"])})
        if each["type"] == "extra_forbidden":
            near = nearest(str(each["loc"][-1]), kind.model_fields)
            hint = f"; did you mean {near}?" if near else ""
            wrong[-1]["msg"] = f"there is no such parameter{hint}"
    return wrong


class _Route(APIRoute):
    """Has a query read by its model at once; FastAPI looks at each field every time."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        kind: type[BaseModel] = get_args(self.endpoint.__annotations__["query"])[0]
        fields = kind.model_fields.items()
        several = {name for name, it in fields if get_origin(it.annotation) is list}

        async def handle(request: Request) -> Response:
            told = request.query_params
            given = {k: told.getlist(k) if k in several else told[k] for k in told}
            try:
                query = kind.model_validate(given)
            except ValidationError as error:
                raise RequestValidationError(_told(error, kind)) from error
            response: Response = await self.endpoint(request, query)
            return response

        return handle


def _add(question: type[Question[Any]], endpoint: Endpoint, **more: Any) -> None:
    """An endpoint whose parameters are those of a question."""
    kind = query_of(question, **more)
    endpoint.__annotations__["query"] = Annotated[kind, Query()]
    router.add_api_route(
        f"/{question.name}",
        endpoint,
        methods=["GET"],
        name=question.name,
        summary=question.summary,
        description=endpoint.__doc__ or (question.__doc__ or "").partition("\n\n")[0],
        responses=answers(question.schema, with_csv=question.has_table),
        route_class_override=_Route,
    )


def _endpoint(question: type[Question[Any]]) -> Endpoint:
    async def endpoint(request: Request, query: BaseModel) -> Response:
        return await _answer(request, question, query)

    return endpoint


@router.post(
    "/trade-off",
    summary="Your own accuracies against energy",
    responses=answers(AskTradeOff.schema, with_csv=True),
)
async def own_trade_off(
    request: Request,
    query: Annotated[query_of(AskTradeOff), Query()],  # type: ignore[valid-type]
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
    return await _answer(request, AskTradeOff, query, accuracies=table)


@router.get(
    "/answers/{key}",
    summary="An answer by its permalink",
    responses={
        200: {
            "description": "The document, as it was given then.",
            "content": {"application/json": {}, "text/csv": {}},
        },
        304: {"description": "The client has it."},
        **PROBLEMS,
    },
)
async def answer(request: Request, key: Key) -> Response:
    """The same bytes as then, also after a restart or with a newer predictor."""
    answering: Answering = request.app.state.answering
    ready = await answering.by_key(key)
    if ready is None:
        words = f"no answer {key[:64]!r} is kept here: ask the question anew"
        raise Problem(404, words)
    return send(request, ready, FOREVER)


async def _leaderboard(request: Request, query: BaseModel) -> Response:
    """The first time at a size takes minutes: 503 says when to ask again.

    Models that the server had no time or memory for are left out with their reason;
    such an answer is not kept, and they are tried again after some minutes.
    """
    question: AskLeaderboard = _asked(AskLeaderboard, query)
    form = form_of(request, AskLeaderboard, getattr(query, "format", None))
    inquiry = await inquire(request, question, form)
    wanted = Wanted(question.entries(), question.run, named(question.on))
    inquiry = replace(inquiry, models=tuple(each.name for each in wanted.entries))
    filling: Filling = request.app.state.filling

    async def compute(begin: Callable[[], None]) -> Reply:
        seconds = await filling.fill(wanted, begin)
        return await asyncio.to_thread(write, seconds)

    def write(seconds: float) -> Reply:
        known = filling.known(wanted)
        board = _board(question, wanted, known)
        if not board.models:
            problem = board.left_out[0].problem
            raise UsageError(f"none of the models can run: {problem}")
        board = question.within(board)
        body = question.csv(board) if form == "csv" else _json(board)
        made = Passing if known.failed or known.missing else Reply
        return made(body.encode(), seconds)

    known = await asyncio.to_thread(filling.known, wanted)
    is_polled = getattr(query, "partial", False)
    if known.missing:
        filling.want(wanted, client_of(request.scope), is_polled)
    if is_polled and known.missing:
        request.app.state.answering.begin(inquiry, compute)
        return await asyncio.to_thread(_partial, question, wanted, known)
    limit_s = request.app.state.settings.limits.seconds
    try:
        async with asyncio.timeout(limit_s):
            return await give(request, inquiry, compute)
    except TimeoutError:
        known = await asyncio.to_thread(filling.known, wanted)
        raise Problem(
            503,
            f"{len(known.fields)} of {len(wanted.entries)} models are predicted: ask "
            "again, or with partial=true for those",
            again_s=10,
        ) from None


def _board(question: AskLeaderboard, wanted: Wanted, known: Known) -> Leaderboard:
    there = [entry for entry in wanted.entries if entry.name in known.fields]
    machine = find_machine(question.on)
    run = question.run.resolved(machine)
    board = rank_known(there, known.fields, run, machine.hardware.name)
    return replace(board, pending=len(known.missing))


def _partial(question: AskLeaderboard, wanted: Wanted, known: Known) -> Response:
    board = _board(question, wanted, known)
    try:
        board = question.within(board)
    except UsageError:  # none of those that are known, perhaps one of the others
        board = replace(board, models=())
    headers = {"cache-control": "no-store", "retry-after": "2"}
    return Response(_json(board), media_type="application/json", headers=headers)


def _json(board: Leaderboard) -> str:
    return json.dumps(board.to_dict(), allow_nan=False)


for _question in QUESTIONS.values():
    if _question is AskLeaderboard:
        _add(_question, _leaderboard, partial=PARTIAL)
    else:
        _add(_question, _endpoint(_question))
