"""Questions about one model, each with its parameters and the function that answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from irene.analyse.costs import CostTerms, cost_of
from irene.analyse.curve import Curves, draw
from irene.analyse.grid import LISTED, read_choices, what_if, write_choices
from irene.analyse.subject import (
    Progress,
    Subject,
    read_subject,
    subject_of_tree,
    tree_of,
)
from irene.errors import UsageError
from irene.parameters import Asked, written
from irene.questions.question import (
    ONE_MODEL,
    OfModel,
    On,
    Over,
    Question,
    UnderJ,
    check_curve,
)
from irene.spec import SERVING, SERVING_FIELDS, RunSpec
from irene.trace.limits import limits_from_environment
from irene.trace.sources import locate

if TYPE_CHECKING:
    from irene.analyse import Advice, Bottlenecks, Costing, Sensitivity, WhatIf
    from irene.analyse.card import Card
    from irene.show.report import ReportPage
    from irene.tree import ModelTree

Level = Literal["module", "ml", "math"]
Part = Literal["bottlenecks", "sizes", "trade-off", "suggestions"]


@dataclass(frozen=True, kw_only=True)
class AskTree(OfModel["ModelTree"]):
    """A model as a tree with FLOPs and bytes.

    Attributes:
        level: Deepest kind of node.
        fold: Equal layers as one node with its `members`.
        taken_from: A trace, or the template of the model: its tree as a function of
            size. Both are equal.
    """

    name: ClassVar[str] = "tree"
    summary: ClassVar[str] = "A model as a tree with FLOPs and bytes"
    schema: ClassVar[str] = "irene.tree/1"
    has_notes: ClassVar[bool] = True
    has_table: ClassVar[bool] = True

    on: On = field(default="default", metadata={"asked": False})
    level: Level = "ml"
    fold: bool = True
    taken_from: Annotated[
        Literal["trace", "template"], Asked(("--from",), group="the run")
    ] = "trace"

    def check(self) -> None:
        """Refuse what cannot be answered, before anything heavy is loaded."""
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
        if self.taken_from == "template":
            return self._of_template()
        from irene.trace.tracer import trace_spec

        return trace_spec(self.run, device=self.device)

    def _of_template(self) -> ModelTree:
        from irene.trace.templates.trees import tree_from_template

        tree: ModelTree | None = None
        if self.device == "meta":
            tree = tree_from_template(self.run, make=True)
        if tree is None:
            raise UsageError(
                f"{self.run.model} has no template at this size: only a trace can tell "
                "(--from trace)"
            )
        return tree.unfold()

    def shaped(self, tree: ModelTree) -> ModelTree:
        """The tree as it was asked for."""
        tree = tree.at_level(self.level)
        if not self.fold:
            return tree.unfold()
        return tree if tree.members else tree.fold()

    def document(self, found: ModelTree) -> Mapping[str, Any]:
        """The document `irene.tree/1` as JSON-ready values."""
        return self.shaped(found).to_dict()

    def csv(self, found: ModelTree) -> str:
        """One row per node."""
        from irene.tree.document import tree_csv

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

    on: On = "default"
    taken_from: Literal["trace", "template"] = field(
        default="trace", metadata={"asked": False}
    )
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
        """The tree with predicted energy."""
        subject = self.subject()
        if self.step_ms is None or subject.is_tree:
            return self.predicted()
        from irene.predict.api import predict_run
        from irene.predict.machines.finding import find_machine

        machine, step_s = find_machine(subject.on), self.step_ms / 1e3
        tree = predict_run(subject.run, machine, step_s=step_s)
        return tree.with_notes(*subject.why)


@dataclass(frozen=True, kw_only=True)
class AskBottlenecks(OfModel["Bottlenecks"]):
    """What to look at first: where the energy goes, and what of it is wasted."""

    name: ClassVar[str] = "bottlenecks"
    summary: ClassVar[str] = "What to look at first"
    schema: ClassVar[str] = "irene.bottlenecks/1"
    has_notes: ClassVar[bool] = True

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
    """What it takes to answer requests with a model."""

    name: ClassVar[str] = "cost"
    summary: ClassVar[str] = "Kilowatt-hours, money and CO₂e"
    schema: ClassVar[str] = "irene.cost/1"
    has_notes: ClassVar[bool] = True

    terms: CostTerms = field(default_factory=CostTerms)

    def answer(self, progress: Progress | None = None) -> Costing:
        """Kilowatt-hours, money and CO₂e, per request and for many."""
        return cost_of(self.predicted(), self.terms)


@dataclass(frozen=True, kw_only=True)
class AskCard(OfModel["Card"]):
    """What a model's card says of its energy."""

    name: ClassVar[str] = "card"
    summary: ClassVar[str] = "What a model's card says of its energy"
    schema: ClassVar[str] = "irene.card/1"
    has_notes: ClassVar[bool] = True

    terms: CostTerms = field(
        default_factory=CostTerms,
        metadata={"left_out": ("requests", "per_day", "price_per_kwh")},
    )

    def answer(self, progress: Progress | None = None) -> Card:
        """The energy of a model in short, and how to have it again."""
        from irene.analyse.card import card_of

        return card_of(self.predicted(), self.terms)


