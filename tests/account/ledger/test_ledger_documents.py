"""A ledger as JSON, CSV, Parquet, page and trace."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from pathlib import Path

import pyarrow.parquet
import pytest

from irene.account import Ledger, attribute
from irene.account.ledger import timeline
from irene.account.ledger.ledger_documents import VIEWS
from irene.errors import UsageError
from irene.tree import ModelTree
from tests.account.ledger.test_ledger import costs, training


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    machine = training()
    events = machine.events(("#1", "#2", "#3")).noted("warning: <b>look</b>")
    return attribute(events, [machine.counter(1.0, idle_w=10.0, relative_error=0.05)])


def test_the_document_is_a_tree_with_the_ledger_in_it(ledger: Ledger) -> None:
    document = json.loads(ledger.to_json(costs()))
    assert document["schema"] == "irene.tree/1"
    assert document["energy_j"] == pytest.approx(ledger.measured_j)
    assert document["ledger"]["schema"] == "irene.ledger/1"
    channel = document["ledger"]["channels"][0]
    parts = ("attributed_j", "idle_j", "other_j", "unattributed_j")
    assert sum(channel[part] for part in parts) == pytest.approx(channel["measured_j"])
    assert {"by_op", "by_module", "by_phase", "by_device", "operations", "rest"} <= set(
        document["ledger"]
    )
    tree = ModelTree.from_json(json.dumps(document))
    assert tree.total().energy_j == pytest.approx(ledger.measured_j)


def test_the_document_has_the_power_over_time(ledger: Ledger) -> None:
    view = json.loads(ledger.to_json())["ledger"]["timeline"]
    (curve,) = view["channels"]
    edges, power_w = curve["time_s"], curve["power_w"]
    assert len(edges) == len(power_w) + 1
    assert edges[0] == 0.0
    assert edges[-1] == pytest.approx(ledger.window_s, abs=1e-6)
    assert sum(
        watts * (end - start)
        for watts, start, end in zip(power_w, edges, edges[1:], strict=False)
        if watts is not None
    ) == pytest.approx(ledger.measured_j, rel=0.01)
    assert power_w[0] == pytest.approx(110.0)
    assert [step["label"] for step in view["steps"]] == ["#1", "#2", "#3"]
    starts = [module["start_s"] for module in view["modules"]]
    assert starts == sorted(starts)
    assert {"forward", "backward"} <= {module["phase"] for module in view["modules"]}


def test_a_long_run_has_a_timeline_that_can_be_sent(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOST_STRETCHES", 2)
    view = json.loads(ledger.to_json())["ledger"]["timeline"]
    assert len(view["modules"]) == 2
    assert len(view["steps"]) == 2


@pytest.mark.parametrize("by", VIEWS)
def test_csv_has_the_view_and_what_belongs_to_no_op(ledger: Ledger, by: str) -> None:
    rows = list(csv.DictReader(io.StringIO(ledger.to_csv(by))))
    assert [row["name"] for row in rows[-4:]] == [
        "(idle)", "(other processes)", "(unattributed)", "(no power known)",
    ]  # fmt: skip
    assert rows[-1]["energy_j"] == ""
    if by in ("op", "operation", "phase", "device"):
        total = sum(float(row["energy_j"]) for row in rows[:-1])
        assert total == pytest.approx(ledger.measured_j)


def test_csv_of_a_view_that_does_not_exist_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="mood"):
        ledger.to_csv("mood")


def test_parquet_has_every_event(ledger: Ledger, tmp_path: Path) -> None:
    ledger.to_parquet(tmp_path / "events.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "events.parquet")
    assert table.num_rows == len(ledger.events)
    energies = table.column("energy_j").to_pylist()
    assert sum(energies) == pytest.approx(ledger.attributed_j)
    assert table.column("op").to_pylist()[0] == "aten::addmm"
    facts = json.loads(table.schema.metadata[b"irene"])
    assert facts["schema"] == "irene.ledger/1"


def test_the_page_needs_nothing_and_trusts_no_name(ledger: Ledger) -> None:
    page = ledger.to_html(costs())
    assert "<b>look</b>" not in page
    assert "&lt;b&gt;look" in page
    assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//", page)
    assert "Power over time: counter" in page
    assert page.count("<svg") >= 3
    assert "encoder.layer.# · aten::mm · backward" in page
    assert "no power known" in page


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_trace_has_energies_and_a_power_lane(
    ledger: Ledger, tmp_path: Path, name: str
) -> None:
    ledger.to_perfetto(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    document = json.loads(gzip.decompress(data) if name.endswith("gz") else data)
    events = document["traceEvents"]
    ops = [event for event in events if event["ph"] == "X"]
    assert len(ops) == len(ledger.events)
    assert sum(op["args"]["own_energy_j"] for op in ops) == pytest.approx(
        ledger.attributed_j
    )
    assert document["baseTimeNanoseconds"] == ledger.window_ns[0]
    lane = [event for event in events if event["ph"] == "C"]
    assert lane[0]["name"] == "counter (W)"
    assert lane[0]["args"]["W"] == pytest.approx(110.0)
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"power", "cuda:0"}


def test_a_written_trace_can_be_read_again(ledger: Ledger, tmp_path: Path) -> None:
    from irene.account.readers.kineto.stream import TraceFile

    ledger.to_perfetto(tmp_path / "trace.json")
    file = TraceFile(tmp_path / "trace.json")
    assert sum(event["ph"] == "X" for event in file.events()) == len(ledger.events)
    assert file.metadata["otherData"]["measured_j"] == pytest.approx(ledger.measured_j)
