"""Long work: a model that somebody brought, or a measurement on this machine.

An accepted job is a row of the store before the client hears of it, and it is run to
its end whatever happens to the server meanwhile.

- `request`: what may be asked for.
- `runner`: `start_jobs`; one process per data folder runs the jobs, all of them accept.
- `durable`: the queue that survives `kill -9`; the only module that knows DBOS.
- `execution`: one job from beginning to end.
- `limited_process`: the process a job runs in, seen from outside; `work`: from inside;
  `bounds`: what it may use; `file_lock`: one at a time.
- `watch`: who follows a job is told of its changes; `events`: as an event stream.
- `notify`: e-mail and webhooks; `safe_address`: where a webhook may go.
- `document`: the JSON document of a job.
"""

from __future__ import annotations

__all__: list[str] = []
