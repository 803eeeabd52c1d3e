"""Energy as a function of a size: the curve, and where it crosses a budget or another.

A size is a whole number, and every size has its own prediction: what is found is found
on the function itself, between two neighbours, not between the points of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, get_args

from irene.analyse.subject import LeftOut, Progress, Subject, tree_of
from irene.energy import Difference, Energy, difference
from irene.errors import UsageError
from irene.plain import Document
from irene.presented import Drawn
from irene.spec import RunOptions, RunSpec, shows_run_options

if TYPE_CHECKING:
    from irene.tree import ModelTree

Size = Literal[
    "batch_size", "seq_len", "decoder_len", "context_len", "prompt_len", "output_len"
]
FURTHEST = 1 << 16
LARGEST_BATCH = 512
POINTS = 32
NEAR = 64
"""Sizes after the last that was found that are looked at, too: a size that fills its
tiles may take less than smaller ones, by 5 % and up to 47 sizes later."""


@dataclass(frozen=True, slots=True, repr=False)
class Curve:
    """Energy of a run against one of its sizes.

    Attributes:
        subject: The run as its machine runs it at the least size, and the machine.
        over: The size that varies.
        least: Least size.
        most: Largest size that the model takes, of those looked at.
        known: Energies that were asked for.
        unfit: Sizes among them that do not fit into the memory of the machine.
    """

    subject: Subject
    over: Size
    least: int
    most: int
    known: dict[int, Energy] = field(default_factory=dict, compare=False)
    unfit: set[int] = field(default_factory=set, compare=False)

    def __repr__(self) -> str:
        """Short, for people."""
        sizes = f"{self.over} {self.least:,} to {self.most:,}"
        return f"<Curve {self.subject.run.model}, {sizes}, for {self.subject.on}>"

    def at(self, size: int) -> Energy:
        """Energy of one run at a size, with its interval.

        Raises:
            UsageError: The model does not take that size.
        """
        if size not in self.known:
            self.tree(size)
        return self.known[size]

    def tree(self, size: int) -> ModelTree:
        """What `at` is the energy of, node by node.

        Raises:
            UsageError: The model does not take that size.
        """
        from irene.tree.headline import unfit, whole_energy  # a help needs no tree

        tree = tree_of(self.subject.changed({self.over: size}))
        self.known[size] = whole_energy(tree)
        if unfit(tree):
            self.unfit.add(size)
        return tree

    def points(self, sizes: Iterable[int] | None = None) -> dict[int, Energy]:
        """Energies by size; by default at most 32 sizes, even apart on a log scale."""
        found = _spread(self.least, self.most) if sizes is None else sizes
        return {size: self.at(size) for size in found}

    def largest_under(self, joules: float) -> int | None:
        """Largest size at which a run takes at most so much energy; None if none.

        Args:
            joules: The budget of one run, J.
        """
        return _last(lambda size: self.at(size).joules <= joules, self.least, self.most)

    def cheaper_from(self, other: Curve) -> int | None:
        """Size from which on it takes less energy than another; None if it never does.

        Args:
            other: A curve over the same size.

        Raises:
            UsageError: The other curve is over another size.
        """
        return self._first(other, lambda found: found.joules > 0)

    def surely_cheaper_from(self, other: Curve) -> int | None:
        """The same, where the interval of the difference leaves zero out as well."""
        return self._first(other, lambda found: found.joules > 0 and found.is_real)

    def _first(self, other: Curve, holds: Callable[[Difference], bool]) -> int | None:
        """Size from which on something holds of the other's energy less its own."""
        if other.over != self.over:
            raise UsageError(f"one curve is over {self.over}, one over {other.over}")
        least, most = max(self.least, other.least), min(self.most, other.most)

        def fails(size: int) -> bool:
            return not holds(difference(self.at(size), other.at(size)))

        if least > most or fails(most):
            return None
        last = _last(fails, least, most)
        return least if last is None else last + 1


def _spread(least: int, most: int) -> list[int]:
    """At most 32 sizes, even apart on a log scale, both ends among them."""
    ratio = (most / least) ** (1 / (POINTS - 1))
    return sorted({round(least * ratio**i) for i in range(POINTS)})


