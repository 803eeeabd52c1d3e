"""Live accounting of PyTorch programs.

- `session`: `record`, the `with` block that becomes a ledger.
- `schedule`, `steps`: which steps are recorded, and where they begin and end.
- `hooks`: tells an observer what runs; `names`: paths of modules.
- `module_level`: modules alone, from hooks; `op_level`: every op, from the profiler.
"""

__all__: list[str] = []
