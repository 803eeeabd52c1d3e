"""Asker: the questions as methods, for whoever can answer them; here as functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from inspect import cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from irene.analyse.costs import CostTerms
from irene.analyse.subject import Progress
from irene.errors import UsageError
from irene.parameters import check_name
from irene.questions import (
    AskBottlenecks,
    AskCard,
    AskComparison,
    AskCost,
    AskLeaderboard,
    AskReport,
    AskServePlan,
    AskSuggestions,
    AskTradeOff,
    AskTrainingPlan,
    AskWhatIf,
)
from irene.questions.of_several import Per
from irene.questions.question import Question
from irene.spec import RunOptions, RunSpec, shows_run_options
from irene.tables import csv_of_records
from irene.tree import ModelTree

if TYPE_CHECKING:
    from irene.analyse import (
        Advice,
        Bottlenecks,
        Comparison,
        Costing,
        Leaderboard,
        Sensitivity,
        TradeOff,
        WhatIf,
    )
    from irene.analyse.card import Card
    from irene.analyse.comparison import Comparisons
    from irene.analyse.pareto import AccuracyRow
    from irene.analyse.serving_plan import ServingPlan
    from irene.analyse.training_plan import TrainingPlan

T = TypeVar("T")
Asked = str | Path | ModelTree
"""A model by name or path, or a tree that is there."""


OF_ALL = {
    "model": "A name, a path, or a tree.",
    "on": "Name of a machine, or the file of a predictor.",
    "progress": "Told steps done, steps in all, and what is being done.",
    "run": "batch_size, seq_len, …: the fields of `RunSpec`.",
}
"""What arguments mean that many methods have."""
CHANGED = "A name, a path, or a tree of a model that the catalogue has."
F = TypeVar("F", bound=Callable[..., Any])


def _asks(question: type[Question[Any]], **others: str) -> Callable[[F], F]:
    """Say in a method's help what the question, or others, say of its arguments."""
    known = {each.name: each.words for each in question.parameters()}

    def told(method: F) -> F:
        words = known | OF_ALL | others
        arguments = list(signature(method).parameters)[1:]
        lines = [f"    {name}: {words[name]}" for name in arguments]
        doc = cleandoc(method.__doc__ or "")
        method.__doc__ = "\n".join([doc, "", "Args:", *lines])
        return shows_run_options(method)

    return told


