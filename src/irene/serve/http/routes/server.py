"""What this server offers, so that a page does not offer what it would refuse."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from irene import __version__
from irene.serve.http.routes.asking import PROBLEMS
from irene.serve.http.routes.documents import answers
from irene.serve.http.routes.models import give_document
from irene.serve.http.settings import Settings

__all__ = ["router", "server"]

router = APIRouter(tags=["what is known"])


@router.get(
    "/server",
    summary="What this server offers",
    responses={**answers("irene.server/1", "server"), **PROBLEMS},
)
async def server(request: Request) -> Response:
    """Whether it takes jobs and uploads, and how it tells that they are ready."""
    settings: Settings = request.app.state.settings
    document = {
        "schema": "irene.server/1",
        "version": __version__,
        "read_only": settings.read_only,
        "needs_token": settings.token is not None,
        "measures": settings.measuring and not settings.read_only,
        "hub": settings.hub,
        "notify": {
            "email": settings.mail is not None,
            "webhook": settings.webhooks,
        },
        "limits": {"upload_bytes": settings.limits.upload_bytes},
    }
    return give_document(request, document)
