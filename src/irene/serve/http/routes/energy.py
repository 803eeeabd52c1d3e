"""Trees: costs alone, or with predicted energy."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from irene.serve.http.routes.asking import (
    form_of,
    give,
    name_models,
    question_of,
)
from irene.serve.http.routes.openapi import answers
from irene.serve.http.routes.parameters import HardwareQuery, TreeQuery, run_of

__all__ = ["EnergyQuery", "energy", "router", "tree"]

router = APIRouter(tags=["trees"])


class EnergyQuery(TreeQuery, HardwareQuery):
    """A tree of one model on one machine."""


@router.get(
    "/energy",
    summary="The energy of a model, node by node",
    responses=answers("irene.tree/1", "energy"),
)
async def energy(request: Request, query: Annotated[EnergyQuery, Query()]) -> Response:
    """The tree with predicted energy; as CSV one row per node."""
    models = await name_models(request, [query.model], trees=True)
    arguments = {**_shape(request, query, models.names[0]), "hardware": query.hardware}
    return await give(request, question_of("energy", models, arguments))


@router.get(
    "/tree",
    summary="A model as a tree with FLOPs and bytes",
    responses=answers("irene.tree/1", "tree"),
)
async def tree(request: Request, query: Annotated[TreeQuery, Query()]) -> Response:
    """The tree with its costs alone; as CSV one row per node."""
    models = await name_models(request, [query.model])
    arguments = _shape(request, query, models.names[0])
    return await give(request, question_of("tree", models, arguments))


def _shape(request: Request, query: TreeQuery, model: str) -> dict[str, object]:
    return {
        "model": model,
        "run": run_of(query),
        "level": query.level,
        "fold": query.fold,
        "format": form_of(request, query.format),
    }
