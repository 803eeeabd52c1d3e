"""Measured trees on disk.

- `table`: `NodeTable`, the measured nodes of many trees as arrays.
- `measured_data`: finds, reads and writes data, makes it of measured trees, whichever
  of the `formats` it is in: `csv2021` and `jsonl2021` are those of 2021,
  `nodes_parquet` is our own; `format_checks`: what all of them check.
- `summaries`: what is in a table or a store; `fetch`: downloads the public data.
- `store`: the folder that many collectors add to.
"""

from irene.dataset.formats.csv2021 import read_folder, write_folder
from irene.dataset.formats.jsonl2021 import (
    copy_with_predictions,
    read_jsonl,
    write_jsonl,
)
from irene.dataset.formats.nodes_parquet import (
    Provenance,
    read_parquet,
    read_provenance,
    write_parquet,
)
from irene.dataset.measured_data import add_to_file, read_data, table_of, write_data
from irene.dataset.table import FEATURES, MeasuredNode, NodeTable, TreeKey

__all__ = [
    "FEATURES",
    "MeasuredNode",
    "NodeTable",
    "Provenance",
    "TreeKey",
    "add_to_file",
    "copy_with_predictions",
    "read_data",
    "read_folder",
    "read_jsonl",
    "read_parquet",
    "read_provenance",
    "table_of",
    "write_data",
    "write_folder",
    "write_jsonl",
    "write_parquet",
]
