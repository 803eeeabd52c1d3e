"""Write the figures that the docs show as printed, from runs of their commands.

python -m scripts.figures

A block of a page chooses lines of what its command prints, by their first words; lines
between them are told as `…`, and long lines are cut. A test compares.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from irene.cli import main as irene_main

ROOT = Path(__file__).parents[1]
PAGES = (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_RUN = "serve"
"""A command that does not end."""
LONGEST = 106
GAP = "…"
UNITS = re.compile(r"[kmµnMGT]?(?:J|W|Wh|FLOP|B)")


def shown_in(page: Path) -> Iterator[tuple[str, str]]:
    """Commands of a page, and what it shows below them."""
    for text in BLOCK.findall(page.read_text(encoding="utf-8")):
        command, _, shown = text.partition("\n")
        alone = not re.search(r"^(?:[$>#]| +--)", shown, re.MULTILINE)
        if shown and alone and re.match(rf"\$ irene (?!{NOT_RUN})", command):
            yield command.removeprefix("$ irene "), shown


def printed(command: str) -> list[str]:
    """Lines that a command prints into a pipe.

    Raises:
        SystemExit: It fails.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = irene_main(shlex.split(command, comments=True))
    if code:
        raise SystemExit(f"irene {command} fails: {said.getvalue()}")
    return [line.rstrip() for line in said.getvalue().splitlines()]


def key(line: str) -> tuple[str, ...]:
    """What a line is known by: its first words that are no figures."""
    words = [word for word in line.split() if re.search(r"[^\W\d_]{2}", word)]
    words = [word for word in words if not UNITS.fullmatch(word)]
    return tuple(words[:2]) or (line.strip(),)


def chosen(shown: str, lines: list[str]) -> str:
    """The lines that a block has chosen, as they are printed now.

    Raises:
        SystemExit: A line is not printed any more.
    """
    places: list[int] = []
    for line in shown.splitlines():
        if line.strip() in ("", GAP):
            continue
        alike = [i for i, each in enumerate(lines) if key(each) == key(line)]
        after = [i for i in alike if not places or i > places[-1]]
        free = [*after, *(i for i in alike if i not in places)]
        if not free:
            raise SystemExit(f"not printed any more: {line}")
        places.append(free[0])
    result, before = [], -1
    for place in sorted(places):
        between = lines[before + 1 : place]
        result += [GAP] if any(between) else between
        result.append(cut(lines[place]))
        before = place
    result += [GAP] if any(lines[before + 1 :]) else []
    return "\n".join(result) + "\n"


def cut(line: str) -> str:
    """A line that is no longer than a page is wide."""
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST - 2].rpartition(' ')[0].rstrip(' ;,')} {GAP}"


def main() -> None:
    """Write all pages anew."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["IRENE_HOME"] = home
        os.environ.pop("COLUMNS", None)
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            for command, shown in shown_in(page):
                text = text.replace(shown, chosen(shown, printed(command)))
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
