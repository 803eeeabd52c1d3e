"""How trees, ledgers and answers reach the room that shows them.

A tree is drawn, paged and listed by `irene.show`, which knows trees; the tree does not
know it. The front door, `irene/__init__.py`, registers who presents; it is loaded when
something is shown for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from irene.tree.model_tree import ModelTree


class Drawing(Protocol):
    """A picture that carries the numbers behind it; see `irene.show.picture`."""

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the table."""

    @property
    def rows(self) -> tuple[tuple[str | float | int | None, ...], ...]:
        """What was drawn, a row for each value."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""

    def svg(self, theme: Literal["auto", "light", "dark"] = "auto") -> str:
        """The picture as SVG text that needs nothing else."""

    def csv(self) -> str:
        """The table that was drawn, as CSV; numbers in full."""

    def html(self) -> str:
        """The picture and its table as one page that loads nothing."""

    def png(
        self, scale: float = 2.0, theme: Literal["auto", "light", "dark"] = "light"
    ) -> bytes:
        """The picture as PNG."""

    def save(self, path: Path | str) -> tuple[Path, Path]:
        """Write the picture, and its table as CSV beside it."""


class Presenter(Protocol):
    """Who makes texts, pages and pictures for people."""

    def tree_text(self, tree: ModelTree, depth: int | None, level: str) -> str:
        """A tree as plain text."""

    def tree_latex(self, tree: ModelTree, depth: int | None, level: str) -> str:
        """A tree as a table for a paper."""

    def tree_page(self, tree: ModelTree, title: str | None) -> str:
        """A tree as a page."""

    def tree_picture(self, tree: ModelTree, kind: str, depth: int | None) -> Drawing:
        """A tree as a picture."""

    def tree_notebook(self, tree: ModelTree) -> str:
        """A tree as notebooks show it."""

    def ledger_page(
        self, ledger: Any, costs: ModelTree | None, title: str | None
    ) -> str:
        """A ledger as a page."""

    def ledger_notebook(self, ledger: Any) -> str:
        """A ledger as notebooks show it."""

    def comparison_notebook(self, comparison: Any) -> str:
        """A comparison as notebooks show it."""

    def answer_text(self, found: Any) -> str:
        """An answer as its command shows it."""

    def answer_picture(self, found: Any) -> Drawing:
        """An answer as a picture."""


class Shown:
    """An answer that is printed as its command shows it: a dataclass without a repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return presenter().answer_text(self)


class Drawn(Shown):
    """An answer that notebooks show as its picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return presenter().answer_picture(self).svg()


_registered: list[Callable[[], Presenter]] = []


def register(load: Callable[[], Presenter]) -> None:
    """Name who presents from now on."""
    _registered[:] = [load]
    presenter.cache_clear()


@cache
def presenter() -> Presenter:
    """Who presents."""
    return _registered[0]()
