"""Progress on standard error, so that standard output stays clean.

Names of models may have brackets: these mean nothing here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from irene.cli.output import screen


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.text import Text

    with screen(stderr=True).status(Text(f"{what} …")):
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar on standard error, on a terminal only.

    Yields:
        To be told steps done, steps in all, and what is being done; None where there
        is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    with counted_bar(what) as bar:
        yield lambda done, total, part: bar(done, total, f"{what}: {part}")


class Bar(Protocol):
    """Shows how far something is."""

    def __call__(
        self, done: int, total: int, doing: str | None, told: str = "", line: str = ""
    ) -> None:
        """Steps done and in all, what is done if it is new, how it goes on, a line."""


@contextmanager
def counted_bar(what: str, counted: str = "") -> Iterator[Bar]:
    """A bar on standard error, which is a terminal.

    Args:
        what: What is being done first.
        counted: What is counted, and told beside it how it goes on; "" for percents
            and the time that is left.
    """
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

    rest: tuple[str | ProgressColumn, ...] = Progress.get_default_columns()[2:]
    if counted:
        numbers = f"{{task.completed}}/{{task.total}} {counted} · {{task.fields[told]}}"
        rest = (TextColumn(numbers),)
    words = TextColumn("{task.description}", markup=False)
    console = screen(stderr=True)
    with Progress(words, BarColumn(), *rest, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None, told="?")

        def show(
            done: int, total: int, doing: str | None, told: str = "", line: str = ""
        ) -> None:
            bar.update(task, completed=done, total=total, description=doing, told=told)
            if line:
                console.print(line)

        yield show
