"""The endpoints, one module per group.

- `models`: models and machines that are known. `energy`: trees.
- `analysis`: questions asked of trees. `answers`: permalinks. `provenance`: where the
  numbers come from.
- `uploads`, `jobs`: what clients bring and ask for.
- `health`: for those who run the server. `pages`: the dashboard.
- `parameters`: what can be asked for; `asking`: from a request to its answer.
"""

from __future__ import annotations

__all__: list[str] = []
