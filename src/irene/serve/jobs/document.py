"""The JSON document of a job, `irene.job/1`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from irene.serve.store.job_records import JobRecord

SCHEMA = "irene.job/1"
State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
OPEN: tuple[State, ...] = ("queued", "running")
FINAL: tuple[State, ...] = ("succeeded", "failed", "cancelled")
SECRETS = ("notify",)
"""What was asked for and is nobody else's business."""


def job_document(record: JobRecord) -> dict[str, Any]:
    """A job as everybody may see it."""
    here = f"/api/v1/jobs/{record.id}"
    key = record.result_key
    return {
        "schema": SCHEMA,
        "id": record.id,
        "kind": record.kind,
        "state": record.state,
        "version": record.version,
        "attempts": record.attempts,
        "request": {k: v for k, v in record.request.items() if k not in SECRETS},
        "progress": dict(record.progress),
        "created": _time(record.created),
        "started": _time(record.started),
        "finished": _time(record.finished),
        "result": key and {"key": key, "link": f"/api/v1/answers/{key}"},
        "error": record.error and dict(record.error),
        "links": {
            "self": here,
            "events": f"{here}/events",
            "page": f"/jobs/{record.id}",
        },
    }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
