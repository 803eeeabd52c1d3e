"""The typed client of the HTTP API: `irene.connect(base_url)`.

The functions of this program, answered by a server: the same names, the same frozen
answers, the same errors. It needs neither PyTorch nor the extra `serve`.

- `server`: `connect` and `Server`, which asks the questions of `irene.questions`.
- `client_jobs`: `Job`, work that takes longer than a request, and its event stream.
- `documents`: from JSON documents to answers.
- `transport`: requests and replies; `refusals`: from problem+json to errors.
"""

from __future__ import annotations

from irene.serve.client.client_jobs import Job, JobEvent, JobStatus
from irene.serve.client.documents import Machine, Upload
from irene.serve.client.refusals import UnreachableError
from irene.serve.client.server import Server, connect
from irene.serve.client.transport import Reply

__all__ = [
    "Job",
    "JobEvent",
    "JobStatus",
    "Machine",
    "Reply",
    "Server",
    "UnreachableError",
    "Upload",
    "connect",
]
