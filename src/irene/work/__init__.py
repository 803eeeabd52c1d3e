"""Where work runs: bounded child processes, one lock per device, and engines.

- `task`: `Task`, a function by its import path with its argument, its `Outcome`, and
  how it reports how far it is.
- `child`: a process that runs tasks; `bounds`: what they may use.
- `lock`: locks that a killed process leaves free.
- `engines`: this machine, a Ray cluster, a Slurm cluster.
"""
