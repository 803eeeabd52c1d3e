"""What a server keeps: answers, uploads and jobs, in SQLite or Postgres.

- `engine`: `Store`, the database and its tables.
- `answers`: answers by their key, checked whenever they are read.
- `uploads`, `jobs`: what clients brought and asked for.
"""

from __future__ import annotations

from irene.serve.store.engine import Store, open_store

__all__ = ["Store", "open_store"]
