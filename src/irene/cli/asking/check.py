"""`irene check`: budgets of a project, and what a change did to its models."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from irene.cli.options import OUTPUT
from irene.cli.output import check_files, put_screen, write_text
from irene.cli.progress import working
from irene.errors import UsageError
from irene.parameters import Asked
from irene.show.terminal import listed, note_lines
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from irene.analyse.budgets import Check, Checked

USAGE = "[MODEL …] [options]"
EXAMPLES = """\
Budgets are in pyproject.toml, or without `tool.` in irene.toml, which wins over it:

  [[tool.irene.budget]]
  model = "configs/small.json"       # or a name, or module:factory
  batch_size = 8
  on = ["pc1", "h100"]
  max_j_per_token = 0.05             # or max_j_per_sequence
  max_change_percent = 1             # against --base

Exit code 1: over budget; 2: something could not be predicted.

examples:
  irene check
  irene check --base origin/main --markdown energy.md --junit energy.xml
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        model: Models to check (default: all).
        base: Commit, branch or tag whose models are predicted, too.
        project: Where it is (default: here).
        timeout: Most time for one model, s.
        json: One JSON document.
        markdown: Write a comment.
        junit: Write tests of a pipeline.
    """

    model: Annotated[tuple[str, ...], Asked(word=True, metavar="MODEL")] = ()
    base: Annotated[str, Asked(metavar="REF")] = ""
    project: Annotated[str, Asked(metavar="FOLDER")] = "."
    timeout: Annotated[float, Asked(metavar="S", least=1)] = 600.0
    json: Annotated[bool, Asked(group=OUTPUT)] = False
    markdown: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    junit: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None


def run(options: Options) -> int:
    """Predict, compare, print."""
    from irene.analyse.budgets import check
    from irene.show.checks import check_junit, check_markdown

    check_files(options.markdown, options.junit)
    folder = Path(options.project).resolve()
    if not folder.is_dir():
        raise UsageError(f"no folder {options.project}")
    with working("predicting"):
        found = check(
            folder, options.base, only=options.model, timeout_s=options.timeout
        )
    if options.markdown:
        write_text(options.markdown, check_markdown(found))
    if options.junit:
        write_text(options.junit, check_junit(found))
    if options.json:
        sys.stdout.write(json.dumps(found.to_dict(), allow_nan=False) + "\n")
    else:
        put_screen(_parts(found))
    return found.exit_code


def _parts(found: Check) -> Iterator[RenderableType]:
    from irene.show.checks import amounts, change_words, told_of

    cells: dict[str, Callable[[Checked], str]] = {
        "<budget": lambda row: row.budget.name,
        "J per token": lambda row: amounts(row)[0],
        "J per sequence": lambda row: amounts(row)[1],
        **({"change": change_words} if found.base else {}),
        "<": lambda row: (
            "no prediction" if row.problem else "OVER" if row.over else "ok"
        ),
    }
    yield listed(found.rows, cells, wide=("budget",))
    for row in found.rows:
        yield from (plain(f"{row.budget.name}: {line}") for line in told_of(row))
    yield from note_lines(filter(None, [found.note]))
