"""Rows of a table as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["rows_csv"]


def rows_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """The text of a CSV file.

    Args:
        rows: All have the same keys, which are the first line.
    """
    several = list(rows)
    text = io.StringIO()
    columns = list(several[0]) if several else []
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in r.items()} for r in several)
    return text.getvalue()
