"""Sweep files as people write them, rightly and wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from irene.collect.sweep import read_sweep, shipped_sweeps
from irene.errors import UsageError
from irene.trace import catalogue


@pytest.fixture
def read(tmp_path):
    def from_text(text: str):
        path = tmp_path / "sweep.yaml"
        path.write_text(text)
        return read_sweep(path)

    return from_text


def test_the_papers_sweep_is_six_models_at_thirty_two_sizes():
    sweep = read_sweep("paper")
    assert len(sweep.specs) == 192
    assert len({spec.model for spec in sweep.specs}) == 6
    assert {spec.batch_size for spec in sweep.specs} == {8, 16, 24, 32}
    assert {spec.seq_len for spec in sweep.specs} == set(range(32, 257, 32))
    assert sweep.measurement.protocol.round_s == 20.0


@pytest.mark.parametrize("name", shipped_sweeps())
def test_models_of_shipped_sweeps_are_in_the_catalogue(name):
    assert all(catalogue.find(spec.model) for spec in read_sweep(name).specs)


def test_everything_can_be_swept(read):
    sweep = read(
        """
        schema: irene.sweep/1
        machine: desk
        model: [gpt2, bert-base-uncased]
        batch_size: {from: 1, to: 9, by: 4}
        seq_len: 64
        dtype: [fp32, bf16]
        attention: [eager, sdpa]
        phase: [forward, prefill, decode]
        exclude:
          - {model: bert-base-uncased, phase: [prefill, decode]}
          - {dtype: bf16, batch_size: 9}
        include:
          - {model: t5-small, decoder_len: [8, 16]}
        protocol:
          kind: quick
          rounds: 4
          round_s: 0.5
          meters: [rapl]
          exclusive: true
          threads: 2
          timeout_s: 60
        engine:
          kind: ray
          ray: {gpus: 1, accelerator: A100, resources: {lab: 1}, retries: 2}
          slurm: {partition: gpu, options: {qos: high}}
        """
    )
    swept = [spec for spec in sweep.specs if spec.model != "t5-small"]
    assert len(sweep.specs) - len(swept) == 2
    assert {s.batch_size for s in swept} == {1, 5, 9}
    assert {s.phase for s in swept if s.model != "gpt2"} == {"forward"}
    assert not [s for s in swept if s.dtype == "bf16" and s.batch_size == 9]
    assert len(swept) == 2 * (3 + 2) + 3 * 2 * (3 + 2)
    assert sweep.machine == "desk"
    assert sweep.measurement.protocol.rounds == 4
    assert sweep.measurement.meters == ["rapl"]
    assert sweep.engine.ray.accelerator == "A100"
    assert sweep.engine.slurm.options == {"qos": "high"}


def test_a_point_that_is_listed_twice_is_one(read):
    sweep = read("model: [gpt2, gpt2]\ninclude: [{model: gpt2}]\n")
    assert len(sweep.specs) == 1


WRONG = {
    "model: [gpt2]\nbatchsize: 8\n": (2, "did you mean batch_size?"),
    "models: [gpt2]\n": (1, "write model"),
    "lengths: [8]\n": (1, "write seq_len"),
    "model: [gpt2]\nbatch_size: {from: 8}\n": (2, "write {from: 8, to: 32, by: 8}"),
    "model: [gpt2]\nbatch_size: {from: 8, to: 4}\n": (2, "is empty"),
    "model: [gpt2]\nbatch_size: {from: a, to: 4}\n": (2, "a whole number"),
    "model: [gpt2]\nbatch_size: []\n": (2, "has no values"),
    "model: [gpt2]\nbatch_size: [0]\n": (2, "at least 1"),
    "model: [gpt2]\ndtype: [fp32, fp12]\n": (2, "fp16"),
    "model: [gpt2]\ncontext_len: 8\n": (2, "needs a KV cache"),
    "model: [7]\n": (1, "put it in quotes"),
    "model: [gpt2]\n\nmodel: [gpt2]\n": (3, "there twice"),
    "model: gpt2\nprotocol:\n  kind: fast\n": (3, "one of quick, full, paper"),
    "model: gpt2\nprotocol:\n  rounds: 2.5\n": (3, "a whole number"),
    "model: gpt2\nprotocol:\n  rounds: 0\n": (2, "rounds must be 1 to"),
    "model: gpt2\nprotocol:\n  exclusive: maybe\n": (3, "true or false"),
    "model: gpt2\nengine: {kind: cloud}\n": (2, "one of local, ray, slurm"),
    "model: gpt2\nengine:\n  ray: {gpu: 1}\n": (3, "did you mean gpus?"),
    "model: gpt2\nexclude:\n  - {model: bert}\n": (3, "excludes nothing"),
    "model: gpt2\nexclude:\n  - {model: gpt2}\n": (1, "everything is excluded"),
    "model: gpt2\nexclude: 3\n": (2, "must be a list"),
    "model: gpt2\ninclude:\n  - {seq_len: 3}\n": (3, "needs its model"),
    "seq_len: 8\n": (1, "needs models"),
    "schema: irene.sweep/9\nmodel: gpt2\n": (1, "newer irene"),
    "model: gpt2\nseq_len: {from: 1, to: 999999999}\n": (2, "more than"),
    "model: [&a gpt2, *a]\n": (1, "write the value out instead of *a"),
    "model: [gpt2\n": (2, ""),
    "- gpt2\n": (1, "`key: value` lines"),
    "": (1, "it is empty"),
    "model: !!python/object/apply:os.system ['true']\n": (1, ""),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_told_with_its_line_and_what_to_write(read, text):
    line, words = WRONG[text]
    with pytest.raises(UsageError) as error:
        read(text)
    assert f"sweep.yaml:{line}: " in str(error.value)
    assert words in str(error.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_sweep(path)
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="nested too deeply"):
        read_sweep(path)
    with pytest.raises(UsageError, match=r"no sweep 'nothing'.*paper"):
        read_sweep("nothing")
    with pytest.raises(UsageError, match="cannot read"):
        read_sweep(Path(tmp_path))
