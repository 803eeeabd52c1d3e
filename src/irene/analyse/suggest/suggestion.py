"""A suggestion, what it is made from, and the shape of a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from irene.analyse.config_fields import ModelConfig
from irene.analyse.grid import Outcome, outcome_of
from irene.analyse.parts import group_by, parts_of
from irene.analyse.subject import Subject, tree_of
from irene.errors import UsageError
from irene.plain import Document
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.tree.headline import unfit, whole_energy

EFFORTS = ("setting", "retraining", "another model")
"""What following a suggestion asks for, the easiest first."""
WORTH_SAYING = 0.01
"""Least part of the energy that a suggestion saves."""


@dataclass(frozen=True, slots=True)
class Suggestion(Document):
    """Something to change, and what it saves.

    Attributes:
        rule: Name of the rule.
        title: What to do.
        why: Why it helps here.
        change: The change, as `what_if` takes it.
        saving_j: Saving per sequence, J.
        half_j: Half the width of its interval, J.
        share: Saving by energy of the base, 0 to 1.
        is_real: Whether the interval leaves zero out.
        effort: One of `EFFORTS`.
        accuracy: What is known of the cost in accuracy, in words.
        notes: Warnings of the prediction that the saving rests on.
    """

    rule: str
    title: str
    why: str
    change: Mapping[str, Any]
    saving_j: float
    half_j: float
    share: float
    is_real: bool
    effort: str
    accuracy: str
    notes: tuple[str, ...]


class Situation:
    """A model at a size on a machine, as rules look at it."""

    def __init__(self, base: Subject) -> None:
        self.base = base
        self._tried: dict[str, Outcome | None] = {}

    @cached_property
    def tree(self) -> ModelTree:
        """The predicted tree."""
        return tree_of(self.base)

    @cached_property
    def per_sequence_j(self) -> float:
        """Energy per sequence, J."""
        return whole_energy(self.tree).joules / self.run.batch_size

    @cached_property
    def model(self) -> ModelConfig:
        """The model's config."""
        return self.base.config()

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Values of all fields of the config."""
        return dict(self.model.known) | dict(self.base.fields)

    @cached_property
    def run(self) -> RunSpec:
        """The run as the machine runs it."""
        return self.tree.spec or self.base.run

    def role_share(self, role: str) -> float:
        """Part of the energy that goes into a role."""
        sums = group_by(parts_of(self.tree), lambda part: part.role)
        whole = sum(found.energy_j for found in sums.values())
        return sums[role].energy_j / whole if role in sums and whole else 0.0

    def try_out(self, change: Mapping[str, Any]) -> Outcome | None:
        """What a change gives, as `what_if` says; None where it cannot run."""
        key = repr(sorted(change.items(), key=str))
        if key not in self._tried:
            try:
                tree = tree_of(self.base.changed(change))
                found = outcome_of(change, tree, self.tree)
                is_new = bool(unfit(tree)) and not unfit(self.tree)
                self._tried[key] = None if is_new else found
            except UsageError:
                self._tried[key] = None
        return self._tried[key]

    def suggest(
        self,
        rule: str,
        change: Mapping[str, Any],
        title: str,
        why: str,
        *,
        effort: str = "setting",
        accuracy: str = "none",
        least: float = WORTH_SAYING,
    ) -> list[Suggestion]:
        """A suggestion if the change saves something, else none.

        Args:
            rule: Name of the rule.
            change: As `what_if` takes it.
            title: What to do.
            why: Why it helps.
            effort: One of `EFFORTS`.
            accuracy: What is known of the cost in accuracy.
            least: Least saving that is worth saying, as part of the energy.
        """
        outcome = self.try_out(change)
        if outcome is None or outcome.saving_j < least * self.per_sequence_j:
            return []
        return [
            Suggestion(
                rule,
                title,
                why,
                dict(change),
                outcome.saving_j,
                outcome.saving_half_j,
                outcome.saving_j / self.per_sequence_j,
                outcome.saving_is_real,
                effort,
                accuracy,
                outcome.notes,
            )
        ]


Rule = Callable[[Situation], Sequence[Suggestion]]
"""Looks at a situation; says nothing where it does not apply."""
