"""How documents look in the OpenAPI description."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

__all__ = ["answers", "describe"]

PROBLEM_SCHEMA = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, and what to do."},
        "instance": {"type": "string"},
    },
}
WITH_CSV = ("energy", "tree", "compare", "what-if", "trade-off", "leaderboard")


def answers(schema: str, name: str) -> dict[int | str, dict[str, Any]]:
    """The good answers of an endpoint.

    Args:
        schema: Of its JSON document.
        name: Of the endpoint.
    """
    document = {
        "type": "object",
        "required": ["schema"],
        "properties": {"schema": {"type": "string", "const": schema}},
    }
    content: dict[str, Any] = {"application/json": {"schema": document}}
    if name in WITH_CSV:
        content["text/csv"] = {"schema": {"type": "string"}}
    return {
        200: {
            "description": f"The document `{schema}`.",
            "content": content,
            "headers": {
                "ETag": {"schema": {"type": "string"}},
                "Content-Location": {
                    "description": "The permalink of this answer.",
                    "schema": {"type": "string"},
                },
            },
        },
        304: {"description": "The client has it: `If-None-Match` names its `ETag`."},
    }


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an app, with the schema of problems."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = PROBLEM_SCHEMA
    app.openapi_schema = document
    return document
