"""Warm processes that trace and predict, so that the HTTP process never waits.

- `worker`: what runs in the processes of a server.
- `pool`: starts processes, asks them, ends those that take too long; `turns`: in which
  order; `moments`: what takes a moment, together.
- `questions`: how they are answered there.
"""

from __future__ import annotations

from irene.serve.computing.moments import Reply
from irene.serve.computing.pool import Pool

__all__ = ["Pool", "Reply"]
