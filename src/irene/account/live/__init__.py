"""Live accounting of PyTorch programs.

- `session`: `record`, the `with` block that becomes a ledger; `sampling`: its power.
- `script`: programs that know nothing of us; `after_import`: when they come to us.
- `ranks`, `event_file`, `merging`: several processes, each with a file of its own.
- `schedule`, `steps`: which steps are recorded, and where they begin and end.
- `hooks`: tells an observer what runs; `names`: paths of modules.
- `module_level`: modules alone, from hooks; `op_level`: every op, from the profiler.
"""

__all__: list[str] = []
