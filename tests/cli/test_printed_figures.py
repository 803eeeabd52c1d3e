"""What the docs show as printed is what a run prints."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path

import pytest
from scripts import figures, pictures

from irene.dataset import read_data
from irene.errors import IreneError

ROOT = Path(__file__).parents[2]
CASES = [
    pytest.param(command, shown, id=f"{page.name}: {command}")
    for page in figures.PAGES
    for command, shown in figures.shown_in(page)
]
DATA = "irene-pc1"
"""Data that is not shipped."""
CODE = re.compile(r"^```(python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), CASES)
def test_commands_print_what_the_docs_show(command, shown):
    if command.startswith("data "):
        try:
            read_data(command.split()[-1])
        except IreneError as error:
            pytest.skip(str(error))
    lines = figures.printed(command)
    assert figures.chosen(shown, lines) == shown, "python -m scripts.figures"


def test_a_block_follows_what_is_printed():
    lines = ["a model: 2 J", "", "part one  3.5 J", "part two  4 mJ", "end of it"]
    shown = "a model: 1 J\n\npart one  9 J\n…\n"
    wanted = "a model: 2 J\n\npart one  3.5 J\n…\n"
    assert figures.chosen(shown, lines) == wanted
    assert figures.chosen("part two  1 J\nend of it\n", lines).startswith("…\npart two")
    with pytest.raises(SystemExit, match="not printed any more: part three"):
        figures.chosen("part three  1 J\n", lines)


def code_of(page: str) -> list[tuple[str, str]]:
    """Blocks of a page, Python and what it shows to be printed, in their order."""
    return CODE.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("page", "data"), [("tutorial/first-tree", ""), ("how-to/train-a-predictor", DATA)]
)
def test_pages_print_what_they_show(page, data):
    if data:
        try:
            read_data(data)
        except IreneError as error:
            pytest.skip(str(error))
    blocks = code_of(f"docs/{page}.md")
    shown = [
        (code, text)
        for (kind, code), (after, text) in pairwise(blocks)
        if (kind, after) == ("python", "text")
    ]
    assert shown
    for code, text in shown:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(code, page, "exec"), {})
        assert text in said.getvalue()


def test_values_in_the_readme_are_those_of_a_run():
    lines = dict(code_of("README.md"))["python"].splitlines()
    names: dict[str, object] = {}
    exec("import torch, irene", names)
    for line in filter(re.compile(r"\w+ = ").match, lines):
        exec(line, names)
    told = [line.split("  # ") for line in lines if re.search(r"  # .*\d", line)]
    (energy, words), (flops, total) = told
    found = eval(energy, names)
    shown = f"joules={found.joules:.1f}, low={found.low:.1f}, high={found.high:.1f}"
    assert words == f"Energy({shown}, …)"
    assert eval(flops, names) == eval(total)


@pytest.mark.parametrize("name", pictures.COMMANDS)
def test_pictures_of_the_docs_are_drawn_from_a_run(name):
    drawn = (pictures.IMAGES / f"{name}-bert.svg").read_text(encoding="utf-8")
    assert drawn == pictures.drawn(name), "python -m scripts.pictures"
