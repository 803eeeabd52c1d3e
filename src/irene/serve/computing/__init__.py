"""Warm processes that trace and predict, so that the HTTP process never waits.

- `frames`: how the two sides talk: JSON and bytes over pipes, never a pickle.
- `worker`: the program of a process; `limits` keeps it in bounds.
- `pool`: starts processes, asks them, ends those that take too long.
- `questions`: how they are answered there.
"""

from __future__ import annotations

from irene.serve.computing.pool import Pool, Reply

__all__ = ["Pool", "Reply"]