@dataclass(frozen=True, kw_only=True)
class AskReport(OfModel["ReportPage"]):
    """Everything about a model on one page.

    Attributes:
        on: Machine to predict for; a saved tree is not predicted anew unless it is
            given.
        without: A part to leave out.
        title: Heading of the page; by default the model.
    """

    name: ClassVar[str] = "report"
    summary: ClassVar[str] = "Everything about a model on one page"
    schema: ClassVar[str] = "irene.report/1"
    is_long: ClassVar[bool] = True

    on: Annotated[str | None, *get_args(On)[1:]] = None  # type: ignore[assignment]
    terms: CostTerms = field(
        default_factory=CostTerms, metadata={"left_out": ("requests", "gco2e_per_kwh")}
    )
    without: tuple[Part, ...] = ()
    title: Annotated[str | None, Asked(metavar="TEXT")] = None

    def subject(self) -> Subject:
        """The run on its machine, by default the one that was learned."""
        on = self.on or "default"
        return read_subject(self.run.model, self.run, on, self.device)

    def answer(self, progress: Progress | None = None) -> ReportPage:
        """A page of all answers, and why some are missing."""
        from irene.show.report import ReportPage, make_report, report_html
        from irene.tree import load

        if progress:
            progress(0, 1, "the tree")
        base: Subject | None = None if self.tree is not None else self.subject()
        if base is not None and not base.is_tree:
            tree = tree_of(base)
        else:
            tree = self.tree or load(self.run.model)
            base = subject_of_tree(tree, self.on) if self.on else None
        report = make_report(
            tree, base, without=self.without, cost=self.terms, progress=progress
        )
        return ReportPage(report_html(report, self.title), report.left_out)


@dataclass(frozen=True, kw_only=True)
class AskWhatIf(Question["WhatIf | Sensitivity | Curves"]):
    """Other sizes, settings and architectures of a model.

    Attributes:
        on: Machine to predict for, or the file of a predictor on this one; by default
            what `irene learn` learned here, else pc1.
        norm: What to put in the place of all norms: `layer_norm`, `rms_norm`, `none`.
        set: `FIELD=VALUE,…`: a field of the config, of the run, or `model`.
        sensitivity: How the energy follows every number of the config.
        over: The energy as a function of this size, which then varies as far as the
            model goes.
        under_j: The largest such size at which a run takes at most this, J.
        vary: What is varied, and the values.
        tree: A tree whose model and run are meant.
    """

    name: ClassVar[str] = "what-if"
    summary: ClassVar[str] = "Other sizes, settings and architectures"
    schema: ClassVar[str] = "irene.what_if/1"
    is_long: ClassVar[bool] = True
    has_table: ClassVar[bool] = True

    run: RunSpec = field(metadata={**ONE_MODEL, "listed": LISTED})
    on: On = "default"
    norm: Annotated[str, Asked(metavar="LIST", longest=100, group="what to vary")] = ""
    set: Annotated[
        tuple[str, ...],
        Asked(
            metavar="FIELD=VALUE,…", longest=500, examples=("hidden_act=relu,gelu",),
            group="what to vary",
        ),
    ] = ()  # fmt: skip
    sensitivity: Annotated[bool, Asked(group="what to vary")] = False
    over: Over = None
    under_j: UnderJ = None
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
        check_curve(self.over, self.under_j)
        if self.over and (self.vary or self.sensitivity):
            raise UsageError(f"over {self.over} is asked alone: no lists, no set")
        if self.sensitivity and any(name not in LISTED for name in self.vary):
            raise UsageError("sensitivity goes without set")
        if not (self.sensitivity or self.vary or self.over):
            raise UsageError(
                "nothing to vary: give several sizes (batch_size 1,8,32), a field of "
                "the config (set FIELD=VALUE), ask for the sensitivity, or for a curve "
                "(over seq_len)"
            )

    def answer(self, progress: Progress | None = None) -> WhatIf | Sensitivity | Curves:
        """Every combination of the values, compared with the model as it is."""
        self.check()
        if self.over:
            base, name = self.base(), self.run.model
            return draw([base], [name], self.over, self.under_j, progress)
        if self.sensitivity:
            from irene.analyse.sensitivity import sensitivity

            return sensitivity(self.base(), progress)
        return what_if(self.base(), self.vary, progress)