class Asker(ABC):
    """What can be asked of models.

    A model is a name, the path of a config.json or of a saved tree, or a tree; the
    options of a run are those of `irene.predict`. What is left out is chosen for the
    machine.
    """

    @abstractmethod
    def ask(self, question: Question[T], progress: Progress | None = None) -> T:
        """The answer to a question.

        Args:
            question: Of `irene.questions`.
            progress: Told steps done, steps in all, and what is being done.
        """

    @_asks(AskBottlenecks)
    def bottlenecks(
        self, model: Asked, on: str = "default", **run: Unpack[RunOptions]
    ) -> Bottlenecks:
        """Where the energy of a model goes, and what of it is wasted."""
        return self.ask(AskBottlenecks(on=on, **_of(AskBottlenecks, model, run)))

    @_asks(AskSuggestions, model=CHANGED)
    def suggest(
        self,
        model: Asked,
        on: str = "default",
        *,
        progress: Progress | None = None,
        **run: Unpack[RunOptions],
    ) -> Advice:
        """What to change about a model, and what it saves."""
        return self.ask(
            AskSuggestions(on=on, **_of(AskSuggestions, model, run)), progress
        )

    @_asks(AskCard)
    def card(
        self,
        model: Asked,
        on: str = "default",
        *,
        region: str = "WORLD",
        gco2e_per_kwh: float | None = None,
        pue: float = 1.0,
        **run: Unpack[RunOptions],
    ) -> Card:
        """What a model's card says of its energy."""
        terms = CostTerms(region=region, gco2e_per_kwh=gco2e_per_kwh, pue=pue)
        return self.ask(AskCard(on=on, terms=terms, **_of(AskCard, model, run)))

    def plan_training(
        self, model: str | Path, tokens: float, on: str = "h100", **options: Any
    ) -> TrainingPlan:
        """What a training takes, before it runs.

        Args:
            model: A name or a path.
            tokens: Tokens to train on.
            on: Name of a machine.
            **options: gpus, checkpointing, batch_size, seq_len, price_per_kwh, …: the
                parameters of the question.
        """
        values = {"model": str(model), "tokens": tokens, "on": on, **options}
        return self.ask(AskTrainingPlan.asked(values))

    @_asks(AskCost)
    def cost(
        self,
        model: Asked,
        on: str = "default",
        *,
        requests: float = 1e6,
        per_day: float | None = None,
        price_per_kwh: float | None = None,
        currency: str = "USD",
        region: str = "WORLD",
        gco2e_per_kwh: float | None = None,
        pue: float = 1.0,
        **run: Unpack[RunOptions],
    ) -> Costing:
        """Kilowatt-hours, money and CO₂e of answering requests with a model."""
        terms = CostTerms(
            requests, per_day, price_per_kwh, currency, region, gco2e_per_kwh, pue
        )
        return self.ask(AskCost(on=on, terms=terms, **_of(AskCost, model, run)))

    @_asks(
        AskComparison,
        base="The first: `gpt2`, `gpt2@b16s256,on=pc1`, a path, or a tree.",
        other="The second; differences are second minus first.",
        per="`run`, `sequence` or `token`; by default token of servings, else run.",
        on="Machine, unless a subject names another.",
        run="Of the run, unless a subject names others.",
    )
    def compare(
        self,
        base: Asked,
        other: Asked,
        per: Per | None = None,
        on: str = "default",
        **run: Unpack[RunOptions],
    ) -> Comparison:
        """What differs between two models, sizes, machines or trees, and why."""
        sides = [base, other]
        if all(isinstance(each, ModelTree) for each in sides):
            given: dict[str, Any] = {"trees": tuple(sides)}
        elif any(isinstance(each, ModelTree) for each in sides):
            raise UsageError(
                "compare two trees, or two models: predict the model first"
            )
        else:
            given = {"subject": tuple(map(str, sides))}
        asked = AskComparison(on=on, per=per, run=RunSpec.asked("", run), **given)
        return cast("Comparisons", self.ask(asked)).comparisons[0]

    @_asks(
        AskWhatIf,
        model=CHANGED,
        choices="Values by name: a field of `RunSpec`, `norm`, `model`, or any field "
        "of the config.",
        run="Of the model as it is.",
    )
    def what_if(
        self,
        model: Asked,
        choices: Mapping[str, Sequence[Any]],
        on: str = "default",
        *,
        progress: Progress | None = None,
        **run: Unpack[RunOptions],
    ) -> WhatIf:
        """A model for every combination of choices, compared with it as it is."""
        asked = AskWhatIf(on=on, vary=choices, **_of(AskWhatIf, model, run))
        return cast("WhatIf", self.ask(asked, progress))

    @_asks(AskWhatIf, model=CHANGED)
    def sensitivity(
        self,
        model: Asked,
        on: str = "default",
        *,
        progress: Progress | None = None,
        **run: Unpack[RunOptions],
    ) -> Sensitivity:
        """How the energy of a model follows every number of its config."""
        asked = AskWhatIf(on=on, sensitivity=True, **_of(AskWhatIf, model, run))
        return cast("Sensitivity", self.ask(asked, progress))

    @_asks(
        AskTradeOff,
        rows="As `irene.analyse.pareto.read_accuracies` reads them from a file; by "
        "default the published accuracies on SST-2.",
    )
    def trade_off(
        self,
        rows: Sequence[AccuracyRow] | None = None,
        on: str = "default",
        *,
        budget_j: float | None = None,
        at_least: float | None = None,
        progress: Progress | None = None,
        **run: Unpack[RunOptions],
    ) -> TradeOff:
        """Accuracy against energy, and the Pareto front."""
        table = None if rows is None else csv_of_records(asdict(row) for row in rows)
        values = {"on": on, "budget_j": budget_j, "at_least": at_least}
        asked = AskTradeOff.asked({**values, "accuracies": table, **run})
        return self.ask(asked, progress)

    @_asks(AskLeaderboard)
    def leaderboard(
        self,
        search: str = "",
        on: str = "default",
        *,
        family: str | None = None,
        kind: str | None = None,
        min_params: float | None = None,
        max_params: float | None = None,
        max_j_per_token: float | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
        **run: Unpack[RunOptions],
    ) -> Leaderboard:
        """Models of the catalogue by their energy; the first time takes minutes."""
        values: dict[str, Any] = {
            "search": search, "on": on, "family": family, "kind": kind,
            "min_params": min_params, "max_params": max_params,
            "max_j_per_token": max_j_per_token, "limit": limit,
        }  # fmt: skip
        return self.ask(AskLeaderboard.asked({**values, **run}), progress)

    def serve_plan(
        self,
        model: str | Path,
        on: str | Sequence[str] = "h100",
        *,
        max_latency: str | None = None,
        max_first_token: str | None = None,
        progress: Progress | None = None,
        **run: Any,
    ) -> ServingPlan:
        """The cheapest way to serve a language model that is quick enough.

        Args:
            model: A name, or the path of a config.json.
            on: Names of machines.
            max_latency: Most time between two tokens of a stream, as `50ms`.
            max_first_token: Most time to the first token, as `2s`.
            progress: Told what is being done.
            **run: Fields of `RunSpec`; of `batch_size`, `tensor_parallel`,
                `expert_parallel`, `data_parallel` and `quantization` lists, all of
                which are tried.
        """
        values: dict[str, Any] = {
            "model": str(model), "on": on if isinstance(on, str) else ",".join(on),
            "max_latency": max_latency, "max_first_token": max_first_token,
        }  # fmt: skip
        return self.ask(AskServePlan.asked({**values, **run}), progress)

    @_asks(
        AskReport,
        on="Machine to predict for; by default the one that was learned here, else "
        "pc1; none for a tree.",
        terms="Price, region and PUE of the cost.",
    )
    def report(
        self,
        model: Asked,
        on: str | None = None,
        *,
        without: Collection[str] = (),
        title: str | None = None,
        terms: CostTerms | None = None,
        progress: Progress | None = None,
        **run: Unpack[RunOptions],
    ) -> str:
        """Everything about a model on one page of HTML, which loads nothing."""
        asked = AskReport(
            on=on, without=cast(Any, tuple(without)), title=title,
            terms=terms or CostTerms(), **_of(AskReport, model, run),
        )  # fmt: skip
        return self.ask(asked, progress).html


