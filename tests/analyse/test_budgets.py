"""Budgets of a project: what is over, what changed, and which node did it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks import check as changes

from irene.analyse.budgets import Budget, check, judged, read_budgets
from irene.analyse.comparison import compare
from irene.analyse.project import predicted_there
from irene.cli import main
from irene.errors import UsageError
from irene.parameters import read
from irene.tree import ModelTree

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000,
    "max_position_embeddings": 512,
}  # fmt: skip
CODE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(32, width)
        self.down = nn.Linear(width, 32)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

def make():
    return nn.Sequential(*(Block(48) for _ in range(3))), torch.zeros(2, 8, 32)
"""
PROJECT = """
[[tool.irene.budget]]
model = "small.json"
on = "h100"
phase = "prefill"
seq_len = 64
max_j_per_token = 1
max_change_percent = 0.01

[[tool.irene.budget]]
model = "dies:make"
max_j_per_sequence = 1
"""


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "small.json").write_text(json.dumps(CONFIG))
    (tmp_path / "dies.py").write_text("import os\n\ndef make():\n    os._exit(3)\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "base")
    return tmp_path


def test_a_change_is_told_with_its_node_in_every_form(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "small.json").write_text(json.dumps(CONFIG | {"intermediate_size": 160}))
    forms = [project / "energy.md", project / "energy.xml"]
    words = [
        "check",
        "small.json",
        "--base",
        "HEAD",
        "--project",
        str(project),
        "--json",
    ]
    assert main([*words, "--markdown", str(forms[0]), "--junit", str(forms[1])]) == 1
    (row,) = json.loads(capsys.readouterr().out)["budgets"]
    nodes = [each["node"] for each in row["changes"]]
    assert all(".mlp" in node for node in nodes if node != "elsewhere")
    assert "model.layers.*.mlp.down_proj" in nodes
    assert row["change_percent"] > 0.01
    assert "against the base" in row["over"][0]
    assert "mlp.down_proj" in forms[0].read_text()
    assert forms[0].read_text().startswith("<!-- irene check -->")
    suite = ElementTree.fromstring(forms[1].read_text())[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "J per token +" in (suite[0].findtext("system-out") or "")


def test_no_change_and_a_factory_that_dies(project: Path) -> None:
    found = check(project)
    assert found.exit_code == 2
    fine, dead = found.rows
    assert (fine.over, fine.problem) == ((), "")
    assert "exit code 3" in dead.problem


def test_the_same_model_has_not_changed(tree: ModelTree, budget: Budget) -> None:
    row = judged(budget, tree, ModelTree.from_json(tree.fold().to_json()))
    assert (row.changes, row.change_percent) == ((), 0.0)


@pytest.fixture
def budget() -> Budget:
    return read(Budget, {"model": "m:make", "max_j_per_sequence": 1e9})


Make = Callable[[str], ModelTree]
NUMBERS = itertools.count()


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])

    def made(code: str) -> ModelTree:
        name = f"made_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(code)
        argument = {"run": {"model": f"{name}:make"}, "on": "pc1"}
        return ModelTree.from_json(predicted_there(argument).decode())

    return made


@pytest.fixture
def tree(make: Make) -> ModelTree:
    return make(CODE)


@pytest.mark.parametrize(
    ("old", "new", "nodes"),
    [
        ("torch.relu", "torch.tanh", {"*.relu", "*.tanh"}),
        ("Block(48)", "Block(56)", {"*.up", "*.down", "*.relu"}),
        ("Block(48) for _ in", "Block(56 if _ == 1 else 48) for _ in",
         {"1.up", "1.down", "1.relu"}),
        ("range(3)", "range(4)", {"3"}),
        ("range(3)", "range(1)", {"1", "2"}),
        ("width", "breadth", set()),
    ],
)  # fmt: skip
def test_changes_of_code(
    make: Make, tree: ModelTree, budget: Budget, old: str, new: str, nodes: set[str]
) -> None:
    row = judged(budget, make(CODE.replace(old, new)), tree)
    found = {name.partition("/")[0].rstrip(".") for name, _ in row.changes}
    assert found - {"elsewhere"} == nodes
    compared = row.comparison
    assert compared is not None
    total_j = sum(j for _, j in row.changes)
    assert total_j == pytest.approx(compared.difference_j, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no budget"),
        ("budget = 3", r"has no budget: write \[\[budget\]\]"),
        ("[[budget]]\nmax_j_per_token = 1", "budget 1 of .*: model is missing"),
        ('[[budget]]\nmodel = "gpt2"', "limits nothing"),
        ('[[budget]]\nmodel = "gpt2"\nbatch = 3', "did you mean batch_size"),
        ('[[budget]]\nmodel = "gpt2"\non = []', "empty list"),
        ("[[budget]", "cannot read"),
    ],
)
def test_budgets_that_name_nothing(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / ".git").mkdir()
    if text:
        (tmp_path / "irene.toml").write_text(text)
    with pytest.raises(UsageError, match=told):
        read_budgets(tmp_path)


def test_random_changes_are_seen_at_their_nodes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes.main(8, 1)
    told = capsys.readouterr().out
    assert "at another node: 0" in told
    assert "invented: 0" in told


def test_lists_are_combined(tmp_path: Path) -> None:
    text = 'on = ["pc1", "pc2"]\n[[budget]]\nmodel = "gpt2"\nbatch_size = [1, 8]\n'
    (tmp_path / "irene.toml").write_text(f"{text}max_j_per_token = 1")
    _, budgets = read_budgets(tmp_path)
    assert {(b.on, b.run.batch_size) for b in budgets} == {
        ("pc1", 1), ("pc1", 8), ("pc2", 1), ("pc2", 8),
    }  # fmt: skip


def test_a_model_that_reads_no_tokens_has_no_energy_per_token(make: Make) -> None:
    code = (
        "import torch\ndef make():\n    return torch.nn.Linear(4, 2), torch.ones(8, 4)"
    )
    per_token = read(Budget, {"model": "m:make", "max_j_per_token": 1e9})
    row = judged(per_token, made := make(code))
    assert row.j_per_token is None
    assert "give max_j_per_sequence" in row.problem
    with pytest.raises(UsageError, match="has no tokens: compare it per run or seq"):
        compare(made, made, "token")
    assert compare(made, made, "sequence").unit == "input"


def test_a_second_file_with_budgets_is_told_not_to_be_read(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(project, only=["dies:make"]).note == ""
    (project / "irene.toml").write_text(PROJECT.replace("tool.irene.", ""))
    assert main(["check", "dies:make", "--project", str(project)]) == 2
    assert "irene.toml is read, pyproject.toml beside it is" in capsys.readouterr().out


def test_a_commit_that_git_does_not_know(project: Path) -> None:
    with pytest.raises(UsageError, match="fetch it first"):
        check(project, "nowhere", only=["small.json"])


def test_a_model_without_a_budget(project: Path) -> None:
    with pytest.raises(UsageError, match="no budget of gpt2"):
        check(project, only=["gpt2"])


def test_layers_that_have_numbers_for_names_are_named(budget: Budget) -> None:
    from torch import nn, zeros

    import irene

    base, now = (
        irene.predict(
            nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 64)),
            zeros(4, 64),
            on="pc1",
        )
        for width in (64, 80)
    )
    names = [name for name, _ in judged(budget, now, base).changes]
    assert sorted(names)[:3] == ["0", "1", "2"]
