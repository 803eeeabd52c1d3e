"""Uploads: a config.json, a saved tree or a ledger, kept under the name of its content.

Nothing that is uploaded is run, unpickled or used as a path.
"""

from __future__ import annotations

import asyncio
from typing import IO, Any
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from irene.errors import LimitError
from irene.serve.answers.memory import FOREVER, LINK, make_ready
from irene.serve.computing.pool import Pool
from irene.serve.computing.questions import CHECKED
from irene.serve.http.access import client_of, may_all, owner_of
from irene.serve.http.problems import Problem
from irene.serve.http.routes.asking import disk_full, send, stored
from irene.serve.http.routes.openapi import PROBLEM, PROBLEMS, TEXT, Key, content
from irene.serve.http.settings import Settings
from irene.serve.uploads.bounded_json import unpacked
from irene.serve.uploads.documents import Document, read_document, readable_name
from irene.serve.uploads.storage import Upload, Uploads, new_file

router = APIRouter(tags=["uploads"])
SCHEMA = "irene.upload/1"
AT_ONCE = 2
"""Uploads that a process reads at a time: each may take some hundred megabytes."""
READ_HERE_BYTES = 200_000
KEPT = content(
    SCHEMA,
    id={**TEXT, "pattern": "^[0-9a-f]{32}$"},
    kind={**TEXT, "enum": ["config", "tree", "ledger"]},
    name={**TEXT, "description": "For people; may be empty."},
    links={"type": "object", "additionalProperties": TEXT},
)
ANYTHING = {"schema": {**TEXT, "format": "binary"}}
BODY: dict[str, Any] = {
    "parameters": [
        {
            "name": "X-Filename",
            "in": "header",
            "description": "What to call it, percent-encoded; for people to read.",
            "schema": {**TEXT, "maxLength": 1000},
        }
    ],
    "requestBody": {
        "required": True,
        "description": "A config.json, a document `irene.tree/1`, or a GGUF file as "
        "far as its weights; gzip is fine.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/gzip": ANYTHING,
            "application/octet-stream": ANYTHING,
        },
    },
}


@router.post(
    "/uploads",
    summary="Bring a config.json, a saved tree or a ledger",
    status_code=201,
    response_class=JSONResponse,
    responses={
        **PROBLEMS,
        200: {**KEPT, "description": "It was here already."},
        201: {**KEPT, "description": f"It is kept: the document `{SCHEMA}`."},
        **dict.fromkeys((401, 403, 408, 507), PROBLEM),
    },
    openapi_extra=BODY,
)
async def bring(request: Request) -> Response:
    """Keep a file; the same file twice is kept once."""
    settings: Settings = request.app.state.settings
    uploads: Uploads = request.app.state.uploads
    name = readable_name(unquote(request.headers.get("x-filename", "")[:3_000]))
    owner = owner_of(request.scope)
    try:
        with await asyncio.to_thread(new_file, settings.data_dir) as file:
            async for part in request.stream():
                await asyncio.to_thread(file.write, part)
            await asyncio.to_thread(file.flush)
            async with request.app.state.upload_places:
                document = await _checked(request, file, settings.limits.upload_bytes)
                found, is_new = await stored(
                    lambda: uploads.put(document.kind, name, document.body, owner)
                )
    except LimitError as error:
        raise Problem(413, str(error)) from error
    except OSError as error:
        raise disk_full() from error
    told = _document(found)
    headers = {"Location": told["links"]["self"], "Cache-Control": "no-store"}
    return JSONResponse(told, 201 if is_new else 200, headers)


@router.get(
    "/uploads/{key}",
    summary="What was uploaded",
    responses={
        200: {
            "description": "The file, unpacked.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        304: {"description": "The client has it."},
        **PROBLEMS,
    },
)
async def upload(request: Request, key: Key) -> Response:
    """The document as it was brought."""
    found = await _found(request, key)
    ready = make_ready(found.id, found.body, "application/json", packed=found.packed)
    response = send(request, ready.without(LINK), FOREVER)
    response.headers["X-Kind"] = found.kind
    response.headers["X-Filename"] = quote(found.name)
    return response


async def _found(request: Request, key: str) -> Upload:
    uploads: Uploads = request.app.state.uploads
    found = await stored(lambda: uploads.get(key))
    if found is None:
        raise Problem(404, f"no upload {key!r}: it may have been on another server")
    return found


async def _checked(request: Request, file: IO[bytes], most_bytes: int) -> Document:
    """A document that holds together.

    A large one is read by a computing process: here it would hold up everybody else.
    """

    def read() -> bytes:
        file.seek(0)
        return unpacked(file.read(), most_bytes)

    size = file.tell()
    if not size:
        raise Problem(400, "the body is empty: send the file as the body")
    if size <= READ_HERE_BYTES:
        text = await asyncio.to_thread(read)
        if len(text) <= READ_HERE_BYTES:
            return await asyncio.to_thread(read_document, text, most_bytes)
    pool: Pool = request.app.state.pool
    reply = await pool.ask(
        CHECKED, {"path": file.name, "most_bytes": most_bytes},
        client=client_of(request.scope),
    )  # fmt: skip
    kind, _, config = reply.body.partition(b"\n")
    return Document(kind.decode(), config or await asyncio.to_thread(read))


@router.delete(
    "/uploads/{key}",
    summary="Have what you uploaded deleted",
    status_code=204,
    response_class=Response,
    responses={**PROBLEMS, **dict.fromkeys((401, 403, 507), PROBLEM)},
)
async def forget(request: Request, key: Key) -> Response:
    """Delete a file; where others brought the same one, it stays theirs."""
    uploads: Uploads = request.app.state.uploads
    await _found(request, key)
    owner = owner_of(request.scope)
    owners = await stored(lambda: uploads.owners(key))
    if may_all(request.scope):
        await stored(lambda: uploads.drop(key))
    elif owner in owners:
        await stored(lambda: uploads.drop(key, owner))
    else:
        raise Problem(403, "this upload is somebody else's")
    return Response(status_code=204)


def _document(found: Upload) -> dict[str, Any]:
    here = f"/api/v1/uploads/{found.id}"
    if found.kind == "config":
        model = f"upload%3A{found.id}"
        links = {"tree": f"/api/v1/tree?model={model}", "page": f"/?model={model}"}
    else:
        links = {"tree": here, "page": f"/?upload={found.id}"}
    return {
        "schema": SCHEMA,
        "id": found.id,
        "kind": found.kind,
        "name": found.name,
        "links": {"self": here, **links},
    }
