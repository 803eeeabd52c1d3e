"""Several subjects compared with the first; one that fails is listed, with why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from irene.analyse.comparison import Comparison, compare
from irene.analyse.subject import LeftOut, Progress, Subject, tree_of
from irene.errors import UsageError
from irene.plain import Document
from irene.tree import ModelTree

SCHEMA = "irene.comparisons/1"


@dataclass(frozen=True, slots=True)
class Comparisons(Document):
    """Several trees compared with the first.

    Attributes:
        per: Unit of all energies.
        comparisons: One for each further tree.
        left_out: Subjects that could not be predicted.
        notes: What the trees say of themselves.
    """

    per: str
    comparisons: tuple[Comparison, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    schema: ClassVar = SCHEMA

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

    Raises:
        UsageError: The first cannot be predicted, or none of the others.
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
        tuple(dict.fromkeys(note for tree in trees for note in tree.notes)),
    )
