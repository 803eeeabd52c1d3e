"""How wide words are, and where labels go so that none covers another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from irene.show.picture.shapes import Point

LINE = 1.2
"""Height of a line of text over its size."""
_NARROW, _SLIM, _WIDE = "ijl.,:;|!' ", '()[]{}-/ftrI"·', "mwMW@%—→∑"


def text_width(words: str, size: float, bold: bool = False) -> float:
    """Width of a text in pixels, rather too wide than too narrow.

    The reader's font is not known; these are the widths of DejaVu Sans, which is wider
    than Helvetica, Arial and most others.
    """
    em = sum(_letter(c) for c in words)
    return em * size * (1.1 if bold else 1.0)


def _letter(c: str) -> float:
    if c in _NARROW:
        return 0.34
    if c in _SLIM:
        return 0.42
    if c in _WIDE:
        return 0.98
    if ord(c) >= 0x2E80:  # letters of the far east, and emoji
        return 1.1
    return 0.70 if c.isupper() else 0.63


def shortened(words: str, size: float, room: float, bold: bool = False) -> str:
    """The text, or as much of its two ends as there is room for."""
    if text_width(words, size, bold) <= room:
        return words
    for keep in range(len(words) - 1, 1, -1):
        head = (keep + 1) // 2
        text = f"{words[:head]}…{words[len(words) - (keep - head) :]}"
        if text_width(text, size, bold) <= room:
            return text
    return "…" if text_width("…", size, bold) <= room else ""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: its left, upper, right and lower edge."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Box) -> bool:
        """Whether the two have some of the ground in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def holds(self, other: Box) -> bool:
        """Whether all of the other lies in this one."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )


@dataclass(slots=True)
class Places:
    """Gives labels a place beside their points, one after the other.

    Attributes:
        frame: Labels stay inside it.
        taken: What must not be covered.
    """

    frame: Box
    taken: list[Box] = field(default_factory=list)

    def find(
        self, at: Point, words: str, size: float, gap: float = 8
    ) -> tuple[Point, bool] | None:
        """Baseline start of a label, and whether it is so far that it needs a line.

        Returns:
            None if there is no room for it anywhere near; otherwise the place is taken.
        """
        width, height = text_width(words, size), size * LINE
        for far, (x, y) in _around(at, (width, height), gap):
            box = Box(x, y, x + width, y + height)
            if not self.frame.holds(box):
                continue
            if any(box.covers(other) for other in self.taken):
                continue
            self.taken.append(box)
            return (x, y + 0.8 * height), far
        return None


SIDES: Sequence[tuple[float, float]] = (
    (1, -0.6), (-1, -0.6), (1, 0.6), (-1, 0.6), (1, 0), (-1, 0), (0, -1), (0, 1),
)  # fmt: skip


def _around(at: Point, size: Point, gap: float) -> Iterator[tuple[bool, Point]]:
    """Upper left corners to try, near ones first."""
    for ring in range(7):
        away = gap * (1 + 1.9 * ring)
        for right, down in SIDES:
            x = at[0] + right * away - size[0] * (1 - right) / 2
            y = at[1] + down * away - size[1] * (1 - down) / 2
            yield ring > 0, (x, y)
