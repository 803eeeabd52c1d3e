"""The HTTP API and the dashboard: `irene serve`.

- `http`: settings, what every request passes through, and the endpoints.
- `answers`: found or computed once, kept, and given again.
- `computing`: warm processes that trace and predict; the HTTP process never does.
- `uploads`: files from strangers, checked and kept.
- `jobs`: long work that survives a restart.
- `store`: the database, SQLite or Postgres.
- `web`: the dashboard, plain ES modules.
- `client`: `irene.connect`, the typed client.
- `agents`: questions as tools of the Model Context Protocol; needs the extra `mcp`.
- `recent`: what was used last stays, within a bound.

All of it but the client needs the extra `serve`; no other room imports any of it.
"""

from __future__ import annotations

from irene.serve.http.settings import Limits, Mail, Settings

__all__ = ["Limits", "Mail", "Settings"]
