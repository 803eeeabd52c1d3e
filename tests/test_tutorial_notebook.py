"""The tutorial notebook runs from the first cell to the last, without Jupyter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial" / "notebook.ipynb"

# Like a kernel: one namespace, and the last expression of a cell is shown.
KERNEL = """
import ast, contextlib, io, json, sys
names, shown = {"__name__": "__main__"}, []
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] != "code":
        continue
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    output = {"kind": type(value).__name__, "text": said.getvalue()}
    for form in ("html", "svg"):
        show = getattr(value, f"_repr_{form}_", None)
        output[form] = show() if show else ""
    shown.append(output)
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def outputs(folder: Path) -> list[dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:irene", "-c", KERNEL, NOTEBOOK],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_trees_comparison_and_pictures_show_themselves(outputs):
    kinds = [output["kind"] for output in outputs if output["html"] or output["svg"]]
    assert kinds == ["ModelTree", "ModelTree", "Comparison", "Picture", "Picture"]
    traced, predicted, compared = (each["html"] for each in outputs if each["html"])
    assert "FLOP" in traced
    assert "predicted for pc1" in predicted
    assert "bert-base-uncased → distilbert-base-uncased: −" in compared
    assert "a real difference" in compared


def test_what_is_printed_answers_the_headings(outputs):
    texts = [output["text"] for output in outputs if output["text"]]
    energy, parts, sizes = texts
    assert energy.rstrip().endswith("J, predicted")
    assert "encoder.layer.*.intermediate" in parts
    assert [line.split()[0] for line in sizes.splitlines()] == ["1", "2", "8", "16"]


def test_the_picture_was_written_with_its_numbers(outputs, folder):
    assert outputs[-1]["svg"] == (folder / "bert.svg").read_text(encoding="utf-8")
    assert (folder / "bert.csv").read_text(encoding="utf-8").startswith("name,depth")


def test_the_notebook_carries_no_outputs():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in code)
    assert all(cell["execution_count"] is None for cell in code)
    assert NOTEBOOK.stat().st_size < 20_000
