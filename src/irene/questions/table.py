"""The questions, each with its parameters, its checks and the function that answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from irene.analyse.costs import CostTerms
from irene.analyse.grid import LISTED, read_choices, write_choices
from irene.analyse.subject import (
    Progress,
    Subject,
    read_subject,
    subject_of_tree,
    tree_of,
)
from irene.errors import UsageError
from irene.parameters import Asked, written
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.questions.question import ANY_MODEL, ONE_MODEL, OfModel, On, Question
from irene.spec import SERVING, SERVING_FIELDS, RunSpec
from irene.tree import ModelTree

if TYPE_CHECKING:
    from irene.analyse import (
        Advice,
        Bottlenecks,
        Costing,
        Leaderboard,
        Sensitivity,
        TradeOff,
        WhatIf,
    )
    from irene.analyse.comparison import Comparisons
    from irene.analyse.pareto import AccuracyRow
    from irene.show.report import Report
    from irene.trace.catalogue import Entry

__all__ = [
    "QUESTIONS",
    "AskBottlenecks",
    "AskComparison",
    "AskCost",
    "AskEnergy",
    "AskLeaderboard",
    "AskReport",
    "AskSuggestions",
    "AskTradeOff",
    "AskTree",
    "AskWhatIf",
    "question_named",
]

Level = Literal["module", "ml", "math"]
Per = Literal["run", "sequence", "token"]
Part = Literal["bottlenecks", "sizes", "trade-off", "suggestions"]
LARGEST = 1e18
MOST_PARAMS = 1e15
MOST_SUBJECTS = 8


def _number(metavar: str, most: float = LARGEST, group: str = "") -> Asked:
    return Asked(least=0, most=most, metavar=metavar, group=group)


@dataclass(frozen=True, kw_only=True)
class AskTree(OfModel[ModelTree]):
    """A model as a tree with FLOPs and bytes.

    Attributes:
        level: Deepest kind of node.
        fold: Equal layers as one node with its `members`.
    """

    name: ClassVar[str] = "tree"
    summary: ClassVar[str] = "A model as a tree with FLOPs and bytes"
    schema: ClassVar[str] = "irene.tree/1"
    has_table: ClassVar[bool] = True

    on: On = field(default="pc1", metadata={"asked": False})
    level: Level = "ml"
    fold: bool = True

    def check(self) -> None:
        """Refuse what cannot be answered, before anything heavy is loaded."""
        from irene.trace.limits import limits_from_environment
        from irene.trace.sources import locate

        locate(self.run.model)
        limits_from_environment().check_spec(self.run)

    def machines(self) -> set[str]:
        """None: costs are the same on every machine."""
        return set()

    def answer(self, progress: Progress | None = None) -> ModelTree:
        """The tree, unfolded: of a serving engine where a serving is asked for."""
        if self.run.phase == "generate" or any(map(self.run.given, SERVING_FIELDS)):
            from irene.trace.serving.tree import served

            return served(self.run.model, self.run).unfold()
        from irene.trace.tracer import trace_spec

        return trace_spec(self.run, device=self.device)

    def shaped(self, tree: ModelTree) -> ModelTree:
        """The tree as it was asked for."""
        tree = tree.at_level(self.level)
        return tree.fold() if self.fold else tree

    def document(self, found: ModelTree) -> Mapping[str, Any]:
        """The document `irene.tree/1` as JSON-ready values."""
        return self.shaped(found).to_dict()

    def csv(self, found: ModelTree) -> str:
        """One row per node."""
        from irene.tree.node_table import tree_csv

        return tree_csv(self.shaped(found))


@dataclass(frozen=True, kw_only=True)
class AskEnergy(AskTree):
    """The energy of a model, node by node.

    Attributes:
        step_ms: Measured time between two tokens of a stream, ms: idle power goes with
            what of it kernels do not fill.
    """

    name: ClassVar[str] = "energy"
    summary: ClassVar[str] = "The energy of a model, node by node"

    on: On = "pc1"
    step_ms: Annotated[
        float | None, Asked(least=1e-3, most=1e9, metavar="MS", group=SERVING)
    ] = None

    def check(self) -> None:
        """Refuse what cannot be answered, before anything heavy is loaded."""
        OfModel.check(self)

    def machines(self) -> set[str]:
        """Names of all machines that decide the answer."""
        return OfModel.machines(self)

    def answer(self, progress: Progress | None = None) -> ModelTree:
        """The tree with predicted energy, unfolded."""
        subject = self.subject()
        if self.step_ms is None or subject.is_tree:
            return self.predicted()
        machine = find_machine(self.on)
        return predict_run(self.run, machine, step_s=self.step_ms / 1e3)


@dataclass(frozen=True, kw_only=True)
class AskBottlenecks(OfModel["Bottlenecks"]):
    """What to look at first: where the energy goes, and what of it is wasted."""

    name: ClassVar[str] = "bottlenecks"
    summary: ClassVar[str] = "What to look at first"
    schema: ClassVar[str] = "irene.bottlenecks/1"

    def answer(self, progress: Progress | None = None) -> Bottlenecks:
        """The parts of a model by their energy, added up in several ways."""
        from irene.analyse.bottlenecks import find_bottlenecks

        return find_bottlenecks(self.predicted())


@dataclass(frozen=True, kw_only=True)
class AskSuggestions(OfModel["Advice"]):
    """What to change about a model, and what it saves."""

    name: ClassVar[str] = "suggest"
    summary: ClassVar[str] = "What to change, and what it saves"
    schema: ClassVar[str] = "irene.suggestions/1"
    is_long: ClassVar[bool] = True

    def subject(self) -> Subject:
        """The run that changes start from; a saved tree says which."""
        return _to_change(super().subject(), self.tree)

    def answer(self, progress: Progress | None = None) -> Advice:
        """What every rule says; a saving is a real prediction of the change."""
        from irene.analyse.suggest import suggestions

        return suggestions(self.subject(), progress)


def _to_change(subject: Subject, tree: ModelTree | None) -> Subject:
    """What is predicted anew: of a tree the model and run that it describes."""
    if tree is None and not subject.is_tree:
        return subject
    return subject_of_tree(tree_of(subject) if tree is None else tree, subject.on)


@dataclass(frozen=True, kw_only=True)
class AskCost(OfModel["Costing"]):
    """What it takes to answer queries with a model."""

    name: ClassVar[str] = "cost"
    summary: ClassVar[str] = "Kilowatt-hours, money and CO₂e"
    schema: ClassVar[str] = "irene.cost/1"

    terms: CostTerms = field(default_factory=CostTerms)

    def answer(self, progress: Progress | None = None) -> Costing:
        """Kilowatt-hours, money and CO₂e, per query and for many."""
        from irene.analyse.costs import cost_of

        return cost_of(self.predicted(), self.terms)


@dataclass(frozen=True, kw_only=True)
class AskReport(OfModel["Report"]):
    """Everything about a model on one page.

    Attributes:
        on: Machine to predict for; a saved tree is not predicted anew unless it is
            given.
        without: A part to leave out.
        title: Heading of the page; by default the model.
    """

    name: ClassVar[str] = "report"
    summary: ClassVar[str] = "Everything about a model on one page"
    schema: ClassVar[str] = "text/html"
    is_long: ClassVar[bool] = True

    on: Annotated[str | None, *get_args(On)[1:]] = None  # type: ignore[assignment]
    terms: CostTerms = field(
        default_factory=CostTerms, metadata={"left_out": ("queries", "gco2e_per_kwh")}
    )
    without: tuple[Part, ...] = ()
    title: Annotated[str | None, Asked(metavar="TEXT")] = None

    def subject(self) -> Subject:
        """The run on its machine, by default pc1."""
        found = read_subject(self.run.model, self.run, self.on or "pc1")
        return replace(found, device=self.device)

    def answer(self, progress: Progress | None = None) -> Report:
        """All answers, and why some are missing."""
        from irene.show.report import make_report
        from irene.tree import load

        if progress:
            progress(0, 1, "the tree")
        base: Subject | None = None if self.tree is not None else self.subject()
        if base is not None and not base.is_tree:
            tree = tree_of(base)
        else:
            tree = self.tree or load(self.run.model)
            base = subject_of_tree(tree, self.on) if self.on else None
        return make_report(
            tree, base, without=self.without, cost=self.terms, progress=progress
        )

    def document(self, found: Report) -> Mapping[str, Any]:
        """The page, and what is not in it."""
        return {"html": self.page(found), "left_out": dict(found.left_out)}

    def page(self, found: Report) -> str:
        """The page as HTML."""
        from irene.show.report import report_html

        return report_html(found, self.title)


@dataclass(frozen=True, kw_only=True)
class AskComparison(Question["Comparisons"]):
    """What differs between models, sizes, machines or trees.

    Attributes:
        subject: `MODEL`, `MODEL@b16s256,fp16,on=pc1` or a tree; all are compared with
            the first.
        on: Machine to predict for, unless a subject names another.
        per: Unit of all energies.
        trees: Trees to compare instead of subjects.
    """

    name: ClassVar[str] = "compare"
    summary: ClassVar[str] = "What differs between models, sizes, machines or trees"
    schema: ClassVar[str] = "irene.comparisons/1"
    has_table: ClassVar[bool] = True

    subject: Annotated[
        tuple[str, ...],
        Asked(
            longest=300, metavar="A",
            examples=("bert-base-uncased", "distilbert-base-uncased@b16s256"),
        ),
    ] = ()  # fmt: skip
    run: RunSpec = field(default_factory=RunSpec, metadata=ANY_MODEL)
    on: On = "pc1"
    per: Annotated[Per, Asked(group="the view")] = "run"
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

    def answer(self, progress: Progress | None = None) -> Comparisons:
        """Aligned by role and by path, with the interval of each difference."""
        from irene.analyse.comparison import compare_all

        subjects = self.subjects()
        return compare_all(
            [*self.trees, *subjects], [*map(_name, self.trees), *self.subject],
            self.per, progress,
        )  # fmt: skip


def _name(tree: ModelTree) -> str:
    return tree.spec.model if tree.spec else tree.root.op


@dataclass(frozen=True, kw_only=True)
class AskWhatIf(Question["WhatIf | Sensitivity"]):
    """Other sizes, settings and architectures of a model.

    Attributes:
        on: Machine to predict for, or on this machine the file of a predictor.
        norm: What to put in the place of all norms: `layer_norm`, `rms_norm`, `none`.
        set: `FIELD=VALUE,…`: a field of the config, of the run, or `model`.
        sensitivity: How the energy follows every number of the config.
        vary: What is varied, and the values.
        tree: A tree whose model and run are meant.
    """

    name: ClassVar[str] = "what-if"
    summary: ClassVar[str] = "Other sizes, settings and architectures"
    schema: ClassVar[str] = "irene.what_if/1"
    is_long: ClassVar[bool] = True
    has_table: ClassVar[bool] = True

    run: RunSpec = field(metadata={**ONE_MODEL, "listed": LISTED})
    on: On = "pc1"
    norm: Annotated[str, Asked(metavar="LIST", longest=100, group="what to vary")] = ""
    set: Annotated[
        tuple[str, ...],
        Asked(
            metavar="FIELD=VALUE,…", longest=500, examples=("hidden_act=relu,gelu",),
            group="what to vary",
        ),
    ] = ()  # fmt: skip
    sensitivity: Annotated[bool, Asked(group="what to vary")] = False
    vary: Mapping[str, Sequence[Any]] = field(
        default_factory=dict, metadata={"asked": False}
    )
    tree: ModelTree | None = field(
        default=None, compare=False, metadata={"asked": False}
    )

    @classmethod
    def asked(cls, values: Mapping[str, Any]) -> Self:
        """The question that values by name ask.

        Of a list with several values the first is that of the model as it is.
        """
        known = {each.name: each for each in cls.parameters()}
        given = {k: v for k, v in values.items() if v is not None}
        lists = {n: str(given.pop(n)) for n in LISTED if n in given}
        fields = known["set"].check(given.pop("set", ()))
        choices, base = read_choices(fields, lists | {"norm": given.pop("norm", "")})
        found = super().asked(given)
        return replace(found, run=found.run.changed(**base), vary=choices)

    def values(self) -> dict[str, Any]:
        """What was given, by name; everything that is varied goes by `set`."""
        return written(self) | {"set": write_choices(self.vary)}

    def base(self) -> Subject:
        """The model as it is."""
        found = read_subject(self.run.model, self.run, self.on)
        return _to_change(found, self.tree)

    def subjects(self) -> Sequence[Subject]:
        """The model as it is."""
        return (self.base(),)

    def check(self) -> None:
        """Refuse what cannot be answered, before anything heavy is loaded."""
        super().check()
        if self.sensitivity and any(name not in LISTED for name in self.vary):
            raise UsageError("sensitivity goes without set")
        if not self.sensitivity and not self.vary:
            raise UsageError(
                "nothing to vary: give several sizes (batch_size 1,8,32), a field of "
                "the config (set FIELD=VALUE), or ask for the sensitivity"
            )

    def answer(self, progress: Progress | None = None) -> WhatIf | Sensitivity:
        """Every combination of the values, compared with the model as it is."""
        self.check()
        if self.sensitivity:
            from irene.analyse.sensitivity import sensitivity

            return sensitivity(self.base(), progress)
        from irene.analyse.grid import what_if

        return what_if(self.base(), self.vary, progress)


@dataclass(frozen=True, kw_only=True)
class AskTradeOff(Question["TradeOff"]):
    """Accuracy against energy: which models are worth a look.

    Attributes:
        on: Machine to predict for, or on this machine the file of a predictor.
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

    run: RunSpec = field(
        default_factory=RunSpec, metadata={**ANY_MODEL, "usual": {"batch_size": 16}}
    )
    on: On = "pc1"
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
        from irene.analyse.pareto import trade_off

        return trade_off(
            self.rows(), self.run, self.on, budget_j=self.budget_j,
            at_least=self.at_least, progress=progress,
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
        on: Machine to predict for, or on this machine the file of a predictor.
        jobs: Processes that predict at a time; by default one per processor.
        cache: Whether what was predicted before counts, and is kept.
    """

    name: ClassVar[str] = "leaderboard"
    summary: ClassVar[str] = "All models by their energy"
    schema: ClassVar[str] = "irene.leaderboard/1"
    is_long: ClassVar[bool] = True
    has_table: ClassVar[bool] = True

    search: str = ""
    family: Annotated[str | None, Asked(metavar="NAME", group="which models")] = None
    kind: Annotated[str | None, Asked(metavar="KIND", group="which models")] = None
    min_params: Annotated[float | None, _number("N", MOST_PARAMS, "which models")] = (
        None
    )
    max_params: Annotated[float | None, _number("N", MOST_PARAMS, "which models")] = (
        None
    )
    max_j_per_token: Annotated[float | None, _number("J", LARGEST, "which models")] = (
        None
    )
    limit: Annotated[
        int | None, Asked(least=1, most=10_000, metavar="N", group="which models")
    ] = None
    run: RunSpec = field(
        default_factory=RunSpec, metadata={**ANY_MODEL, "usual": {"batch_size": 8}}
    )
    on: On = "pc1"
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

        board = rank_models(
            self.entries(), self.run, self.on,
            cache=default_cache() if self.cache else None,
            jobs=self.jobs or os.cpu_count() or 1, progress=progress,
        )  # fmt: skip
        return self.within(board)


QUESTIONS: dict[str, type[Question[Any]]] = {
    each.name: each
    for each in (
        AskEnergy, AskTree, AskBottlenecks, AskComparison, AskWhatIf, AskTradeOff,
        AskCost, AskSuggestions, AskLeaderboard, AskReport,
    )
}  # fmt: skip
"""Every question by name."""


def question_named(name: str) -> type[Question[Any]]:
    """The question of a name.

    Raises:
        UsageError: There is none.
    """
    if name not in QUESTIONS:
        raise UsageError(f"no question {name!r}; there are {', '.join(QUESTIONS)}")
    return QUESTIONS[name]
