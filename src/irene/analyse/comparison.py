"""Trees side by side: what differs, why, and whether it is a real difference.

Parts are aligned by path where the names agree, and by role always, so that attention
meets attention whatever it is called. Differences of all roles add up to the whole
difference, and so do those of all paths.

A difference of a role is explained by its work, FLOPs and bytes priced at the best
rates of the machine, and by its efficiency, energy per priced work. With the mean of
both sides as weight the three terms add up exactly, and change sign with the order of
the two trees.

Errors of one predictor are not independent: what two predictions share cancels, as
`irene.energy` has it. Measured trees have errors of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from irene.analyse.bottlenecks import BestRates, best_rates
from irene.analyse.parts import Part, Sum, group_by, parts_of
from irene.analyse.subject import LeftOut, Progress, Subject, tree_of
from irene.energy import Difference, Energy, difference
from irene.errors import UsageError
from irene.plain import Document
from irene.presented import Shown, presenter
from irene.tables import data_frame
from irene.tree import ModelTree
from irene.tree.headline import (
    NO_ROOM,
    energy_source,
    model_name,
    run_words,
    units_of,
    whole_energy,
)

SCHEMA = "irene.comparison/1"
PER = ("run", "sequence", "token")
SMALLEST = 1e-5
"""Share of the larger tree below which parts do not differ, as on the page."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the trees that are compared: its energy and costs per unit."""

    name: str
    run: str
    source: str
    covers: str
    energy_j: float
    low_j: float
    high_j: float
    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Contribution(Document):
    """What parts of one role, or on one path, add to the difference.

    Attributes:
        name: Role or path; `*` stands for every layer.
        base_j: Energy in the first tree, J.
        other_j: Energy in the second, J.
        flops_j: Part of the difference that more or fewer FLOPs explain, J.
        bytes_j: Part that more or fewer bytes explain, J.
        efficiency_j: Part that energy per unit of work explains, J.
        base_count: Parts in the first tree.
        other_count: Parts in the second.
    """

    name: str
    base_j: float
    other_j: float
    flops_j: float
    bytes_j: float
    efficiency_j: float
    base_count: int
    other_count: int

    also: ClassVar = ("difference_j",)

    @property
    def difference_j(self) -> float:
        """Second minus first, J."""
        return self.other_j - self.base_j


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown):
    """A tree compared with another.

    Attributes:
        base: The first tree.
        other: The second.
        per: Unit of all energies: `run`, `sequence` or `token`.
        found: Second minus first, and second by first, with intervals.
        shared: Part of the energy on paths that both have, 0 to 1.
        by_role: Contributions by role, the largest first.
        by_path: Contributions by path, the largest first.
        best: Rates that price the work.
        unit: What `per` is called: of a serving, tokens are those of the output.
    """

    base: Side
    other: Side
    per: str
    found: Difference
    shared: float
    by_role: tuple[Contribution, ...]
    by_path: tuple[Contribution, ...]
    best: BestRates
    unit: str

    @property
    def difference_j(self) -> float:
        """Second minus first, J."""
        return self.found.joules

    @property
    def half_j(self) -> float:
        """Half the width of the interval of the difference, J."""
        return self.found.half_j

    @property
    def is_real(self) -> bool:
        """Whether the interval of the difference leaves zero out."""
        return self.found.is_real

    @property
    def ratio(self) -> float | None:
        """Second by first; None if the first is zero."""
        return self.other.energy_j / self.base.energy_j if self.base.energy_j else None

    @property
    def aligned_by(self) -> str:
        """`path` where most energy is on paths that both have, else `role`."""
        return "path" if self.shared >= 0.5 else "role"

    @property
    def _nothing_j(self) -> float:
        return SMALLEST * max(abs(self.base.energy_j), abs(self.other.energy_j))

    def differences(self, by: str | None = None) -> list[Contribution]:
        """Contributions above 0.001 % of the larger tree; none for a tree and itself.

        Args:
            by: `role` or `path`; by default as the trees are aligned.
        """
        rows = self.by_role if (by or self.aligned_by) == "role" else self.by_path
        return [row for row in rows if _matters(row, self._nothing_j)]

    def to_pandas(self, by: str | None = None) -> Any:
        """Contributions as a pandas DataFrame, by `role` or `path`."""
        rows = self.by_role if (by or self.aligned_by) == "role" else self.by_path
        names = [*(field.name for field in fields(Contribution)), "difference_j"]
        return data_frame({n: [getattr(row, n) for row in rows] for n in names})

    def _repr_html_(self) -> str:
        return presenter().comparison_notebook(self)

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.comparison/1` as JSON-ready values."""
        return {
            "schema": SCHEMA,
            "base": asdict(self.base),
            "other": asdict(self.other),
            "per": self.per,
            "unit": self.unit,
            "difference_j": self.difference_j,
            "half_j": self.half_j,
            "low_j": self.difference_j - self.half_j,
            "high_j": self.difference_j + self.half_j,
            "ratio": self.ratio,
            "ratio_low": self.found.ratio_low,
            "ratio_high": self.found.ratio_high,
            "is_real": self.is_real,
            "found": asdict(self.found),
            "aligned_by": self.aligned_by,
            "shared": self.shared,
            "by_role": [row.to_dict() for row in self.by_role],
            "by_path": [row.to_dict() for row in self.by_path],
            "best": self.best.to_dict(),
        }


def _matters(row: Contribution, nothing_j: float) -> bool:
    terms = (row.difference_j, row.flops_j, row.bytes_j, row.efficiency_j)
    return any(abs(term) > nothing_j for term in terms)


def compare(base: ModelTree, other: ModelTree, per: str = "run") -> Comparison:
    """Compare a tree with another.

    Args:
        base: The first tree.
        other: The second; differences are second minus first.
        per: `run`, `sequence` or `token`.

    Raises:
        UsageError: A tree carries no energy, or no sizes where `per` needs them.
    """
    sides, energies, parts = zip(
        *(_scaled(tree, per) for tree in (base, other)), strict=True
    )
    best = best_rates([*parts[0], *parts[1]], name="these trees")
    by_role = _contributions(parts, lambda part: part.role, best)
    by_path = _contributions(parts, lambda part: part.holder or part.holder_op, best)
    return Comparison(
        sides[0],
        sides[1],
        per,
        difference(*energies),
        _shared(by_path),
        by_role,
        by_path,
        best,
        _unit(base, per)[0],
    )


def _scaled(tree: ModelTree, per: str) -> tuple[Side, Energy, list[Part]]:
    factor = 1 / _unit(tree, per)[1]
    parts = [part.scaled(factor) for part in parts_of(tree)]
    total, scaled = tree.total(), whole_energy(tree).scaled(factor)
    side = Side(
        model_name(tree),
        run_words(tree),
        energy_source(tree),
        tree.hardware.covers if tree.hardware else "",
        scaled.joules,
        scaled.low,
        scaled.high,
        total.flops * factor,
        total.bytes * factor,
    )
    return side, scaled, parts


def _unit(tree: ModelTree, per: str) -> tuple[str, int]:
    """What an energy is divided by: what it is called, and how many a run has."""
    if per not in PER:
        raise UsageError(f"per must be one of {', '.join(PER)}; got {per!r}")
    known = [("run", 1), *units_of(tree)]
    if PER.index(per) < len(known):
        return known[PER.index(per)]
    words, names = ("tokens", "run or sequence") if tree.spec else ("sizes", "run")
    raise UsageError(f"{model_name(tree)} has no {words}: compare it per {names}")


def _contributions(
    parts: Sequence[Sequence[Part]], key: Callable[[Part], str], best: BestRates
) -> tuple[Contribution, ...]:
    first, second = (group_by(some, key) for some in parts)
    rows = [
        _explain(name, first.get(name, Sum()), second.get(name, Sum()), best)
        for name in dict.fromkeys([*first, *second])
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.difference_j)))


def _explain(name: str, base: Sum, other: Sum, best: BestRates) -> Contribution:
    """Split a difference into FLOPs, bytes and efficiency."""
    work = [best.work_j(found.flops, found.bytes) for found in (base, other)]
    difference_j = other.energy_j - base.energy_j
    # A side without work has no efficiency of its own: that of the other counts.
    rates = [
        found.energy_j / priced if priced else None
        for found, priced in zip((base, other), work, strict=True)
    ]
    known = [rate for rate in rates if rate is not None]
    rate = sum(known) / len(known) if known else 0.0
    flops_j = rate * (other.flops - base.flops) * best.joules_per_flop
    bytes_j = rate * (other.bytes - base.bytes) * best.joules_per_byte
    return Contribution(
        name,
        base.energy_j,
        other.energy_j,
        flops_j,
        bytes_j,
        difference_j - flops_j - bytes_j,
        base.count,
        other.count,
    )


def _shared(rows: Sequence[Contribution]) -> float:
    """Part of the energy of both trees on paths that both have."""
    whole = sum(row.base_j + row.other_j for row in rows)
    both = sum(
        row.base_j + row.other_j for row in rows if row.base_count and row.other_count
    )
    return both / whole if whole else 1.0


@dataclass(frozen=True, slots=True, repr=False)
class Comparisons(Shown, Document):
    """Several trees compared with the first, and subjects without an answer."""

    per: str
    comparisons: tuple[Comparison, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    schema: ClassVar = "irene.comparisons/1"

    def table(self) -> list[dict[str, Any]]:
        """One row for each part of each comparison, by role and by path."""
        return [
            {"base": each.base.name, "other": each.other.name, "per": each.per}
            | {"by": by}
            | row.to_dict()
            for each in self.comparisons
            for by, rows in (("role", each.by_role), ("path", each.by_path))
            for row in rows
        ]


def compare_all(
    subjects: Sequence[Subject | ModelTree],
    names: Sequence[str],
    per: str | None = None,
    progress: Progress | None = None,
) -> Comparisons:
    """Predict or read subjects and compare all with the first.

    Args:
        subjects: Two or more; trees are taken as they are.
        names: What to call them.
        per: `run`, `sequence` or `token`; by default token of servings, else run.
        progress: Told what is being done.
    """
    trees: list[ModelTree] = []
    left_out: list[LeftOut] = []
    for done, (each, name) in enumerate(zip(subjects, names, strict=True)):
        if progress:
            progress(done, len(subjects), name)
        try:
            trees.append(each if isinstance(each, ModelTree) else tree_of(each))
        except UsageError as error:
            if not trees:
                raise
            left_out.append(LeftOut(name, str(error)))
    if len(trees) < 2:
        raise UsageError(left_out[0].problem)
    serves = all(tree.spec and tree.spec.phase == "generate" for tree in trees)
    unit = per or ("token" if serves else "run")
    return Comparisons(
        unit,
        tuple(compare(trees[0], tree, unit) for tree in trees[1:]),
        tuple(left_out),
        tuple(dict.fromkeys(_named(n, tree) for tree in trees for n in tree.notes)),
    )


def _named(note: str, tree: ModelTree) -> str:
    """A note of a tree among others; what does not fit says which it is."""
    if NO_ROOM not in note:
        return note
    return f"warning: {model_name(tree)}: {note.removeprefix('warning: ')}"
