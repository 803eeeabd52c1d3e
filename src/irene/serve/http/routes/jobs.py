"""Jobs: work that takes longer than a request, followed by its link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from irene.serve.http.access import check_token, client_of, may_all, owner_of
from irene.serve.http.problems import Problem
from irene.serve.http.routes.asking import FULL_S, stored
from irene.serve.http.routes.openapi import PROBLEM, PROBLEMS, TEXT, Key, content
from irene.serve.http.settings import Settings
from irene.serve.jobs.document import FINAL, OPEN, SCHEMA, job_document
from irene.serve.jobs.request import (
    KINDS,
    JobBody,
    LearnBody,
    read_learning,
    read_request,
)
from irene.serve.jobs.runner import JobRunner
from irene.serve.jobs.watch import event_stream
from irene.serve.store.job_records import JobRecord
from irene.serve.uploads.bounded_json import parse

router = APIRouter(tags=["jobs"])
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""nginx would hold events back."""
A_JOB = content(
    SCHEMA,
    id={**TEXT, "pattern": "^[0-9a-f]{32}$"},
    kind={**TEXT, "enum": [*KINDS, "learn"]},
    state={**TEXT, "enum": [*OPEN, *FINAL]},
    progress={"type": "object"},
    created=TEXT,
    result={"type": ["object", "null"]},
    error={"type": ["object", "null"]},
    links={"type": "object"},
)


def _accepts(body: type[BaseModel]) -> dict[str, Any]:
    """How an endpoint that takes jobs is described."""
    schema = {"application/json": {"schema": body.model_json_schema()}}
    return {
        "status_code": 202,
        "response_class": JSONResponse,
        "responses": {
            **PROBLEMS,
            202: {**A_JOB, "description": "Accepted: it will be run."},
            **dict.fromkeys((401, 403, 408, 507), PROBLEM),
        },
        "openapi_extra": {"requestBody": {"required": True, "content": schema}},
    }


@router.post("/jobs", summary="Have a model predicted or measured", **_accepts(JobBody))
async def submit(request: Request) -> Response:
    """Accept a job; it is run to its end even if the server is killed meanwhile."""
    uploads = _runner(request).uploads
    return await _accepted(
        request, lambda body, settings: read_request(body, settings, uploads)
    )


@router.post(
    "/jobs/learn", summary="Have the server's machine learned", **_accepts(LearnBody)
)
async def learn(request: Request) -> Response:
    """Accept a job that measures this machine; it is in the list when it is done."""
    return await _accepted(request, read_learning)


async def _accepted(
    request: Request, read: Callable[[object, Settings], dict[str, Any]]
) -> Response:
    runner = _runner(request)
    body, owner = await request.body(), owner_of(request.scope)

    def accept() -> JobRecord:
        asked = read(parse(body), runner.settings)
        if asked["kind"] != "predict":
            check_token(request.scope, "measure")
        return runner.submit(asked, owner)

    document = job_document(await stored(accept))
    headers = {"Location": document["links"]["self"], "Cache-Control": "no-store"}
    return JSONResponse(document, 202, headers)


@router.get(
    "/jobs/{key}", summary="How far a job is", responses={**PROBLEMS, 200: A_JOB}
)
async def job(request: Request, key: Key) -> Response:
    """The job as it is now."""
    return _sent(await _found(request, key))


@router.delete(
    "/jobs/{key}",
    summary="Cancel a job, or have it deleted",
    responses={
        **PROBLEMS,
        200: A_JOB,
        204: {"description": "It is deleted."},
        **dict.fromkeys((401, 403, 409, 507), PROBLEM),
    },
)
async def cancel(
    request: Request,
    key: Key,
    forget: Annotated[
        bool, Query(description="Delete the job and its result, not only cancel it.")
    ] = False,
) -> Response:
    """End a job that waits or runs; its process is killed."""
    runner = _runner(request)
    found = await _found(request, key)
    if found.owner != owner_of(request.scope) and not may_all(request.scope):
        raise Problem(403, "this job is somebody else's")
    record = await stored(lambda: runner.cancel(key))
    assert record is not None
    if forget:
        for gone in await stored(lambda: runner.records.forget(key)):
            request.app.state.answering.memory.answers.drop(gone)
        return Response(status_code=204)
    if record.state != "cancelled":
        raise Problem(409, f"the job has {record.state} already")
    return _sent(record)


@router.get(
    "/jobs/{key}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={
        **PROBLEMS,
        200: {
            "description": (
                f"Events `state`, `progress` and `done` with the document `{SCHEMA}`; "
                "the stream ends with the job."
            ),
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    },
)
async def events(request: Request, key: Key) -> Response:
    """The changes of a job until its end."""
    runner = _runner(request)
    record = await _found(request, key)
    watch = runner.watch
    watch.stopping = request.app.state.stopping
    client = client_of(request.scope)
    watch.reserve(client)
    last_id = request.headers.get("last-event-id")
    stream = event_stream(watch, record, last_id, client)
    return StreamingResponse(
        stream, media_type="text/event-stream", headers=STREAM_HEADERS
    )


def _runner(request: Request) -> JobRunner:
    runner: JobRunner | None = getattr(request.app.state, "jobs", None)
    if runner is None:
        raise Problem(503, "this server runs no jobs", again_s=FULL_S)
    return runner


async def _found(request: Request, key: str) -> JobRecord:
    records = _runner(request).records
    record = await stored(lambda: records.get(key))
    if record is None:
        raise Problem(404, f"no job {key!r}: it may have been on another server")
    return record


def _sent(record: JobRecord) -> Response:
    return JSONResponse(job_document(record), headers={"Cache-Control": "no-store"})
