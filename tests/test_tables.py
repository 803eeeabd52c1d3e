"""Tables that others open."""

from __future__ import annotations

import csv
import io

from irene.tables import csv_of_rows


def test_no_cell_is_a_formula() -> None:
    cells = ["=HYPERLINK(1)", "@x", "+a", "-5", "-1e-3", "plain"]
    lines = csv_of_rows(["=name"], [[cell] for cell in cells]).splitlines()
    assert lines == ["'=name", "'=HYPERLINK(1)", "'@x", "'+a", "-5", "-1e-3", "plain"]


def test_no_cell_ends_its_row() -> None:
    """A spreadsheet takes each of both for the end of a line, unless it is quoted."""
    cells = ["a\r=1", "\r=1", "a\n=1", "a\r\n=1"]
    text = io.StringIO(csv_of_rows(["x"], [[cell] for cell in cells]), newline="")
    rows = list(csv.reader(text))
    assert len(rows) == 1 + len(cells)
    assert not [row for row in rows if row[0].startswith("=")]
