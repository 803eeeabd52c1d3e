"""The steps of the GitHub Action, run by bash in a project of git's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STEPS = {
    step["name"]: step["run"]
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
}
BUDGET = """\
[[budget]]
model = "bert-l2-h128"
batch_size = {batch}
max_j_per_sequence = 1e9
max_change_percent = 1
"""
GH = """\
#!/bin/sh
echo "$@" >> "$GH_LOG"
case "$*" in *--jq*) cat "$GH_COMMENTS" || exit 1;; esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "irene.toml").write_text(BUDGET.format(batch=1))
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def runner(tmp_path: Path, project: Path):
    """Run a step as GitHub does, with commands that are ours."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gh").write_text(GH)
    (tools / "irene").write_text(f'#!/bin/sh\nexec {sys.executable} -m irene "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    env = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "BASE": "HEAD",
        "GITHUB_ENV": str(tmp_path / "env"), "PROJECT": str(project),
        "REPOSITORY": "o/r", "NUMBER": "7", "GH_LOG": str(tmp_path / "gh.log"),
        "GH_COMMENTS": str(tmp_path / "comments"),
    }  # fmt: skip
    (tmp_path / "comments").touch()

    def run(name: str, **more: str) -> int:
        words = ["bash", "-e", "-o", "pipefail", "-c", STEPS[name]]
        done = subprocess.run(words, env={**env, **more}, cwd=project, check=False)
        return done.returncode

    return run


def test_the_action_checks_comments_once_and_judges(runner, tmp_path: Path, capfd):
    assert runner("Check") == 0
    assert (tmp_path / "env").read_text() == "IRENE_CODE=0\n"
    assert "bert-l2-h128" in (tmp_path / "summary.md").read_text()
    assert runner("Comment") == 0
    (tmp_path / "comments").write_text("42\n")
    assert runner("Comment") == 0
    log = (tmp_path / "gh.log").read_text().splitlines()
    assert "--silent repos/o/r/issues/7/comments" in log[1]
    assert "--method PATCH repos/o/r/issues/comments/42" in log[3]
    (tmp_path / "comments").unlink()
    assert runner("Comment") == 0
    assert "may not comment" in capfd.readouterr().out
    assert len((tmp_path / "gh.log").read_text().splitlines()) == 5
    assert (tmp_path / "irene.md").read_text().startswith("<!-- irene check -->")
    assert runner("Verdict", IRENE_CODE="0") == 0
    assert runner("Verdict", IRENE_CODE="1") == 1
