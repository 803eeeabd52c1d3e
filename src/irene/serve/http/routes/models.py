"""Models and machines that are known."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from irene.analyse.known import hardware_document, models_document
from irene.serve.answers.memory import Memory, make_ready
from irene.serve.http.routes.asking import PROBLEMS, send
from irene.serve.http.routes.documents import answers
from irene.trace import catalogue

__all__ = ["give_document", "hardware", "models", "router"]

router = APIRouter(tags=["what is known"])
Kind = Literal["encoder", "decoder", "encoder-decoder", "vision", "audio", "multimodal"]


@router.get(
    "/models",
    summary="Models of the catalogue",
    responses={**answers("irene.models/1", "models"), **PROBLEMS},
)
async def models(
    request: Request,
    search: Annotated[
        str,
        Query(
            max_length=200,
            description="Words that must all occur in a name, family or kind.",
            examples=["bert base"],
        ),
    ] = "",
    kind: Annotated[Kind | None, Query(description="One kind of model alone.")] = None,
    limit: Annotated[
        int | None, Query(ge=1, le=10_000, description="How many at most.")
    ] = None,
) -> Response:
    """All that pass the filters, in alphabetical order."""
    found = [each for each in catalogue.search(search) if kind in (None, each.kind)]
    return give_document(request, models_document(found[:limit]))


@router.get(
    "/hardware",
    summary="Machines that energy can be predicted for",
    responses={**answers("irene.hardware/1", "hardware"), **PROBLEMS},
)
async def hardware(request: Request) -> Response:
    """What each covers, what it was measured on, and its held-out errors."""
    return give_document(request, await asyncio.to_thread(hardware_document))


def give_document(request: Request, document: Mapping[str, Any]) -> Response:
    """A small document that is made anew for every request.

    Args:
        request: To be answered.
        document: JSON-ready values.
    """
    body = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    key = hashlib.sha256(body).hexdigest()[:32]
    memory: Memory = request.app.state.answering.memory
    ready = memory.get(key)
    if ready is None:
        # Its content is not in the store: no permalink is promised.
        ready = make_ready(key, body, "application/json").without_link()
        memory.put(ready)
    accept = request.headers.get("accept", "").encode("latin-1")
    memory.remember(request.scope["path"], request.scope["query_string"], accept, key)
    return send(request, ready)
