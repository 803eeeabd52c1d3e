"""Sweeps that go on where they ended, and what is learned and examined by them.

- `sweep`: the runs that are wanted, from a YAML file; `located`: its lines.
- `collection_plan`: what of it is there, how long the rest takes, what became of it.
- `measuring`: the work, one measured run; nodes that runs have in common.
- `collector`: has it done, beside other collectors.
- `learning`: the machine that this runs on, in minutes; `drift`: whether it still
  behaves as it was learned; `fleet`: a node of every kind of a cluster.
- `folds`: rounds of a cross-validation on an engine; `validation`: a predictor against
  runs measured here.
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
    "CollectionPlan": "irene.collect.collection_plan",
    "Collector": "irene.collect.collector",
    "Report": "irene.collect.collection_plan",
    "Sweep": "irene.collect.sweep",
    "make_engine": "irene.work.engines",
    "plan_collection": "irene.collect.collection_plan",
    "read_sweep": "irene.collect.sweep",
}


def __getattr__(name: str) -> Any:
    """Import a part when it is asked for: the child of a task needs few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
