"""What a user can type is documented, and the documents hold together."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import irene
from irene.cli import COMMANDS, build_parser
from irene.questions import QUESTIONS

LONGEST_README = 150
EVERY_COMMAND = "Every command"
OTHER_NAMES = ("irene.example", "irene.sqlite")
"""A host and a file."""
NO_MKDOCS = "mkdocs is not installed: pip install 'irene-energy[dev]'"


def sections(markdown: str) -> dict[str, str]:
    """Text below each `## ` heading, by the heading without backticks."""
    pieces = re.split(r"^## +(.+)$", markdown, flags=re.MULTILINE)
    titles = [title.replace("`", "").strip() for title in pieces[1::2]]
    return dict(zip(titles, pieces[2::2], strict=True))


def long_options(command: str) -> set[str]:
    return options_of(build_parser(command))


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Long options of a parser and of the parsers of its sub-commands."""
    found = {o for o in parser._option_string_actions if o.startswith("--")}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set().union(*map(options_of, action.choices.values()))
    return found


def mentions(text: str, option: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


def relative_links(markdown: str) -> list[str]:
    """Targets of links and pictures that point into the repository."""
    targets = re.findall(r"\]\(\s*<?([^)\s>]+)", markdown)
    targets += re.findall(r"(?:src|href|srcset)=\"([^\"]+)\"", markdown)
    return [
        target.partition("#")[0]
        for target in targets
        if not re.match(r"[a-z][a-z0-9+.-]*:|#|//", target)
    ]


def build_docs(project: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build the site; not quietly, which would hide the warnings from --strict."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--site-dir", str(out / "site")],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )


def python_blocks(page: Path) -> list[str]:
    """Python in a page or a notebook, each block as it could be run."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def inline_imports(page: Path) -> list[str]:
    """`from … import …` in the words of a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"`(from irene[\w.]* import [\w, ]+)`", text)


def commands_in(page: Path) -> list[str]:
    """Whole `irene` commands of a page, those with placeholders left out."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(console|sh)\n(.*?)^```", text, re.M | re.DOTALL)
    typed = [
        line.removeprefix("$ ")
        for kind, block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if kind == "sh" or line.startswith("$ ")
    ]
    found = []
    for line in typed:
        for command in re.split(r"&&|#| >", line):
            words = command.strip().removeprefix(".venv/bin/")
            if re.match(r"irene [a-z]", words) and not re.search(r"[…\[|$]", words):
                found.append(words)
    return found


def is_understood(command: str) -> bool:
    """Whether the options of a command exist and have possible values."""
    _, name, *words = shlex.split(command)
    if name not in COMMANDS:
        return False
    try:
        build_parser(name).parse_args(words)
    except SystemExit:
        return False
    return True


def named_in(source: str) -> Iterator[tuple[str, str]]:
    """Module and name of all that a piece of Python takes from irene."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr


def missing(module: str, name: str) -> bool:
    """Whether something is named that irene does not have."""
    if module.partition(".")[0] != "irene":
        return False
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return True
    if not name or hasattr(found, name):
        return False
    return importlib.util.find_spec(f"{module}.{name}") is None


