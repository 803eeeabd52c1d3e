"""Where the numbers come from."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from importlib import metadata
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from irene import __version__
from irene.analyse.costs import regions as known_regions
from irene.analyse.known import machine_fields
from irene.serve.answers.question import check_hardware
from irene.serve.http.routes.asking import PROBLEMS
from irene.serve.http.routes.documents import answers
from irene.serve.http.routes.models import give_document
from irene.serve.http.routes.parameters import Hardware

__all__ = ["provenance", "regions", "router"]

router = APIRouter(tags=["what is known"])
BELOW = ("torch", "transformers", "numpy")


@router.get(
    "/provenance",
    summary="Method, data, errors and versions behind the numbers of a machine",
    responses={**answers("irene.provenance/1", "provenance"), **PROBLEMS},
)
async def provenance(
    request: Request, hardware: Annotated[Hardware, Query()] = "pc1"
) -> Response:
    """What the predictor was fitted to, its held-out errors and its coverage."""
    check_hardware(hardware)
    fields = await asyncio.to_thread(machine_fields, hardware)
    told: dict[str, Any] = dict(fields.get("provenance") or {})
    document = {
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
    return give_document(request, document)


@router.get(
    "/regions",
    summary="Regions whose electricity is known",
    responses={**answers("irene.regions/1", "regions"), **PROBLEMS},
)
async def regions(request: Request) -> Response:
    """G CO₂e per kWh, with year and source."""
    found = [asdict(region) for region in known_regions().values()]
    return give_document(request, {"schema": "irene.regions/1", "regions": found})
