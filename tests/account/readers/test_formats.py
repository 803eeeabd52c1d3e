from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from irene.account.readers.recorded import read_trace, sniff
from irene.errors import UsageError

RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("keras_fit.xplane.pb.gz", "xplane"),
        ("jax_step.xplane.pb.gz", "xplane"),
        ("timeline-1.json.gz", "tf1-timeline"),
        ("jax_step.hlo.txt.gz", None),
    ],
)
def test_files_are_known_by_name_or_content(
    tmp_path: Path, name: str, kind: str | None
) -> None:
    assert sniff(RECORDED / name) == kind
    with gzip.open(RECORDED / name) as packed, (tmp_path / "a").open("wb") as file:
        shutil.copyfileobj(packed, file)
    assert sniff(tmp_path / "a") == kind


def test_a_kineto_trace_is_none_of_these(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    assert sniff(path) is None
    assert len(read_trace(path).events) == 1


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        sniff(tmp_path / "none")
