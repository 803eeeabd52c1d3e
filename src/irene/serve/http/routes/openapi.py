"""How requests and documents look in the OpenAPI description."""

from __future__ import annotations

import threading
from typing import Annotated, Any

from fastapi import FastAPI, Path
from fastapi.openapi.utils import get_openapi

from irene.serve.http.problems import MEDIA_TYPE

Key = Annotated[
    str,
    Path(
        min_length=1,
        max_length=64,
        description="Its name, as the server gave it.",
        examples=["0123456789abcdef0123456789abcdef"],
    ),
]
TEXT: dict[str, Any] = {"type": "string"}
PROBLEM: dict[str, Any] = {
    "description": "What is wrong, and what to do.",
    "content": {
        MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}},
    },
}
"""How a problem looks in the OpenAPI description."""
PROBLEMS: dict[int | str, dict[str, Any]] = dict.fromkeys(
    (400, 404, 413, 414, 422, 429, 500, 503, 504), PROBLEM
)
"""What an endpoint may answer besides its document."""


def document(schema: str | None = None, **properties: Any) -> dict[str, Any]:
    """The schema of a JSON document.

    Args:
        schema: What its field `schema` says, if it has one.
        **properties: Schemas of its other fields, which are all there.
    """
    if schema is not None:
        properties = {"schema": {**TEXT, "const": schema}, **properties}
    return {"type": "object", "required": [*properties], "properties": properties}


def content(schema: str, **properties: Any) -> dict[str, Any]:
    """A response whose body is a JSON document, as for `document`."""
    return {
        "description": f"The document `{schema}`.",
        "content": {"application/json": {"schema": document(schema, **properties)}},
    }


def answers(schema: str, *, with_csv: bool = False) -> dict[int | str, dict[str, Any]]:
    """All that an endpoint may answer.

    Args:
        schema: Of its JSON document.
        with_csv: Whether there is a table, too.
    """
    found = content(schema)
    if with_csv:
        found["content"]["text/csv"] = {"schema": TEXT}
    found["headers"] = {
        "ETag": {"schema": TEXT},
        "Content-Location": {
            "description": "The permalink of this answer.",
            "schema": TEXT,
        },
    }
    return {
        200: found,
        304: {"description": "The client has it: `If-None-Match` names its `ETag`."},
        **PROBLEMS,
    }


_one_at_a_time = threading.Lock()


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an app, with the schema of problems."""
    with _one_at_a_time:  # FastAPI makes it for one thread alone
        if not app.openapi_schema:
            app.openapi_schema = _described(app)
        return app.openapi_schema


def _described(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = document(
        type=TEXT,
        title=TEXT,
        status={"type": "integer"},
        detail={**TEXT, "description": "What happened, and what to do."},
        instance=TEXT,
    )
    return found
