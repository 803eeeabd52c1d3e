"""Questions about several models; one that fails is listed, the others are answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from irene.analyse.curve import Curves, draw
from irene.analyse.subject import Progress, Subject, read_subject
from irene.errors import UsageError
from irene.parameters import Asked
from irene.questions.question import (
    ANY_MODEL,
    On,
    Over,
    Question,
    UnderJ,
    check_curve,
)
from irene.spec import RunSpec

if TYPE_CHECKING:
    from irene.analyse import Leaderboard, TradeOff
    from irene.analyse.comparison import Comparisons
    from irene.analyse.pareto import AccuracyRow
    from irene.trace.catalogue import Entry
    from irene.tree import ModelTree

Per = Literal["run", "sequence", "token"]
LARGEST = 1e18
MOST_PARAMS = 1e15
MOST_SUBJECTS = 8
WHICH = "which models"


def _number(metavar: str, most: float = LARGEST, group: str = "") -> Asked:
    return Asked(least=0, most=most, metavar=metavar, group=group)


PARAMS = _number("N", MOST_PARAMS, WHICH)


@dataclass(frozen=True, kw_only=True)
class AskComparison(Question["Comparisons | Curves"]):
    """What differs between models, sizes, machines or trees.

    Attributes:
        subject: `MODEL`, `MODEL@b16s256,fp16,on=pc1` or a tree; all are compared with
            the first.
        on: Machine to predict for, unless a subject names another.
        per: Unit of all energies; by default token of servings, else run.
        over: From which value of this size on the first is cheaper than the others, or
            they than the first.
        under_j: The largest such size at which a run of each takes at most this, J.
        trees: Trees to compare instead of subjects.
    """

    name: ClassVar[str] = "compare"
    summary: ClassVar[str] = "What differs between models, sizes, machines or trees"
    schema: ClassVar[str] = "irene.comparisons/1"
    has_table: ClassVar[bool] = True

    subject: Annotated[
        tuple[str, ...],
        Asked(
            longest=300, metavar="A", pattern=r"[^\x00-\x1f]+",
            examples=("bert-base-uncased", "distilbert-base-uncased@b16s256"),
        ),
    ] = ()  # fmt: skip
    run: RunSpec = field(default_factory=RunSpec, metadata=ANY_MODEL)
    on: On = "default"
    per: Annotated[Per | None, Asked(group="the view")] = None
    over: Over = None
    under_j: UnderJ = None
    trees: tuple[ModelTree, ...] = field(default=(), metadata={"asked": False})

    def __post_init__(self) -> None:
        """Two at least, and not too many."""
        count = len(self.subject) + len(self.trees)
        if not 2 <= count <= MOST_SUBJECTS:
            raise UsageError(
                f"compare needs two or more, up to {MOST_SUBJECTS}: `irene compare "
                "bert-base-uncased roberta-base`"
            )

    def subjects(self) -> Sequence[Subject]:
        """All that are compared, the first first."""
        return [read_subject(text, self.run, self.on) for text in self.subject]

    def check(self) -> None:
        """Refuse what cannot be answered, before anything heavy is loaded."""
        super().check()
        check_curve(self.over, self.under_j)
        if self.over and (self.trees or self.per not in (None, "run")):
            raise UsageError(f"over {self.over}: energies are of runs of models")

    def notes(self, found: Any) -> Sequence[str]:
        """What the trees say of themselves; a curve has none."""
        told: Sequence[str] = () if self.over else found.notes
        return told

    def answer(self, progress: Progress | None = None) -> Comparisons | Curves:
        """Aligned by role and by path, with the interval of each difference."""
        from irene.analyse.comparison import compare_all
        from irene.tree.headline import model_name

        subjects = self.subjects()
        if self.over:
            return draw(subjects, self.subject, self.over, self.under_j, progress)
        return compare_all(
            [*self.trees, *subjects], [*map(model_name, self.trees), *self.subject],
            self.per, progress,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AskTradeOff(Question["TradeOff"]):
    """Accuracy against energy: which models are worth a look.

    Attributes:
        on: Machine to predict for, or the file of a predictor on this one; by default
            what `irene learn` learned here, else pc1.
        accuracies: Text of a CSV file with the columns model and accuracy, perhaps also
            energy_j (per sequence), split and source; by default published accuracies
            on SST-2.
        budget_j: The best model that takes at most this per sequence, J.
        at_least: The cheapest model that is at least this accurate.
    """

    name: ClassVar[str] = "trade-off"
    summary: ClassVar[str] = "Accuracy against energy"
    schema: ClassVar[str] = "irene.trade_off/1"
    is_long: ClassVar[bool] = True
    has_table: ClassVar[bool] = True

    run: RunSpec = field(default_factory=RunSpec, metadata=ANY_MODEL)
    on: On = "default"
    accuracies: Annotated[str | None, Asked(is_body=True)] = None
    budget_j: Annotated[float | None, _number("J")] = None
    at_least: Annotated[float | None, _number("ACCURACY")] = None

    def rows(self) -> Sequence[AccuracyRow]:
        """The models with their accuracies."""
        from irene.analyse.pareto import parse_accuracies, published_accuracies

        if self.accuracies is None:
            return published_accuracies()
        return parse_accuracies(self.accuracies, "the table")

    def subjects(self) -> Sequence[Subject]:
        """The run on its machine, of any model: a wrong row is left out."""
        return (Subject(self.run, self.on),)

    def answer(self, progress: Progress | None = None) -> TradeOff:
        """The Pareto front, and what could not be predicted."""
        from irene.analyse.pareto import ACCURACY, PUBLISHED, trade_off
        from irene.predict.machines.chosen import named

        return trade_off(
            self.rows(), self.run, named(self.on), budget_j=self.budget_j,
            at_least=self.at_least, progress=progress,
            score=PUBLISHED if self.accuracies is None else ACCURACY,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AskLeaderboard(Question["Leaderboard"]):
    """All models of the catalogue by their energy.

    Attributes:
        search: Words that must all occur in a name, family or kind.
        family: Models that share an architecture: bert, gpt2, llama, ….
        kind: encoder, decoder, encoder-decoder, vision, ….
        min_params: Fewest parameters.
        max_params: Most parameters.
        max_j_per_token: Only models that take at most so much per token, J; of a
            generation per output token.
        limit: Only so many, those with the fewest parameters.
        unfit: Also models that do not fit into the memory of the machine.
        on: Machine to predict for, or the file of a predictor on this one; by default
            what `irene learn` learned here, else pc1.
        jobs: Processes that predict at a time; by default one per processor.
        cache: Whether what was predicted before counts, and is kept.
    """

    name: ClassVar[str] = "leaderboard"
    summary: ClassVar[str] = "All models by their energy"
    schema: ClassVar[str] = "irene.leaderboard/1"
    is_long: ClassVar[bool] = True
    has_table: ClassVar[bool] = True

    search: str = ""
    family: Annotated[str | None, Asked(metavar="NAME", group=WHICH)] = None
    kind: Annotated[str | None, Asked(metavar="KIND", group=WHICH)] = None
    min_params: Annotated[float | None, PARAMS] = None
    max_params: Annotated[float | None, PARAMS] = None
    max_j_per_token: Annotated[float | None, _number("J", group=WHICH)] = None
    limit: Annotated[
        int | None, Asked(least=1, most=10_000, metavar="N", group=WHICH)
    ] = None
    run: RunSpec = field(default_factory=RunSpec, metadata=ANY_MODEL)
    unfit: Annotated[bool, Asked(group=WHICH)] = False
    on: On = "default"
    jobs: Annotated[int | None, Asked(least=1, metavar="N", here=True)] = None
    cache: Annotated[bool, Asked(here=True)] = True

    def subjects(self) -> Sequence[Subject]:
        """The run on its machine, of any model."""
        return (Subject(self.run, self.on),)

    def entries(self) -> list[Entry]:
        """The models, those with the fewest parameters first.

        Raises:
            UsageError: There is no such family or kind, or nothing is left.
        """
        from irene.analyse.leaderboard import choose_entries

        found = choose_entries(
            self.search, family=self.family, kind=self.kind,
            least_params=self.min_params, most_params=self.max_params,
        )  # fmt: skip
        found.sort(key=lambda entry: (entry.params, entry.name))
        return found[: self.limit]

    def within(self, board: Leaderboard) -> Leaderboard:
        """Those of a board that take little enough."""
        if self.max_j_per_token is None:
            return board
        return board.within(self.max_j_per_token)

    def answer(self, progress: Progress | None = None) -> Leaderboard:
        """Models by energy per sequence, the cheapest first."""
        import os

        from irene.analyse.energy_cache import default_cache
        from irene.analyse.leaderboard import rank_models
        from irene.predict.machines.chosen import named

        board = rank_models(
            self.entries(), self.run, named(self.on),
            cache=default_cache() if self.cache else None,
            jobs=self.jobs or os.cpu_count() or 1, with_unfit=self.unfit,
            progress=progress,
        )  # fmt: skip
        return self.within(board)
