"""What all questions share: how they are read, checked, answered and written."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar

from irene.analyse.curve import Size
from irene.analyse.subject import Progress, Subject, read_subject, tree_of
from irene.errors import UsageError
from irene.parameters import Asked, Parameter, parameters_of, read, written
from irene.spec import RunSpec
from irene.tables import csv_of_records
from irene.trace.limits import limits_from_environment
from irene.trace.sources import locate

if TYPE_CHECKING:
    from irene.tree import ModelTree

T_co = TypeVar("T_co", covariant=True)
On = Annotated[
    str, Asked(also=("hardware",), metavar="NAME", examples=("pc1",), group="the run")
]
Over = Annotated[Size | None, Asked(group="a curve")]
UnderJ = Annotated[
    float | None, Asked(("--under",), least=0, most=1e18, metavar="J", group="a curve")
]
ONE_MODEL: Mapping[str, Any] = {"required": ("model",)}
"""Metadata of a run of a model that has to be named."""
ANY_MODEL: Mapping[str, Any] = {"left_out": ("model", "model_class")}
"""Metadata of a run of whichever model."""


def check_curve(over: str | None, under_j: float | None) -> None:
    """Refuse a budget without the size that is looked for."""
    if under_j is not None and over is None:
        raise UsageError("under_j needs the size that varies: over seq_len, …")


@dataclass(frozen=True, kw_only=True)
class Question(ABC, Generic[T_co]):
    """Something that can be asked, with everything that decides the answer."""

    name: ClassVar[str]
    summary: ClassVar[str]
    schema: ClassVar[str]
    is_long: ClassVar[bool] = False
    has_table: ClassVar[bool] = False
    has_notes: ClassVar[bool] = False

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """All parameters, in the order that people see them."""
        return parameters_of(cls)

    @classmethod
    def asked(cls, values: Mapping[str, Any]) -> Self:
        """The question that values by name ask; texts will do.

        Raises:
            UsageError: A name is unknown or a value impossible.
        """
        return read(cls, values)

    def values(self) -> dict[str, Any]:
        """What was given, by name, as JSON-ready values: `asked` reads it again."""
        return written(self)

    @property
    def key(self) -> str:
        """The question as canonical JSON."""
        fields = {"question": self.name, **self.values()}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @abstractmethod
    def subjects(self) -> Sequence[Subject]:
        """What it is asked of, as far as that is known before it is answered."""

    def machines(self) -> set[str]:
        """Names of all machines that decide the answer."""
        return {each.on for each in self.subjects() if not each.is_tree}

    def check(self) -> None:
        """Refuse what cannot be answered, before anything heavy is loaded.

        Raises:
            UsageError: A model or machine is unknown, or a size is past the limits.
        """
        from irene.predict.machines.finding import find_machine

        subjects = self.subjects()
        refused: dict[int, UsageError] = {}
        for place, each in enumerate(subjects):
            if each.is_tree:
                continue
            machine = find_machine(each.on)
            try:
                if each.run.model:
                    locate(each.run.model)
                each.run.resolved(machine)
                limits_from_environment().check_spec(each.run)
            except UsageError as error:
                refused[place] = error
        # All others are compared with the first: what fails of those is left out.
        if refused and (0 in refused or len(subjects) - len(refused) < 2):
            raise next(iter(refused.values()))

    @abstractmethod
    def answer(self, progress: Progress | None = None) -> T_co:
        """The answer.

        Args:
            progress: Told what is being done.

        Raises:
            UsageError: It cannot be answered; the message says why.
        """

    def document(self, found: Any) -> Mapping[str, Any]:
        """An answer as JSON-ready values."""
        document: Mapping[str, Any] = found.to_dict()
        return document

    def table(self, found: Any) -> Sequence[Mapping[str, Any]]:
        """An answer as flat rows, where `has_table`."""
        rows: Sequence[Mapping[str, Any]] = found.table()
        return rows

    def notes(self, found: Any) -> Sequence[str]:
        """What an answer says of itself, where `has_notes`."""
        told: Sequence[str] = found.notes if self.has_notes else ()
        return told

    def csv(self, found: Any) -> str:
        """An answer as CSV, where `has_table`."""
        return csv_of_records(self.table(found))


@dataclass(frozen=True, kw_only=True)
class OfModel(Question[T_co]):
    """A question about one model on one machine, or about a tree that is there.

    Attributes:
        on: Machine to predict for, or the file of a predictor on this one; by default
            what `irene learn` learned here, else pc1.
        device: Where the model is traced: `meta` for shapes alone; `cpu` and `cuda` run
            it for real.
        tree: A tree to ask instead of a model.
    """

    run: RunSpec = field(metadata=ONE_MODEL)
    on: On = "default"
    device: Annotated[str, Asked(here=True, group="the run")] = "meta"
    tree: ModelTree | None = field(
        default=None, compare=False, metadata={"asked": False}
    )

    def subject(self) -> Subject:
        """The run on its machine, or a saved tree."""
        return read_subject(self.run.model, self.run, self.on, self.device)

    def subjects(self) -> Sequence[Subject]:
        """The one subject; none where a tree was given."""
        return () if self.tree is not None else (self.subject(),)

    def predicted(self) -> ModelTree:
        """The tree that is asked about, with energy.

        Raises:
            UsageError: It cannot be predicted, or carries no energy.
        """
        if self.tree is None:
            return tree_of(self.subject())
        if self.tree.energy_of(0) is None:
            raise UsageError("the tree carries no energy: predict it first")
        return self.tree
