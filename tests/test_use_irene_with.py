"""Every snippet of the page "Use irene with…" is run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import irene
from irene.account.served.requests import request_of
from irene.cli import main

from .account.served.made_server import MadeEngine, answering
from .measure.made_up_power import made_up_meter
from .trace.test_wrapped import sentence_encoder

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "use-irene-with.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
PYTHON = [text for kind, text in BLOCKS if kind == "python"]
COMMANDS = [
    line.partition("#")[0].strip()
    for kind, text in BLOCKS
    if kind == "sh"
    for line in text.splitlines()
]
PACKAGES = (
    "diffusers", "huggingface_hub", "mlflow", "onnx", "peft", "sentence_transformers",
    "tensorboard", "timm", "torchao", "trackio", "wandb",
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page names."""
    tmp_path = tmp_path_factory.mktemp("files")
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    from .trace.test_model_files import config_of, write_gguf

    write_gguf(tmp_path / "model.gguf", "llama", config_of("llama-3.2-1b"), "F16")
    config = BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=99,
        intermediate_size=64, architectures=["BertModel"],
    )  # fmt: skip
    (tmp_path / "config.json").write_text(config.to_json_string())
    weights = BertModel(config).state_dict()
    save_file(weights, tmp_path / "model.safetensors")
    index = {"weight_map": dict.fromkeys(weights, "model.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    node = onnx.helper.make_node("Softmax", ["x"], ["y"], name="/head/Softmax")
    ends = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["b", "s"])
        for name in "xy"
    )
    graph = onnx.helper.make_graph([node], "g", *([end] for end in ends))
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
    return tmp_path


@pytest.fixture
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(files)
    return files


@pytest.fixture
def tracked(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A ledger, and runs of all trackers that are open."""
    import mlflow
    import trackio
    import wandb

    model = torch.nn.Linear(8, 8)
    with irene.account(model, meters=[made_up_meter(here / "p.csv")]) as ledger:
        model(torch.ones(4, 8))
    for name in ("TRACKIO_DIR", "HF_HOME", "WANDB_DIR", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, str(here))
    monkeypatch.setenv("WANDB_SILENT", "true")
    mlflow.set_tracking_uri(f"sqlite:///{here}/runs.db")
    mlflow.set_experiment("snippets")
    trackio.init(project="energy", embed=False)
    with wandb.init(mode="offline", dir=here, project="energy"), mlflow.start_run():
        yield ledger
    trackio.finish()


@pytest.mark.parametrize(
    ("schema", "file"),
    [("github-actions", "action.yml"), ("gitlab-ci", "deploy/gitlab-ci.yml")],
)
def test_files_of_pipelines_keep_to_their_schemas(schema: str, file: str) -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    command = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", file]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.split("\n")[0][:60])
def test_python(code: str, here: Path, request: pytest.FixtureRequest) -> None:
    for package in PACKAGES:
        if re.search(rf"\b{package}\b", code):
            pytest.importorskip(package, reason=f"{package} is not installed")
    names: dict[str, object] = {}
    if "sentence_transformers" in code:
        sentence_encoder(here / "words").save("path/of/a/model")
    if "ledger" in code and "irene.account" not in code:
        names = {"irene": irene, "ledger": request.getfixturevalue("tracked")}
    exec(code, names)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command.split()[1:]
    if words[0] == "watch":
        meter = made_up_meter(here / "power.csv")
        words += ["--seconds", "0.2", "--every", "0.1", "--meters", meter]
        lines = next(text for kind, text in BLOCKS if kind == "jsonl")
        (here / "answers.jsonl").write_text(lines)
        with answering({"/metrics": MadeEngine(1).metrics}) as url:
            words[1] = url
            assert main(["0" if word == "11435" else word for word in words]) == 0
        assert "tells no tokens" not in capsys.readouterr().err
        return
    assert main(words) == 0
    told = capsys.readouterr()
    assert (told.err if words[0] == "monitor" else told.out) or "--out" in words


SKILL = (ROOT / "deploy" / "SKILL.md").read_text()
TAUGHT = [c for c in re.findall(r"`irene (.*?)`", SKILL) if c.split()[0] != "watch"]


@pytest.mark.parametrize("command", TAUGHT)
def test_agents_are_taught_what_works(
    command: str, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command.startswith("check"):
        budget = '[[budget]]\nmodel = "bert-l2-h128"\nmax_j_per_token = 1'
        (tmp_path / "irene.toml").write_text(budget)
        command = command.replace("--base origin/main", f"--project {tmp_path}")
    assert main(command.split()) == 0
    assert json.loads(capsys.readouterr().out)["schema"].startswith("irene.")


def test_agents_are_taught_what_is_usual() -> None:
    usual = irene.predict("bert-l2-h128").spec
    assert f"the usual {usual.batch_size} and {usual.seq_len} are taken" in SKILL


def test_files_of_others_are_what_they_are(here: Path) -> None:
    from irene.analyse.budgets import read_budgets

    for kind, text in BLOCKS:
        if kind == "toml":
            assert tomllib.loads(text)
            (here / "pyproject.toml").write_text(text)
            _, budgets = read_budgets(here)
            assert [b.run.batch_size for b in budgets] == [1, 8]
        elif kind == "jsonl":
            told = [request_of(json.loads(line), 1e9) for line in text.splitlines()]
            assert [each.output_tokens for each in told] == [113, 35, 7, 7]
            assert [each.cached_tokens for each in told] == [0, 236, 16, 16]
        elif kind == "yaml":
            assert yaml.safe_load(text)
        elif kind == "json":
            (server,) = json.loads(text)["mcpServers"].values()
            assert server == {"command": "irene", "args": ["mcp"]}
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert f"id: {hooks[0]['id']}" in PAGE.read_text()
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
