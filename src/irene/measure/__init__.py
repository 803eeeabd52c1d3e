"""The protocol that makes a measured tree: every distinct node is run under meters.

The package is also the function: `irene.measure("bert-base-uncased", batch_size=8)`.

- `api`: `measure`, and `plan_measurement`, which runs nothing.
- `protocol`: how long, how often and how strictly.
- `readings`: what channels say about a stretch of time, and one energy of them.
- `alone`: every node on its own. `target`: the model with its inputs, where it
  is, and how to keep others off; `capture`: the call behind every distinct node, run
  again and again; `bench`: rounds under the meters; `rounds`: what disturbed them, and
  the figures from them; `node_by_node`: the plan, all nodes one after the other, and
  the measured tree; `journal` keeps those that are finished.
- `inside`: ops as they run inside a model, for `irene learn`.
- `windows`: what any stretch of a program of yours uses (`window`, `window_session`),
  and a whole program (`monitoring` runs it, `monitored` is what it used).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from irene.lazy import lazily

if TYPE_CHECKING:
    from irene.measure.api import measure
    from irene.measure.protocol import DEFAULT, PAPER, QUICK, MeasureProtocol

__all__ = ["DEFAULT", "PAPER", "QUICK", "MeasureProtocol", "measure"]

__getattr__ = lazily(__name__)