def _last(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """The last whole number for which something holds.

    It is looked for between the last of 32 sizes at which it holds and the next, and
    at every size that follows, until it holds at none of 64.
    """
    sizes = _spread(least, most)
    place = next((i for i in reversed(range(len(sizes))) if holds(sizes[i])), None)
    if place is None:
        return None
    if place == len(sizes) - 1:
        return most
    size = last = _between(holds, sizes[place], sizes[place + 1])
    while size < min(last + NEAR, most):
        size += 1
        last = size if holds(size) else last
    return last


def _between(holds: Callable[[int], bool], good: int, bad: int) -> int:
    """The last whole number for which something holds that holds no more later."""
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


@shows_run_options
def curve(
    model: str,
    *,
    over: Size = "seq_len",
    on: str = "default",
    least: int | None = None,
    most: int | None = None,
    **run: Unpack[RunOptions],
) -> Curve:
    """Energy of a model against one of its sizes, as a function.

    Args:
        model: Catalogue name, Hugging Face id, or path of a config.json.
        over: The size that varies: `batch_size`, `seq_len`, …
        on: Name of a machine, or the file of a saved predictor.
        least: Least size; by default a batch of 1, a length of 2.
        most: Largest size; by default as far as the model goes, at most 65,536 tokens
            of a length or sequences of a batch of 512.
        **run: How it is run, as for `irene.predict`; without the size that varies.

    Raises:
        UsageError: The model or the machine is unknown, or it takes no such size.
    """
    return _curve_of(Subject(RunSpec.asked(model, dict(run)), on), over, least, most)


def _curve_of(
    subject: Subject, over: Size, least: int | None = None, most: int | None = None
) -> Curve:
    """The curve of a subject, see `curve`."""
    if subject.is_tree:
        raise UsageError(f"{subject.run.model} is a tree of one size: name a model")
    if over not in get_args(Size):
        raise UsageError(f"what varies is one of {', '.join(get_args(Size))}: {over!r}")
    if subject.run.given(over):
        raise UsageError(f"{over} varies: leave it out")
    usual, furthest = (1, LARGEST_BATCH) if over == "batch_size" else (2, FURTHEST)
    least = usual if least is None else least
    furthest = furthest if most is None else most
    if least > furthest:
        raise UsageError(f"from {least:,} on there is no {over} up to {furthest:,}")
    found = Curve(subject, over, least, least)
    first = found.tree(least)
    run = first.spec
    assert run is not None
    found = replace(found, subject=replace(subject, run=run.of(subject.run.model)))
    last = furthest
    if not _is_taken(found, furthest):
        last = _between(lambda size: _is_taken(found, size), least, furthest)
    if most is not None and last != most:
        name = subject.run.model
        raise UsageError(f"{name} takes {over} up to {last:,}, asked for {most:,}")
    if least < last and _work(first) == _work(found.tree(last)):
        raise UsageError(f"{over} means nothing to {subject.run.model}: vary another")
    return replace(found, most=last)


def _work(tree: ModelTree) -> list[int]:
    """All FLOPs, and all bytes read and written."""
    columns = tree.columns
    costs = columns.flops, columns.bytes_read, columns.bytes_written
    return [int(column[0]) for column in costs]


def _is_taken(of: Curve, size: int) -> bool:
    try:
        of.at(size)
    except UsageError:
        return False
    return True


# Several, as an answer ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A size, the energy of a run there, and whether that fits into the memory."""

    size: int
    energy: Energy
    fits: bool


@dataclass(frozen=True, slots=True)
class Line:
    """The curve of one subject; of its run, the size that varies is the least."""

    name: str
    hardware: str
    run: RunSpec
    most: int
    points: tuple[CurvePoint, ...]
    largest: int | None = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """Which of two is cheaper at last, and from which size on.

    Attributes:
        cheaper: Name of the one.
        dearer: Name of the other.
        since: Size from which on it takes less; None where both take the same.
        surely_since: Size from which on the interval of the difference leaves zero out;
            None where it never does.
    """

    cheaper: str
    dearer: str
    since: int | None
    surely_since: int | None


@dataclass(frozen=True, slots=True, repr=False)
class Curves(Drawn, Document):
    """Energies as functions of a size, and where the first crosses the others."""

    over: Size
    under_j: float | None
    lines: tuple[Line, ...]
    crossings: tuple[Crossing, ...]
    left_out: tuple[LeftOut, ...] = ()

    schema: ClassVar = "irene.curves/1"

    def table(self) -> list[dict[str, Any]]:
        """One flat row for each point."""
        return [
            {
                "name": line.name, "hardware": line.hardware, self.over: point.size,
                "energy_j": point.energy.joules, "low_j": point.energy.low,
                "high_j": point.energy.high,
            }
            for line in self.lines
            for point in line.points
        ]  # fmt: skip


def draw(
    subjects: Sequence[Subject],
    names: Sequence[str],
    over: Size,
    under_j: float | None = None,
    progress: Progress | None = None,
) -> Curves:
    """Energies of subjects as functions of a size, and where they cross."""
    curves: dict[str, Curve] = {}
    left_out: list[LeftOut] = []
    for done, (subject, name) in enumerate(zip(subjects, names, strict=True)):
        if progress:
            progress(done, len(subjects), name)
        try:
            curves[name] = _curve_of(subject, over)
        except UsageError as error:
            if not curves:
                raise
            left_out.append(LeftOut(name, str(error)))
    if len(subjects) > 1 and len(curves) < 2:
        raise UsageError(left_out[0].problem if left_out else "two of the same")
    lines = tuple(_line(name, each, under_j) for name, each in curves.items())
    (first, base), *others = curves.items()
    crossings = tuple(_crossing(first, base, name, each) for name, each in others)
    return Curves(over, under_j, lines, crossings, tuple(left_out))


def _line(name: str, of: Curve, under_j: float | None) -> Line:
    tree = of.tree(of.least)
    assert tree.spec is not None
    points = tuple(
        CurvePoint(size, energy, size not in of.unfit)
        for size, energy in of.points().items()
    )
    hardware = tree.hardware.name if tree.hardware else of.subject.on
    largest = None if under_j is None else of.largest_under(under_j)
    return Line(name, hardware, tree.spec, of.most, points, largest)


def _crossing(first: str, one: Curve, second: str, other: Curve) -> Crossing:
    since = one.cheaper_from(other)
    if since is not None:
        return Crossing(first, second, since, one.surely_cheaper_from(other))
    found = other.cheaper_from(one), other.surely_cheaper_from(one)
    return Crossing(second, first, *found)
