"""Energy as a function of a size: the curve, and where it crosses a budget or another.

A size is a whole number, and every size has its own prediction: what is found is found
on the function itself, not between the points of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from irene.analyse.subject import Subject, tree_of
from irene.energy import Energy
from irene.errors import UsageError
from irene.spec import RunOptions, RunSpec, shows_run_options

__all__ = ["Curve", "curve"]

Size = Literal["batch_size", "seq_len", "decoder_len", "context_len"]
FURTHEST = 1 << 16
POINTS = 32


@dataclass(frozen=True, slots=True)
class Curve:
    """Energy of a run against one of its sizes.

    Attributes:
        subject: The run and its machine.
        over: The size that varies.
        least: Least size.
        most: Largest size that the model takes, of those looked at.
    """

    subject: Subject
    over: Size
    least: int
    most: int

    def at(self, size: int) -> Energy:
        """Energy of one run at a size, with its interval.

        Raises:
            UsageError: The model does not take that size.
        """
        energy = tree_of(self.subject.changed({self.over: size})).energy_of(0)
        assert energy is not None
        return energy

    def points(self, sizes: Iterable[int] | None = None) -> dict[int, Energy]:
        """Energies by size; by default at most 32 sizes, even apart on a log scale."""
        if sizes is None:
            ratio = (self.most / self.least) ** (1 / (POINTS - 1))
            sizes = sorted({round(self.least * ratio**i) for i in range(POINTS)})
        return {size: self.at(size) for size in sizes}

    def largest_under(self, joules: float) -> int | None:
        """Largest size up to which a run takes at most so much energy; None if none.

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
        if other.over != self.over:
            raise UsageError(f"one curve is over {self.over}, one over {other.over}")
        least, most = max(self.least, other.least), min(self.most, other.most)

        def costs_as_much(size: int) -> bool:
            return self.at(size).joules >= other.at(size).joules

        if least > most or costs_as_much(most):
            return None
        last = _last(costs_as_much, least, most)
        return least if last is None else last + 1


def _last(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """The last whole number for which something holds that later holds no more."""
    if not holds(least):
        return None
    if holds(most):
        return most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if holds(middle) else (least, middle)
    return least


@shows_run_options
def curve(
    model: str,
    *,
    over: Size = "seq_len",
    on: str = "default",
    least: int = 1,
    most: int | None = None,
    **run: Unpack[RunOptions],
) -> Curve:
    """Energy of a model against one of its sizes, as a function.

    Args:
        model: Catalogue name, Hugging Face id, or path of a config.json.
        over: The size that varies: `batch_size`, `seq_len`, …
        on: Name of a machine, or the file of a saved predictor.
        least: Least size.
        most: Largest size; by default as far as the model goes, at most 65,536 tokens
            of a length or sequences of a batch of 512.
        **run: How it is run, as for `irene.predict`; without the size that varies.

    Raises:
        UsageError: The model or the machine is unknown, or it takes no such size.
    """
    options: dict[str, Any] = dict(run)
    if options.get(over) is not None:
        raise UsageError(f"{over} varies: leave it out")
    subject = Subject(RunSpec.asked(model, options).changed(**{over: least}), on)
    found = Curve(subject, over, least, least)
    found.at(least)
    furthest = most or (512 if over == "batch_size" else FURTHEST)
    last = _last(lambda size: _is_taken(found, size), least, furthest)
    if most is not None and last != most:
        raise UsageError(f"{model} takes {over} up to {last:,}, asked for {most:,}")
    return Curve(subject, over, least, last or least)


def _is_taken(of: Curve, size: int) -> bool:
    try:
        of.at(size)
    except UsageError:
        return False
    return True
