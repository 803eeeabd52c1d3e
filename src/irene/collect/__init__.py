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

from typing import TYPE_CHECKING

from irene.lazy import lazily

if TYPE_CHECKING:
    from irene.collect.collection_plan import CollectionPlan, Report, plan_collection
    from irene.collect.collector import Collector
    from irene.collect.sweep import Sweep, read_sweep
    from irene.work.engines import make_engine

__all__ = [
    "CollectionPlan",
    "Collector",
    "Report",
    "Sweep",
    "make_engine",
    "plan_collection",
    "read_sweep",
]

__getattr__ = lazily(__name__)
