"""What if: the energy of a model with other sizes, settings and config fields.

What to vary, as people write it: `1,8,32`, `64:512:64`, `hidden_act=relu,gelu`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from irene.analyse.config_fields import parse_value
from irene.analyse.subject import NORMS, Progress, Subject, tree_of
from irene.energy import Energy, difference
from irene.errors import UsageError
from irene.parameters import parameters_of
from irene.plain import Document
from irene.presented import Drawn
from irene.spec import RunSpec

if TYPE_CHECKING:
    from irene.tree import ModelTree

MOST_ROWS = 2_000
AS_IT_IS = "as it is"
SIZES = ("batch_size", "seq_len", "context_len", "prompt_len", "output_len")

Sizes = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Outcome(Document):
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

    also: ClassVar = ("per_sequence_j", "per_token_j")

    @property
    def per_sequence_j(self) -> float | None:
        """J per sequence."""
        return self.energy.joules / self.batch_size if self.energy else None

    @property
    def per_token_j(self) -> float | None:
        """J per token."""
        return self.energy.joules / self.tokens if self.energy else None


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Drawn, Document):
    """The base, at the first of all sizes, and every combination of the choices."""

    model: str
    hardware: str
    base: Outcome
    rows: tuple[Outcome, ...]
    choices: Mapping[str, tuple[Any, ...]]
    phase: str = "forward"
    spec: RunSpec | None = None

    schema: ClassVar = "irene.what_if/1"

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
        tree.spec,
    )


def _as_it_is(base: Subject, names: Sequence[str]) -> dict[str, Any]:
    """Values of the base, by name of what is varied."""
    known = {"norm": base.norm or AS_IT_IS}
    of_run = [each.name for each in parameters_of(RunSpec)]
    known |= {name: getattr(base.run, name) for name in of_run}
    if any(name not in known for name in names):
        known = {**base.config().known, **base.fields, **known}
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
    """A row of the table from a predicted tree."""
    from irene.tree.headline import is_warning, sequence_energy

    assert tree.spec is not None
    before, after = map(sequence_energy, (base_tree, tree))
    found = difference(before, after)
    return Outcome(
        settings,
        tree.energy_of(0),
        tree.spec.batch_size,
        tree.spec.tokens,
        float(tree.total().flops),
        tree.root.params,
        before.joules,
        -found.joules,
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


MOST_VALUES = 1_000
LISTED = (
    "dtype", "attention", "quantization", "cache_dtype", "batch_size", "seq_len",
    "context_len", "prompt_len", "output_len", "tensor_parallel",
    "expert_parallel", "data_parallel", "engine",
)  # fmt: skip
"""Fields of a run of which several values may be given at once."""


def read_choices(
    fields: Sequence[str], lists: Mapping[str, str]
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Values by name, in the order a table shows them; and those of the base.

    Args:
        fields: `FIELD=VALUE,…`, as often as need be.
        lists: Values of `norm` and of what is `LISTED`.

    Returns:
        What is varied; and the first value of every list that is no change by itself.
    """
    varied: dict[str, list[Any]] = {}
    for text in fields:
        name, is_pair, values = text.partition("=")
        if not (name.strip() and is_pair and values.strip()):
            raise UsageError(f"set takes FIELD=VALUE, got {text!r}")
        varied.setdefault(name.strip(), []).extend(read_values(values))
    for word in filter(None, lists.get("norm", "").split(",")):
        if word not in NORMS:
            raise UsageError(f"norm: no {word!r}; there are {', '.join(NORMS)}")
        varied.setdefault("norm", []).append(word)
    base: dict[str, Any] = {}
    known = {each.name: each for each in parameters_of(RunSpec)}
    for name in LISTED:
        if name in lists:
            values_of = [known[name].check(each) for each in read_values(lists[name])]
            base[name] = values_of[0]
            if len(values_of) > 1:
                varied[name] = values_of
    return varied, base


def write_choices(choices: Mapping[str, Sequence[Any]]) -> list[str]:
    """What is varied as `FIELD=VALUE,…`, which `read_choices` reads again."""
    found = []
    for name, values in choices.items():
        texts = [_text(name, value) for value in values]
        plain = [text for text in texts if not text.startswith(("[", "{"))]
        nested = [text for text in texts if text.startswith(("[", "{"))]
        groups = [",".join(plain), *nested] if plain else nested
        found += [f"{name}={group}" for group in groups]
    return found


def _text(name: str, value: Any) -> str:
    """A value as `read_values` reads it back."""
    candidates = [json.dumps(value)]
    if isinstance(value, str):
        candidates.insert(0, value)
    for text in candidates:
        try:
            if text.strip() and read_values(text) == [value]:
                return text
        except UsageError:
            continue
    raise UsageError(f"{name}={value!r} cannot be written as a text")


def read_values(text: str) -> list[Any]:
    """The values of `1,8,32`, of `64:512:64`, or one as JSON writes it.

    Raises:
        UsageError: There is none, or a range is impossible.
    """
    if text.lstrip().startswith(("[", "{")):
        return [parse_value(text)]
    found: list[Any] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        found += _range(piece) if piece.count(":") in (1, 2) else [parse_value(piece)]
    if not found:
        raise UsageError(f"{text!r} holds no value")
    return found


def _range(text: str) -> list[Any]:
    try:
        first, last, step = [*map(int, text.split(":")), 1][:3]
    except ValueError:
        return [text]
    if step < 1 or last < first or (last - first) // step >= MOST_VALUES:
        raise UsageError(f"{text!r}: write from:to:step, the step more than 0")
    return list(range(first, last + 1, step))