def _of(
    question: type[Question[Any]], model: Asked, run: Mapping[str, Any]
) -> dict[str, Any]:
    """The run of a model, or a tree that has its run already."""
    for name in run:
        right = check_name(name, question.parameters())
        if right != name:
            raise UsageError(f"no option {name!r}; did you mean {right}?")
    if isinstance(model, ModelTree):
        if run:
            raise UsageError("a tree has its run already: give it alone")
        return {"run": model.spec or RunSpec(model.root.op), "tree": model}
    if not isinstance(model, str | Path):
        raise UsageError(
            "a model is a name, a path or a tree, got "
            f"{type(model).__name__}: predict it first, and give the tree"
        )
    return {"run": RunSpec.asked(str(model), run)}


class Here(Asker):
    """Answers in this process."""

    def ask(self, question: Question[T], progress: Progress | None = None) -> T:
        """The answer to a question, after a look at its names and sizes."""
        question.check()
        return question.answer(progress)


_here = Here()
bottlenecks = _here.bottlenecks
card = _here.card
compare = _here.compare
cost = _here.cost
leaderboard = _here.leaderboard
plan_training = _here.plan_training
report = _here.report
sensitivity = _here.sensitivity
serve_plan = _here.serve_plan
suggest = _here.suggest
trade_off = _here.trade_off
what_if = _here.what_if
