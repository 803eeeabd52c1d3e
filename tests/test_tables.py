"""Tables that others open."""

from __future__ import annotations

from irene.tables import csv_of_rows


def test_no_cell_is_a_formula() -> None:
    cells = ["=HYPERLINK(1)", "@x", "+a", "-5", "-1e-3", "plain"]
    lines = csv_of_rows(["=name"], [[cell] for cell in cells]).splitlines()
    assert lines == ["'=name", "'=HYPERLINK(1)", "'@x", "'+a", "-5", "-1e-3", "plain"]
