"""The database of a server, SQLite or Postgres.

- `engine`: `Store`, the database and its tables.
- `job_records`: the records of jobs.
"""

from __future__ import annotations

from irene.serve.store.engine import Store, open_store

__all__ = ["Store", "open_store"]
