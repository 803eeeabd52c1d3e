"""Permalinks: answers by their key, for as long as the store has them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from irene.serve.answers.answering import Answering
from irene.serve.http.problems import Problem
from irene.serve.http.routes.asking import send
from irene.serve.http.routes.openapi import PROBLEMS, Key

__all__ = ["answer", "router"]

router = APIRouter(tags=["answers"])
FOREVER = "private, max-age=31536000, immutable"


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
        raise Problem(
            404, f"no answer {key[:64]!r} is kept here: ask the question anew"
        )
    return send(request, ready, FOREVER)
