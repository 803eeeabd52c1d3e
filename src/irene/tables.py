"""Tables as text and for other libraries: CSV, pandas, pyarrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from irene.errors import library

FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""What a formula begins with, in one program or another."""


def csv_of_rows(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """The text of a CSV file; numbers in full, nothing where a value is None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_inert, names))
    writer.writerows(map(_inert, row) for row in rows)
    # What no UTF-8 file could hold becomes a question mark.
    return text.getvalue().encode("utf-8", "replace").decode("utf-8")


def _inert(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before it."""
    if not isinstance(cell, str):
        return cell
    cell = cell.replace(
        "\r", "\n"
    )  # it ends a row, too, and `csv` puts no quotes around
    if not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def csv_of_columns(columns: Mapping[str, Iterable[Any]]) -> str:
    """The text of a CSV file."""
    return csv_of_rows(list(columns), zip(*columns.values(), strict=True))


def csv_of_records(records: Iterable[Mapping[str, Any]]) -> str:
    """The text of a CSV file of records that all have the same keys."""
    several = list(records)
    names = list(several[0]) if several else []
    return csv_of_rows(names, ([record[name] for name in names] for record in several))


def data_frame(columns: Mapping[str, Any]) -> Any:
    """A pandas DataFrame of these columns."""
    pandas = library(
        "pandas",
        "data frames need pandas: pip install pandas, or "
        "pip install 'irene-energy[pandas]'",
    )
    return pandas.DataFrame(dict(columns))


class Arrow(NamedTuple):
    """The two modules of pyarrow that are used."""

    pa: Any
    pq: Any


def pyarrow(
    why: str = "Parquet files and stores need pyarrow", extra: str = "data"
) -> Arrow:
    """The modules `pyarrow` and `pyarrow.parquet`."""
    missing = f"{why}: pip install 'irene-energy[{extra}]'"
    return Arrow(library("pyarrow", missing), library("pyarrow.parquet", missing))