def dotted_names(page: Path) -> set[str]:
    """`irene.room.name` in the words of a page; not the names of documents."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"`(irene(?:\.\w+)+)(?:\([^`]*\))?`", text)
    return {each for each in found if each not in OTHER_NAMES}


def reachable(dotted: str) -> bool:
    """Whether a dotted name is a module of irene, or something in one."""
    try:
        found = importlib.util.find_spec(dotted)
    except (ModuleNotFoundError, AttributeError):
        found = None
    if found is not None:
        return True
    module, _, name = dotted.rpartition(".")
    return bool(module) and not missing(module, name)


def pages(repository: Path) -> list[Path]:
    """All that is written for people."""
    docs = repository / "docs"
    return [
        *(repository / name for name in ("README.md", "CONTRIBUTING.md")),
        *sorted(docs.rglob("*.md")),
        *sorted(docs.rglob("*.ipynb")),
    ]


@pytest.fixture(scope="module")
def reference(repository: Path) -> ModuleType:
    """The script that writes parts of the reference."""
    file = repository / "scripts" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cli_sections(repository: Path) -> dict[str, str]:
    page = repository / "docs" / "reference" / "cli.md"
    return sections(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_documented(
    cli_sections: dict[str, str], command: str
) -> None:
    assert COMMANDS[command].summary
    assert f"irene {command}" in cli_sections


@pytest.fixture(scope="module")
def the_run(repository: Path) -> str:
    page = repository / "docs" / "reference" / "questions.md"
    return sections(page.read_text(encoding="utf-8"))["The run"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_long_option_is_documented(
    cli_sections: dict[str, str], the_run: str, command: str
) -> None:
    text = cli_sections[f"irene {command}"] + cli_sections[EVERY_COMMAND]
    if "(questions.md#the-run)" in text:
        text += the_run
    lacking = {option for option in long_options(command) if not mentions(text, option)}
    assert lacking == set()


def test_no_command_is_documented_that_does_not_exist(
    cli_sections: dict[str, str],
) -> None:
    documented = {title for title in cli_sections if title.startswith("irene ")}
    assert documented == {f"irene {command}" for command in COMMANDS}


def test_the_reference_is_what_the_program_says(reference: ModuleType) -> None:
    """Otherwise: python -m scripts.reference."""
    made: dict[Path, str] = reference.pages()
    assert {page.name for page in made} >= {"python.md", "questions.md"}
    stale = [p.name for p, text in made.items() if p.read_text("utf-8") != text]
    assert stale == []


def test_every_name_of_the_front_door_is_documented(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "python.md").read_text("utf-8")
    lacking = [
        name for name in irene.__all__ if not re.search(rf"`(irene\.)?{name}\b", page)
    ]
    assert lacking == []


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_every_parameter_is_documented(repository: Path, question: str) -> None:
    page = (repository / "docs" / "reference" / "questions.md").read_text("utf-8")
    by_title = sections(page)
    text = by_title["The run"] + by_title[question]
    told = set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))
    asked = {each.name for each in QUESTIONS[question].parameters()}
    assert asked - told == set()


def test_commands_of_pages_are_understood(repository: Path) -> None:
    shown = [(p.name, c) for p in pages(repository) for c in commands_in(p)]
    assert len({command for _, command in shown}) > 50
    assert [each for each in shown if not is_understood(each[1])] == []


def test_what_pages_take_from_irene_is_there(repository: Path) -> None:
    found = [
        f"{page.name}: {module} {name}"
        for page in pages(repository)
        for source in (*python_blocks(page), *inline_imports(page))
        for module, name in named_in(source)
        if missing(module, name)
    ]
    assert found == []


def test_what_pages_name_is_there(repository: Path) -> None:
    found = [
        f"{page.name}: {dotted}"
        for page in pages(repository)
        for dotted in sorted(dotted_names(page))
        if not reachable(dotted)
    ]
    assert found == []


def test_readme_is_short(repository: Path) -> None:
    lines = (repository / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < LONGEST_README


def test_readme_links_exist(repository: Path) -> None:
    links = relative_links((repository / "README.md").read_text(encoding="utf-8"))
    assert [link for link in links if not (repository / link).exists()] == []


def test_documentation_builds_without_a_warning(
    repository: Path, tmp_path: Path
) -> None:
    pytest.importorskip("mkdocs", reason=NO_MKDOCS)
    done = build_docs(repository, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").is_file()


def test_a_broken_link_fails_the_build(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason=NO_MKDOCS)
    shutil.copy(repository / "mkdocs.yml", tmp_path)
    shutil.copytree(repository / "docs", tmp_path / "docs")
    links = ("nowhere.md", "reference/cli.md#nowhere", "/x.md")
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write("".join(f"\n[broken]({link})\n" for link in links))
    done = build_docs(tmp_path, tmp_path)
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert [link for link in links if not any(link in line for line in told)] == []


def test_options_of_sub_commands_count() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--above")
    parser.add_subparsers().add_parser("word").add_argument("--below")
    assert options_of(parser) == {"--help", "--above", "--below"}


def test_a_name_that_is_gone_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`irene.analyse.Gone`, `irene.spec.RunSpec`, `from irene.tree import Gone`\n"
        "```python\nfrom irene.analyse import Gone, Subject\nirene.gone()\n```\n"
    )
    (block,), (inline,) = python_blocks(page), inline_imports(page)
    named = [*named_in(block), *named_in(inline)]
    assert [each for each in named if missing(*each)] == [
        ("irene.analyse", "Gone"), ("irene", "gone"), ("irene.tree", "Gone"),
    ]  # fmt: skip
    names = dotted_names(page)
    assert [each for each in names if not reachable(each)] == ["irene.analyse.Gone"]


def test_a_command_that_is_gone_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ irene cost gpt2 \\\n  --prize 2 > x.txt  # how much\n"
        "$ irene cost MODEL [options]\n$ irene trace gpt2 && irene gone\n```\n"
    )
    shown = commands_in(page)
    assert shown == ["irene cost gpt2    --prize 2", "irene trace gpt2", "irene gone"]
    assert [is_understood(each) for each in shown] == [False, True, False]


def test_the_checks_find_what_they_look_for() -> None:
    text = "a\n## `irene x`\nuse `--seq-len N`\n## Every command\n`--json`\n"
    assert set(sections(text)) == {"irene x", EVERY_COMMAND}
    assert mentions(text, "--seq-len")
    assert not mentions(text, "--seq")
    assert relative_links("[a](docs/a.md#b) [c](https://x.org) [d](#e)") == [
        "docs/a.md"
    ]
    assert relative_links('<img src="docs/tree.svg">') == ["docs/tree.svg"]
