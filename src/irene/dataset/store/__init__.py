"""The store of measured trees: a folder that many collectors add to.

- `store`: `Store`, which adds and reads; `entry`, `origin`: what is known of a run.
- `manifest`: what is in a store; `layout`: its files; `migration`: older versions.
- `segments`, `columns`: Parquet files; `reading`, `choosing`, `medians`, `known`: from
  them to trees, tables and nodes.
- `locking`, `recovery`: several writers, killed writers, damaged files.
- `packing`: many small segments into few large ones.
- `merging`, `machines`: several stores into one; `importing`: other data into a store.
- `summary`: what is in a store, in numbers; `exporting`: into other formats.
"""

from irene.dataset.store.entry import Entry
from irene.dataset.store.known import KnownNode
from irene.dataset.store.layout import is_store
from irene.dataset.store.origin import Origin
from irene.dataset.store.recovery import Finding
from irene.dataset.store.store import Store

__all__ = ["Entry", "Finding", "KnownNode", "Origin", "Store", "is_store"]
