"""A terminal that no name of a file steers, and tables that fit it.

Numbers stay whole, lesser columns go, names shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from irene.show.text import plain, plain_lines

GAP = 2
"""Characters between two columns."""
NAME = 40
"""Characters of a name for which lesser columns go."""
LEAST = 12
"""Characters that a name keeps before numbers go, too."""
SHARE = "share"
"""How the head of a column begins that has a bar beside its number."""
PERCENT = len("100.0%")
"""Characters of a share without its bar."""


class Screen(Console):
    """Where brackets are brackets, and control characters control nothing."""

    def __init__(self, **how: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        """A text as it is shown."""
        return super().render_str(plain_lines(text), **how)


class Fitted(Table):
    """A table that never cuts a number.

    Where there is no room, bars go first, then the columns of `goes` in their order,
    then the middle of names; at last numbers from the right, whole columns at a time.
    What has gone is told below the table.

    Attributes:
        goes: Heads of the columns that may go, the first to go first.
    """

    def __init__(self, goes: Sequence[str] = ()) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
        self.goes = tuple(goes)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """The part of it that fits, and what does not."""
        widths = [_natural(each, str(each.header)) for each in self.columns]
        kept = self._kept(widths, options.max_width)
        shown = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
        for index in kept:
            each = self.columns[index]
            shown.add_column(
                Text(str(each.header), no_wrap=False), width=max(widths[index], 1),
                justify=each.justify, no_wrap=each.no_wrap, style=each.style,
                overflow=each.overflow,
            )  # fmt: skip
        cells = [list(self.columns[index].cells) for index in kept]
        for row, line in zip(self.rows, zip(*cells, strict=True), strict=True):
            fitting = (
                _fitting(cell, self.columns[index], widths[index])
                for cell, index in zip(line, kept, strict=True)
            )
            shown.add_row(*fitting, style=row.style)
        yield shown
        gone = [str(c.header) for i, c in enumerate(self.columns) if i not in kept]
        for told in (self.caption, gone and f"no room for {', '.join(gone)}"):
            if told:
                yield Text(plain_lines(str(told)), style="dim")

    def _kept(self, widths: list[int], room: int) -> list[int]:
        """Indices of the columns that stay; their widths are brought down to fit."""
        kept = list(range(len(widths)))
        heads = [str(each.header) for each in self.columns]
        names = [i for i in kept if _is_name(self.columns[i])]

        def lacks(name: int) -> bool:
            needed = [min(widths[i], name) if i in names else widths[i] for i in kept]
            return sum(needed) + GAP * (len(kept) - 1) > room

        if lacks(NAME):
            widths[:] = [_narrow(each) for each in self.columns]
        for head in filter(heads.__contains__, self.goes):
            if lacks(NAME):
                kept.remove(heads.index(head))
        for index in [i for i in reversed(kept) if i not in names][:-1]:
            if lacks(LEAST):
                kept.remove(index)
        _shrink(widths, [i for i in names if i in kept], lambda: lacks(max(widths)))
        return kept


def _shrink(widths: list[int], names: list[int], lacks: Callable[[], bool]) -> None:
    """Take from the widest name until there is room."""
    while names and lacks() and max(widths[i] for i in names) > 1:
        widths[max(names, key=widths.__getitem__)] -= 1


def _is_name(column: Column) -> bool:
    """Whether a column holds words, of which some may go."""
    return column.justify == "left" and not str(column.header).startswith(SHARE)


def _natural(column: Column, head: str) -> int:
    """Characters of a column under this head of which nothing is cut."""
    return max(len(head), *(_text(cell).cell_len for cell in column.cells), 0)


def _narrow(column: Column) -> int:
    """The same where room is scarce: heads of several words fold, bars go."""
    head = str(column.header)
    longest = max(head.split(), default="", key=len)
    return PERCENT if head.startswith(SHARE) else _natural(column, longest)


def _fitting(cell: RenderableType, column: Column, width: int) -> Text:
    """A cell as wide as its column: a name without its middle, a share without bar."""
    text = _text(cell)
    if text.cell_len <= width or not column.no_wrap:
        return text
    if not _is_name(column):
        return text[:width]
    tail = (width - 1) // 2
    head = text[: width - 1 - tail]
    return head.append("…").append_text(text[len(text) - tail :] if tail else Text())


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(plain(str(cell)))
