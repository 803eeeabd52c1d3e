"""Progress on standard error, so that standard output stays clean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal only.

    Args:
        what: In words, without a full stop.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar on standard error, on a terminal only.

    Args:
        what: In words, without a full stop.

    Yields:
        To be told steps done, steps in all, and what is being done; None where there
        is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, part: bar.update(
            task, completed=done, total=total, description=f"{what}: {escape(part)}"
        )
