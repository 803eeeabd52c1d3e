"""Measured trees on disk.

- `table`: `NodeTable`, the measured nodes of many trees as arrays.
- `formats`: reads and writes data, whichever format it is in; `places`: finds it.
- `irene2021`, `csv_writer`: the CSV folders of the 2021 data.
- `jsonl`, `jsonl_writer`: the JSONL files of the 2021 data.
- `parquet`: our own format, `irene.nodes/1`.
- `values`: what a measured node can hold; `lines`, `whole_file`: files, safely.
- `from_trees`: from measured trees to a table, and into a file.
- `summary`: what is in a table, in numbers.
- `fetch`: downloads the public data.
- `store`: the folder that many collectors add to.
"""

from irene.dataset.formats.any_format import read_data, write_data
from irene.dataset.formats.csv_writer import write_folder
from irene.dataset.formats.irene2021 import read_folder
from irene.dataset.formats.jsonl import read_jsonl
from irene.dataset.formats.jsonl_writer import copy_with_predictions, write_jsonl
from irene.dataset.formats.parquet import (
    Provenance,
    read_parquet,
    read_provenance,
    write_parquet,
)
from irene.dataset.from_trees import add_to_file, table_of
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
