"""The store of measured trees: a folder that many collectors add to.

- `store`: `Store`, which adds and reads; `entries`: what is known of a run.
- `store_files`: its files, its lock, and the manifest: what is in it; `segments`:
  Parquet files of trees; `tree_rows`: from trees to their rows and back, and to tables.
- `store_care`: killed writers, damaged files, many small segments.
- `store_exchange`: other data and other stores into a store, a store into other
  formats.
"""

from irene.dataset.store.entries import Entry, Origin
from irene.dataset.store.store import Store
from irene.dataset.store.store_care import Finding
from irene.dataset.store.store_files import is_store

__all__ = ["Entry", "Finding", "Origin", "Store", "is_store"]
