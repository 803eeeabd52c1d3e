"""One real run, measured as a task; and nodes that runs have in common."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from irene.collect.measuring import Measured, Measuring, label_of, measure_run
from irene.collect.sweep import Measurement, Sweep
from irene.errors import FormatError, UsageError
from irene.measure.protocol import QUICK
from irene.spec import RunSpec

BRISK = {"rounds": 1, "round_s": 0.001, "extra_rounds": 0, "warm_up_s": 0.0}
HOW = Measurement("quick", {**BRISK, "idle_s": 0.0}, device="cpu", threads=1)


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def measured(spec: RunSpec, collection: str = "c") -> Measured:
        sweep = Sweep("s", (spec,), "lab", HOW)
        known = Measuring().resolve(spec)
        argument = json.loads(json.dumps(sweep.argument(known, spec.model, collection)))
        return Measured.from_bytes(measure_run(argument))

    return measured


def test_nodes_that_runs_have_in_common_are_measured_once(run):
    two = run(RunSpec("bert-l2-h128", seq_len=8))
    four = run(RunSpec("bert-l4-h128", seq_len=8))
    assert two.tree.spec == Measuring().resolve(RunSpec("bert-l2-h128", seq_len=8))
    assert "shared_nodes" not in two.tree.provenance
    name = f"bert-l2-h128 8×8 ({two.tree.spec.digest})"
    assert four.tree.provenance["shared_nodes"].endswith(f"of {name}")
    layer = "encoder.layer.0"
    assert four.tree.find(layer).energy == two.tree.find(layer).energy
    assert four.tree.root.energy != two.tree.root.energy
    assert any("are shared" in note and name in note for note in four.tree.notes)
    other = run(RunSpec("bert-l4-h128", seq_len=8), collection="another")
    assert "shared_nodes" not in other.tree.provenance


def test_a_run_that_was_interrupted_keeps_its_nodes(run):
    first = run(RunSpec("bert-l2-h128", seq_len=8))
    again = run(RunSpec("bert-l2-h128", seq_len=8))
    assert list(again.tree.energy.joules) == list(first.tree.energy.joules)
    assert "shared_nodes" not in again.tree.provenance


def test_the_origin_tells_what_measured(run):
    origin = run(RunSpec("bert-l2-h128", seq_len=8)).origin
    assert origin.hardware.name == "lab"
    assert origin.host
    assert set(origin.software) >= {"torch", "transformers", "irene"}
    assert origin.started <= origin.finished
    assert origin.duration_s > 0
    assert origin.meter


def test_what_cannot_be_measured_is_said(run):
    with pytest.raises(UsageError, match="cannot be run alone"):
        run(RunSpec("bert-l2-h128", phase="train"))
    with pytest.raises(UsageError, match="tensor_parallel is for the serving"):
        run(RunSpec("bert-l2-h128", tensor_parallel=2))


def test_guesses_grow_with_the_run():
    work = Measuring()
    small = work.resolve(RunSpec("bert-base-uncased", batch_size=1, seq_len=64))
    specs = [replace(small, batch_size=n) for n in (1, 16, 64)]
    long = replace(QUICK, round_s=0.01)
    low, middle, high = work.guess_s(specs, long, "cpu").values()
    assert low < middle < high
    assert work.guess_s([replace(small, phase="train")], QUICK, "cpu") == {}


def test_a_document_of_something_else_is_refused():
    for text in (b"", b"{}", b'{"schema": "irene.tree/1"}', b"[]"):
        with pytest.raises(FormatError):
            Measured.from_bytes(text)


def test_a_label_has_what_is_unusual():
    assert label_of(RunSpec("gpt2", 8, 64)) == "gpt2 8×64"
    spec = RunSpec("gpt2", dtype="bf16", phase="decode", context_len=32)
    assert label_of(spec) == "gpt2 8×128 context_len=32 bf16 decode"
