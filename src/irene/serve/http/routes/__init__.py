"""The endpoints, one module per group.

- `models`: models and machines that are known. `energy`: trees.
- `analysis`: questions asked of trees. `answers`: permalinks. `provenance`: where the
  numbers come from.
- `jobs`: longer work that clients ask for.
- `health`: for those who run the server. `pages`: the dashboard.
- `parameters`: what can be asked for; `asking`: from a request to its answer.
"""

from __future__ import annotations

__all__: list[str] = []
