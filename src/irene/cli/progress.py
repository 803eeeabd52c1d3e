"""Progress on standard error, so that standard output stays clean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["working"]


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal only.

    Args:
        what: In words, without a full stop.
    """
    import sys

    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield
