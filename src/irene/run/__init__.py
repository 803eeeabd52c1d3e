"""Where work runs, and sweeps that go on where they ended.

Engines know nothing of what the work is:

- `task`: `Task`, a function by its import path with its argument, and its `Outcome`.
- `engine`: what every engine offers; `engines`: the engines by name.
- `child`: a task in a process of its own; `place`: where that was.
- `local`, `ray_engine`, `slurm_engine`: this machine, a Ray cluster, a Slurm cluster.
- `locks`: locks that a killed process leaves free.

- `folds`: rounds of a cross-validation on an engine.

Sweeps:

- `sweep`: the runs that are wanted; `sweep_file`, `located`: from a YAML file.
- `plan`: what of it is there, and how long the rest takes; `pace`: while it goes on.
- `collect`: measures it; `claims`: beside others; `report`: what became of it.
- `point`: what a collector knows of its work; `measuring`: that work, one measured run;
  `shared_nodes`: nodes that runs have in common.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "CollectionPlan",
    "Collector",
    "Report",
    "Sweep",
    "make_engine",
    "plan_collection",
    "read_sweep",
]

_HOMES = {
    "CollectionPlan": "irene.run.plan",
    "Collector": "irene.run.collect",
    "Report": "irene.run.report",
    "Sweep": "irene.run.sweep",
    "make_engine": "irene.run.engines",
    "plan_collection": "irene.run.plan",
    "read_sweep": "irene.run.sweep_file",
}


def __getattr__(name: str) -> Any:
    """Import a part when it is asked for: the child of a task needs few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
