"""The HTTP API and the dashboard: `irene serve`.

- `settings`: everything a server is told when it starts.
- `app`: `create_app`, which puts all parts together; `server` runs it.
- `api`: one module per group of endpoints; `answering` finds or computes an answer.
- `computing`: warm processes that trace and predict; the HTTP process never does.
- `store`: answers, uploads and jobs in SQLite or Postgres.
- `jobs`: long work that survives a restart.
- `web`: the dashboard, plain ES modules.
- `client`: `irene.connect`, the typed client.
- `headers`, `sizes`, `rates`, `access`, `access_log`, `metrics`: what every request
  passes through.

All of it but the client needs the extra `serve`; no other room imports any of it.
"""

from __future__ import annotations

from irene.serve.settings import Limits, Mail, Settings

__all__ = ["Limits", "Mail", "Settings"]
