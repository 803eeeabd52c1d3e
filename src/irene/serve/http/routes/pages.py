"""The dashboard: its page under every route of its own, and its files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from irene.serve.http.problems import Problem

__all__ = ["PAGES", "WEB", "page", "router"]

WEB = Path(str(resources.files("irene.serve").joinpath("web")))
PAGES = (
    "/", "/compare", "/trade-off", "/leaderboard", "/suggest", "/cost", "/what-if",
    "/open", "/jobs/{job}", "/method", "/help",
)  # fmt: skip
router = APIRouter(include_in_schema=False)


async def page(request: Request) -> Response:
    """The one page of the dashboard; its script looks at the address."""
    file = WEB / "index.html"
    if not file.is_file():
        raise Problem(404, "this installation has no dashboard; see /api/v1")
    return FileResponse(
        file, media_type="text/html; charset=utf-8",
        headers={"cache-control": "no-cache"},
    )  # fmt: skip


for _path in PAGES:
    router.add_api_route(_path, page, methods=["GET", "HEAD"])
