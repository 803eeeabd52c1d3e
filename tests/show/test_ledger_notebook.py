"""A ledger as notebooks show it, and as a data frame."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from irene.account import Ledger, attribute
from irene.account.ledger.ledger_documents import VIEWS
from irene.human import human_range
from tests.account.ledger.test_ledger import training
from tests.real_browser import browse, needs_browser
from tests.show.test_notebook import shown, words


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    machine = training()
    events = machine.events(("#1", "#2", "#3")).noted("warning: <b>look</b>")
    return attribute(events, [machine.counter(1.0, idle_w=10.0, relative_error=0.05)])


def test_the_whole_the_tree_and_the_ops_are_shown(ledger: Ledger) -> None:
    text = words(shown(ledger))
    assert f"energy: {human_range(ledger.total())}" in text
    assert "charged to" in text
    assert "⚠ warning: <b>look</b>" in text
    for row in ledger.by_op()[:3]:
        assert f"{row.name} " in text
    assert "what belongs to no op" in text
    assert "100.0% ██████████" in text


@pytest.mark.parametrize("by", VIEWS)
def test_a_data_frame_has_the_columns_of_the_csv(ledger: Ledger, by: str) -> None:
    pytest.importorskip("pandas")
    frame = ledger.to_pandas(by)
    assert ",".join(frame.columns) == ledger.to_csv(by).partition("\n")[0]
    if by == "op":
        assert frame.energy_j.sum() == pytest.approx(ledger.measured_j)


@pytest.mark.parametrize("by", VIEWS)
def test_every_row_of_a_csv_has_all_its_cells(ledger: Ledger, by: str) -> None:
    rows = list(csv.reader(io.StringIO(ledger.to_csv(by))))
    assert len({len(row) for row in rows}) == 1


@needs_browser
def test_the_tree_on_its_page_answers(ledger: Ledger, tmp_path: Path) -> None:
    page, _ = browse(ledger.to_html(), tmp_path)
    # The script ran to its end: the search box shows, and modules are open or closed.
    assert '<div class="tools needs-script">' in page
    assert 'aria-expanded="true"' in page
