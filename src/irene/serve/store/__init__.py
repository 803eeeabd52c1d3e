"""The database of a server, SQLite or Postgres.

- `engine`: `Store`, the database and its tables.
- `migrations`: its version; older ones are brought up, newer ones are refused.
- `job_records`: the records of jobs.
- `retention`: how long and how much is kept; `backup`: a copy of all of it in one file.
"""

from __future__ import annotations

from irene.serve.store.engine import Store, open_store

__all__ = ["Store", "open_store"]
