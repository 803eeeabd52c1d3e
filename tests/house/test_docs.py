"""What a user can type is documented, and the documents hold together."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from irene.cli import COMMANDS, build_parser

LONGEST_README = 150
EVERY_COMMAND = "Every command"
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


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_long_option_is_documented(
    cli_sections: dict[str, str], command: str
) -> None:
    text = cli_sections[f"irene {command}"] + cli_sections[EVERY_COMMAND]
    missing = {option for option in long_options(command) if not mentions(text, option)}
    assert missing == set()


def test_no_command_is_documented_that_does_not_exist(
    cli_sections: dict[str, str],
) -> None:
    documented = {title for title in cli_sections if title.startswith("irene ")}
    assert documented == {f"irene {command}" for command in COMMANDS}


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


def test_the_checks_find_what_they_look_for() -> None:
    text = "a\n## `irene x`\nuse `--seq-len N`\n## Every command\n`--json`\n"
    assert set(sections(text)) == {"irene x", EVERY_COMMAND}
    assert mentions(text, "--seq-len")
    assert not mentions(text, "--seq")
    assert relative_links("[a](docs/a.md#b) [c](https://x.org) [d](#e)") == [
        "docs/a.md"
    ]
    assert relative_links('<img src="docs/tree.svg">') == ["docs/tree.svg"]
