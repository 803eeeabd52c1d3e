"""What if: the energy of a model with other sizes, settings and config fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from irene.analyse.comparison import compare
from irene.analyse.subject import Progress, Subject, tree_of
from irene.energy import Energy
from irene.errors import UsageError
from irene.parameters import parameters_of
from irene.spec import RunSpec
from irene.tree import ModelTree
from irene.tree.headline import is_warning

__all__ = ["Outcome", "WhatIf", "outcome_of", "what_if"]

SCHEMA = "irene.what_if/1"
MOST_ROWS = 2_000
AS_IT_IS = "as it is"
SIZES = ("batch_size", "seq_len", "context_len", "prompt_len", "output_len")

Sizes = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of the table.

    Attributes:
        settings: What was chosen.
        energy: Of a run; None where it cannot be run.
        batch_size: Sequences per run.
        tokens: Tokens per run.
        flops: Floating-point operations of a run.
        params: Parameters.
        before_j: Energy per sequence of what it is compared with, J: the model as it
            is at the same size; where only sizes change, at the first size.
        saving_j: Energy per sequence that it saves against that, J.
        saving_half_j: Half the width of that saving's interval, J.
        saving_is_real: Whether that interval leaves zero out.
        notes: Warnings of the prediction.
        problem: Why it cannot be run, "" if it can.
    """

    settings: Mapping[str, Any]
    energy: Energy | None
    batch_size: int
    tokens: int
    flops: float
    params: int
    before_j: float
    saving_j: float
    saving_half_j: float
    saving_is_real: bool
    notes: tuple[str, ...]
    problem: str = ""

    @property
    def per_sequence_j(self) -> float | None:
        """J per sequence."""
        return self.energy.joules / self.batch_size if self.energy else None

    @property
    def per_token_j(self) -> float | None:
        """J per token."""
        return self.energy.joules / self.tokens if self.energy else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            **asdict(self),
            "settings": dict(self.settings),
            "notes": list(self.notes),
            "per_sequence_j": self.per_sequence_j,
            "per_token_j": self.per_token_j,
        }


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The base and everything that was tried.

    Attributes:
        model: Name of the model.
        hardware: Name of the machine.
        base: The model as it is, at the first of all sizes.
        rows: Every combination of the choices.
        choices: What was varied, and the values.
        phase: What was run.
    """

    model: str
    hardware: str
    base: Outcome
    rows: tuple[Outcome, ...]
    choices: Mapping[str, tuple[Any, ...]]
    phase: str = "forward"

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.what_if/1` as JSON-ready values."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "hardware": self.hardware,
            "phase": self.phase,
            "choices": {name: list(values) for name, values in self.choices.items()},
            "base": self.base.to_dict(),
            "rows": [row.to_dict() for row in self.rows],
        }

    def table(self) -> list[dict[str, Any]]:
        """The base and every combination, one flat row each."""
        return [_flat(row, self) for row in (self.base, *self.rows)]


def what_if(
    base: Subject,
    choices: Mapping[str, Sequence[Any]],
    progress: Progress | None = None,
) -> WhatIf:
    """Predict a model for every combination of choices.

    Args:
        base: The model as it is.
        choices: Values by name: `batch_size`, `seq_len`, `dtype`, `attention`, `norm`,
            `model`, or any field of the config.
        progress: Told what is being done.

    Raises:
        UsageError: A name is unknown, nothing can be run, or there are too many rows.
    """
    total = _count(choices)
    tree = tree_of(base)
    trees: dict[Sizes, ModelTree] = {(): tree}
    rows: list[Outcome] = []
    for values in product(*choices.values()):
        settings = dict(zip(choices, values, strict=True))
        if progress:
            progress(
                len(rows), total, ", ".join(f"{k}={v}" for k, v in settings.items())
            )
        rows.append(_try(base, settings, trees))
    if rows and all(row.problem for row in rows):
        raise UsageError(rows[0].problem)
    return WhatIf(
        tree.spec.model if tree.spec else base.run.model,
        tree.hardware.name if tree.hardware else base.on,
        outcome_of(_as_it_is(base, tuple(choices)), tree, tree),
        tuple(rows),
        {name: tuple(values) for name, values in choices.items()},
        tree.spec.phase if tree.spec else "forward",
    )


def _as_it_is(base: Subject, names: Sequence[str]) -> dict[str, Any]:
    """Values of the base, by name of what is varied."""
    from irene.analyse.config_fields import fields_of

    known = {"norm": base.norm or AS_IT_IS}
    of_run = [each.name for each in parameters_of(RunSpec)]
    known |= {name: getattr(base.run, name) for name in of_run}
    if any(name not in known for name in names):
        known = fields_of(base.config().config) | dict(base.fields) | known
    return {name: known.get(name, AS_IT_IS) for name in names}


def _count(choices: Mapping[str, Sequence[Any]]) -> int:
    total = 1
    for name, values in choices.items():
        if not values:
            raise UsageError(f"no value for {name}")
        total *= len(values)
    if total > MOST_ROWS:
        raise UsageError(
            f"{total:,} combinations, at most {MOST_ROWS:,}: choose fewer values"
        )
    return total


def _try(
    base: Subject, settings: Mapping[str, Any], trees: dict[Sizes, ModelTree]
) -> Outcome:
    """Predict one combination; what cannot be run becomes a row that says why."""
    subject = base.changed(settings)
    try:
        tree = tree_of(subject)
        before = _as_it_is_tree(base, settings, trees)
    except UsageError as error:
        run = subject.run
        nothing = (run.batch_size, run.tokens, 0.0, 0, 0.0, 0.0, 0.0, False, ())
        return Outcome(settings, None, *nothing, str(error))
    return outcome_of(settings, tree, before)


def _as_it_is_tree(
    base: Subject, settings: Mapping[str, Any], trees: dict[Sizes, ModelTree]
) -> ModelTree:
    """The model as it is, at the size of a row that changes more than its size."""
    sizes = tuple((name, settings[name]) for name in SIZES if name in settings)
    key = sizes if len(sizes) < len(settings) else ()
    if key not in trees:
        trees[key] = tree_of(base.changed(dict(sizes)))
    return trees[key]


def outcome_of(
    settings: Mapping[str, Any], tree: ModelTree, base_tree: ModelTree
) -> Outcome:
    """A row of the table from a predicted tree.

    Args:
        settings: What was chosen.
        tree: Its tree.
        base_tree: The tree that savings are counted against.
    """
    assert tree.spec is not None
    found = compare(base_tree, tree, "sequence")
    return Outcome(
        settings,
        tree.energy_of(0),
        tree.spec.batch_size,
        tree.spec.tokens,
        float(tree.total().flops),
        tree.root.params,
        found.base.energy_j,
        -found.difference_j,
        found.half_j,
        found.is_real,
        tuple(note for note in tree.notes if is_warning(note)),
    )


def _flat(row: Outcome, found: WhatIf) -> dict[str, Any]:
    energy = row.energy
    return {
        **{name: row.settings.get(name, "") for name in found.choices},
        "energy_j": energy.joules if energy else None,
        "low_j": energy.low if energy else None,
        "high_j": energy.high if energy else None,
        "per_sequence_j": row.per_sequence_j,
        "per_token_j": row.per_token_j,
        "before_per_sequence_j": row.before_j if energy else None,
        "saving_per_sequence_j": row.saving_j if energy else None,
        "flops": row.flops if energy else None,
        "params": row.params if energy else None,
        "problem": row.problem,
    }
