"""Where work runs: bounded child processes, one lock per device, and engines.

- `task`: `Task`, a function by its import path with its argument, and its `Outcome`.
- `child`: a task in a process of its own; `place`: where that was.
- `lock`: locks that a killed process leaves free.
- `engines`: this machine, a Ray cluster, a Slurm cluster.
"""
