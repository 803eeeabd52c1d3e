"""How much the energy of a model follows each number of its config.

The elasticity of a field is d ln E / d ln field, from one value below and one above:
1 means that twice the value takes twice the energy, 0 that it does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from irene.analyse.subject import Progress, Subject, tree_of
from irene.errors import UsageError
from irene.plain import Document
from irene.presented import Shown
from irene.spec import RunSpec

STEP = 0.25
SIZES = ("batch_size", "seq_len")
NOT_A_SIZE = ("_id", "_ids", "_eps", "_epsilon", "range", "factor", "theta", "seed")
WIDTHS = ("hidden_size", "n_embd", "dim", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")


@dataclass(frozen=True, slots=True)
class Elasticity(Document):
    """How energy follows one field.

    Attributes:
        field: Its name.
        value: As it is.
        lower: Value tried below.
        upper: Value tried above.
        elasticity: d ln E / d ln field; None where it could not be tried.
        problem: Why not, "" if it could.
    """

    field: str
    value: float
    lower: float
    upper: float
    elasticity: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Sensitivity(Shown, Document):
    """How the energy follows sizes and numbers of a config, the strongest first."""

    model: str
    hardware: str
    run: RunSpec
    fields: tuple[Elasticity, ...]

    schema: ClassVar = "irene.sensitivity/1"

    def table(self) -> list[dict[str, Any]]:
        """One flat row for each field."""
        return [row.to_dict() for row in self.fields]


def sensitivity(base: Subject, progress: Progress | None = None) -> Sensitivity:
    """Elasticity of a run's energy for sizes and every number of the config.

    Returns:
        The strongest first, those that could not be tried last.
    """
    found = base.config()
    known = {k: v for k, v in found.known.items() if k not in found.aliases}
    known |= dict(base.fields)
    numbers: dict[str, int] = {
        "batch_size": base.run.batch_size,
        "seq_len": base.run.seq_len,
        **{name: v for name, v in known.items() if _is_size(name, v)},
    }
    rows = []
    for done, (name, value) in enumerate(numbers.items()):
        if progress:
            progress(done, len(numbers), name)
        rows.append(_elasticity(base, name, value, numbers))
    rows.sort(key=lambda row: (row.elasticity is None, -abs(row.elasticity or 0.0)))
    return Sensitivity(base.run.model, base.on, base.run, tuple(rows))


def _is_size(name: str, value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and value > 0 and not name.endswith(NOT_A_SIZE)


def _elasticity(
    base: Subject, name: str, value: int, numbers: Mapping[str, int]
) -> Elasticity:
    lower, upper = _values(name, value, numbers)
    try:
        ends = [_energy_j(base, name, each) for each in (lower, upper)]
    except UsageError as error:
        # At the end of what is possible (a position limit) one side has to do.
        try:
            upper = value
            ends = [_energy_j(base, name, each) for each in (lower, value)]
        except UsageError:
            return Elasticity(name, value, lower, upper, None, str(error))
    if lower == upper or min(ends) <= 0:
        return Elasticity(name, value, lower, upper, None, "it has no other value")
    slope = math.log(ends[1] / ends[0]) / math.log(upper / lower)
    return Elasticity(name, value, lower, upper, slope)


def _energy_j(base: Subject, name: str, value: int) -> float:
    from irene.tree.headline import whole_energy

    return whole_energy(tree_of(base.changed({name: value}))).joules


def _values(name: str, value: int, numbers: Mapping[str, int]) -> tuple[int, int]:
    """A value below and one above that the other fields allow."""
    last = name.rpartition(".")[2]
    if last in HEADS:
        widths = [n for field, n in numbers.items() if field.endswith(WIDTHS)]
        width = widths[0] if widths else 0
        fewer, more = range(value - 1, 0, -1), range(value + 1, width + 1)
        return _first(fewer, width, value), _first(more, width, value)
    step = max(round(value * STEP), 1)
    if last in WIDTHS:
        heads = next((n for field, n in numbers.items() if field.endswith(HEADS)), 1)
        step = max(round(step / heads), 1) * heads
    return max(value - step, 1), value + step


def _first(values: Iterable[int], width: int, default: int) -> int:
    return next((n for n in values if width % n == 0), default)
