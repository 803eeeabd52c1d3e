"""The dashboard: its page under every route of its own, and its files."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from irene.parameters import parameters_of
from irene.serve.http.problems import Problem
from irene.spec import SERVING, RunSpec

WEB = Path(str(resources.files("irene.serve").joinpath("web")))
PAGES = (
    "/", "/compare", "/trade-off", "/leaderboard", "/suggest", "/cost",
    "/serve-plan", "/what-if", "/open", "/jobs/{job}", "/method", "/help",
)  # fmt: skip
FIELDS = 'name="irene-run" content=""'
"""Where the page is told which fields a run has."""
router = APIRouter(include_in_schema=False)


async def page(request: Request) -> Response:
    """The one page of the dashboard; its script looks at the address."""
    return HTMLResponse(_page(), headers={"cache-control": "no-cache"})


async def elsewhere(request: Request, rest: str) -> Response:
    """The same page for people who went astray; programs get a problem document."""
    if rest.startswith("api/") or "text/html" not in request.headers.get("accept", ""):
        raise Problem(404, f"there is nothing at /{rest}; see /api/v1")
    return HTMLResponse(_page(), 404, headers={"cache-control": "no-cache"})


@cache
def _page() -> str:
    file = WEB / "index.html"
    if not file.is_file():
        raise Problem(404, "this installation has no dashboard; see /api/v1")
    fields = [
        {
            "name": each.name,
            "description": each.words,
            "choices": each.choices or (),
            "whole": each.kind is int,
            "least": each.asked.least,
            "usual": each.usual,
            "serving": each.asked.group == SERVING,
        }
        for each in parameters_of(RunSpec)
        if each.name != "model"
    ]
    told = escape(json.dumps(fields), quote=True)
    text = file.read_text(encoding="utf-8")
    return text.replace(FIELDS, FIELDS.replace('""', f'"{told}"'))


for _path in PAGES:
    router.add_api_route(_path, page, methods=["GET", "HEAD"])
