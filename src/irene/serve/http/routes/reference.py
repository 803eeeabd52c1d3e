"""What is known: models, machines, regions, and what this server offers."""

from __future__ import annotations

from dataclasses import asdict
from importlib import metadata
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from irene import __version__
from irene.analyse.costs import regions as known_regions
from irene.analyse.listings import hardware_document, machine_fields, models_document
from irene.serve.answers.question import check_hardware
from irene.serve.http.routes.asking import give_document
from irene.serve.http.routes.openapi import answers
from irene.serve.http.routes.parameters import Hardware
from irene.serve.http.settings import Settings
from irene.trace import catalogue

router = APIRouter(tags=["what is known"])
BELOW = ("torch", "transformers", "numpy")
Kind = Literal["encoder", "decoder", "encoder-decoder", "vision", "audio", "multimodal"]


@router.get(
    "/models",
    summary="Models of the catalogue",
    responses=answers("irene.models/1"),
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
    return await give_document(request, lambda: models_document(found[:limit]))


@router.get(
    "/hardware",
    summary="Machines that energy can be predicted for",
    responses=answers("irene.hardware/1"),
)
async def hardware(request: Request) -> Response:
    """What each covers, what it was measured on, and its held-out errors."""
    return await give_document(request, hardware_document)


@router.get(
    "/provenance",
    summary="Method, data, errors and versions behind the numbers of a machine",
    responses=answers("irene.provenance/1"),
)
async def provenance(
    request: Request, hardware: Annotated[Hardware, Query()] = "default"
) -> Response:
    """What the predictor was fitted to, its held-out errors and its coverage."""
    check_hardware(hardware)
    return await give_document(request, lambda: _provenance(hardware))


def _provenance(hardware: str) -> dict[str, Any]:
    fields = machine_fields(hardware)
    told: dict[str, Any] = dict(fields.get("provenance") or {})
    return {
        "schema": "irene.provenance/1",
        "hardware": fields.get("hardware"),
        "method": told.get("method"),
        "data": told.get("data"),
        "provenance": told,
        "domain": fields.get("domain"),
        "widths": fields.get("widths"),
        "digest": fields.get("digest"),
        "versions": {
            "irene": __version__,
            **{name: metadata.version(name) for name in BELOW},
        },
    }


@router.get(
    "/regions",
    summary="Regions whose electricity is known",
    responses=answers("irene.regions/1"),
)
async def regions(request: Request) -> Response:
    """G CO₂e per kWh, with year and source."""
    found = [asdict(region) for region in known_regions().values()]
    document = {"schema": "irene.regions/1", "regions": found}
    return await give_document(request, lambda: document)


@router.get(
    "/server",
    summary="What this server offers",
    responses=answers("irene.server/1"),
)
async def server(request: Request) -> Response:
    """Whether it takes jobs and uploads, and how it tells that they are ready."""
    settings: Settings = request.app.state.settings
    document = {
        "schema": "irene.server/1",
        "version": __version__,
        "read_only": settings.read_only,
        "needs_token": settings.needs_token,
        "measures": settings.measuring and not settings.read_only,
        "hub": settings.hub,
        "notify": {
            "email": settings.mail is not None,
            "webhook": settings.webhooks,
        },
        "limits": {"upload_bytes": settings.limits.upload_bytes},
    }
    # Tokens may be made while it runs.
    return await give_document(request, lambda: document, stays=False)
