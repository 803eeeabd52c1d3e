"""Questions about models, asked of a server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from irene.analyse import (
    Advice,
    Bottlenecks,
    Comparison,
    Costing,
    Elasticity,
    TradeOff,
    WhatIf,
)
from irene.analyse.pareto import AccuracyRow
from irene.analyse.subject import Progress
from irene.errors import FormatError, IreneError
from irene.serve.client.choices import as_asked, written
from irene.serve.client.documents import (
    Standings,
    Upload,
    read_as,
    read_comparisons,
    read_sensitivity,
    read_standings,
    read_tree,
)
from irene.serve.client.transport import Reply, Transport
from irene.show.csv_rows import rows_csv
from irene.spec import RunSpec
from irene.tree import ModelTree

__all__ = ["Questions", "query_of", "run_query"]

AGAIN_S = 2.0
RUN_FIELDS = {each.name for each in fields(RunSpec)} - {"model"}


def query_of(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Parameters of a request: what is None is left out, a list is repeated."""
    found = []
    for name, value in values.items():
        several = value if isinstance(value, list | tuple) else [value]
        for each in several:
            if each is not None:
                text = str(each).lower() if isinstance(each, bool) else str(each)
                found.append((name, text))
    return found


def run_query(run_options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a run, looked at as they would be here.

    Raises:
        SpecError: A field has an impossible value.
    """
    given = {name: v for name, v in run_options.items() if v is not None}
    RunSpec("any", **{name: v for name, v in given.items() if name in RUN_FIELDS})
    return given


class Questions:
    """What can be asked of models.

    A model is a name of the server's catalogue, an `Upload`, or where a tree will do
    (`predict`, `compare`, `bottlenecks`, `cost`) also `answer:KEY`. The options of a
    run are those of `irene.predict`.

    Args:
        transport: The way to the server.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def predict(
        self, model: str | Upload, on: str = "pc1", **run_options: Any
    ) -> ModelTree:
        """The energy of every node of a model, as `irene.predict` gives it.

        Args:
            model: A name, or what was uploaded.
            on: Name of a machine that the server knows.
            **run_options: batch_size, seq_len, ….

        Raises:
            UsageError: The model or the machine is unknown, or a size is impossible.
        """
        return read_tree(self._of_model("energy", model, on, run_options, level="math"))

    def trace(self, model: str | Upload, **run_options: Any) -> ModelTree:
        """The tree of a model with its costs alone, as `irene.trace` gives it.

        Args:
            model: A name, or what was uploaded.
            **run_options: batch_size, seq_len, ….

        Raises:
            UsageError: The model is unknown, or a size is impossible.
        """
        reply = self._of_model("tree", model, None, run_options, level="math")
        return read_tree(reply)

    def compare(
        self,
        base: str | Upload,
        other: str | Upload,
        per: str = "run",
        on: str = "pc1",
        **run_options: Any,
    ) -> Comparison:
        """What differs between two models, sizes, machines or trees, and why.

        Args:
            base: The first: `gpt2`, `gpt2@b16s256,on=pc1`, an upload, `answer:KEY`.
            other: The second; differences are second minus first.
            per: `run`, `sequence` or `token`.
            on: Machine, unless a subject names another.
            **run_options: Of the run, unless a subject names others.
        """
        subjects = [_name(base), _name(other)]
        asked = {"subject": subjects, "per": per, "hardware": on}
        reply = self._get("compare", {**asked, **run_query(run_options)})
        found = read_comparisons(reply)
        if len(found) != 1:
            raise FormatError(f"the server answers with {len(found)} comparisons")
        return found[0]

    def bottlenecks(
        self, model: str | Upload, on: str = "pc1", **run_options: Any
    ) -> Bottlenecks:
        """Where the energy of a model goes, and what of it is wasted."""
        return read_as(
            Bottlenecks, self._of_model("bottlenecks", model, on, run_options)
        )

    def suggestions(
        self, model: str | Upload, on: str = "pc1", **run_options: Any
    ) -> Advice:
        """What to change, and what it saves."""
        return read_as(Advice, self._of_model("suggest", model, on, run_options))

    def cost(
        self,
        model: str | Upload,
        on: str = "pc1",
        *,
        queries: float = 1e6,
        per_day: float | None = None,
        price_per_kwh: float | None = None,
        region: str = "WORLD",
        gco2e_per_kwh: float | None = None,
        pue: float = 1.0,
        **run_options: Any,
    ) -> Costing:
        """Kilowatt-hours, money and CO₂e of answering queries with a model.

        Args:
            model: A name, or what was uploaded.
            on: Name of a machine.
            queries: Queries to answer; one is one sequence.
            per_day: Queries per day, for a year's cost.
            price_per_kwh: In any currency.
            region: Whose electricity.
            gco2e_per_kwh: Instead of a region's, g.
            pue: Energy of the building by that of its machines.
            **run_options: batch_size, seq_len, ….
        """
        asked = {
            "queries": queries,
            "per_day": per_day,
            "price": price_per_kwh,
            "region": region,
            "intensity": gco2e_per_kwh,
            "pue": pue,
        }
        return read_as(Costing, self._of_model("cost", model, on, run_options, **asked))

    def what_if(
        self,
        model: str | Upload,
        choices: Mapping[str, Sequence[Any]],
        on: str = "pc1",
        **run_options: Any,
    ) -> WhatIf:
        """A model for every combination of choices, compared with the model as it is.

        Args:
            model: A name, or an uploaded config.
            choices: Values by name: `batch_size`, `seq_len`, `dtype`, `attention`,
                `norm`, `model`, or any field of the config.
            on: Name of a machine.
            **run_options: Of the model as it is.
        """
        run = run_query(run_options)
        varied = written(choices, run)
        asked = {"model": _name(model), "hardware": on, **run}
        rest = {name: value for name, value in asked.items() if name not in choices}
        reply = self._transport.get("/what-if", [*query_of(rest), *varied])
        phase = str(run.get("phase", "forward"))
        return as_asked(read_as(WhatIf, reply), choices, phase)

    def sensitivity(
        self, model: str | Upload, on: str = "pc1", **run_options: Any
    ) -> list[Elasticity]:
        """How the energy follows every number of a model's config."""
        reply = self._of_model("what-if", model, on, run_options, sensitivity=True)
        return read_sensitivity(reply)

    def trade_off(
        self,
        rows: Sequence[AccuracyRow] | None = None,
        on: str = "pc1",
        *,
        budget_j: float | None = None,
        at_least: float | None = None,
        **run_options: Any,
    ) -> TradeOff:
        """Accuracy against energy, and the Pareto front.

        Args:
            rows: As `irene.analyse.pareto.read_accuracies` reads them from a
                file; by default the published accuracies on SST-2.
            on: Name of a machine.
            budget_j: Most energy per sequence, J.
            at_least: Least accuracy.
            **run_options: batch_size (by default 16), seq_len, ….
        """
        bounds = {"hardware": on, "budget_j": budget_j, "at_least": at_least}
        query = query_of({**bounds, **run_query(run_options)})
        if rows is None:
            return read_as(TradeOff, self._transport.get("/trade-off", query))
        reply = self._transport.send(
            "POST", "/trade-off", _table(rows), {"Content-Type": "text/csv"}, query
        )
        return read_as(TradeOff, reply)

    def leaderboard(
        self,
        search: str = "",
        on: str = "pc1",
        *,
        family: str | None = None,
        kind: str | None = None,
        min_params: float | None = None,
        max_params: float | None = None,
        limit: int | None = None,
        partial: bool = False,
        progress: Progress | None = None,
        **run_options: Any,
    ) -> Standings:
        """Models of the catalogue by their energy; the first time takes minutes.

        Args:
            search: Words that must all occur in a name, family or kind.
            on: Name of a machine.
            family: Models that share an architecture.
            kind: `encoder`, `decoder`, ….
            min_params: Fewest parameters.
            max_params: Most parameters.
            limit: Only so many, those with the fewest parameters.
            partial: Whether to answer at once with the models that are known.
            progress: Told models done, models in all, and what is being done.
            **run_options: batch_size (by default 8), seq_len, ….

        Raises:
            IreneError: The server predicts no further model for `timeout_s`.
        """
        asked = {
            "search": search,
            "hardware": on,
            "family": family,
            "kind": kind,
            "min_params": min_params,
            "max_params": max_params,
            "limit": limit,
            "partial": True,
        }
        asked |= run_query(run_options)
        if partial:
            return read_standings(self._get("leaderboard", asked))
        return self._whole_leaderboard(asked, progress)

    def _whole_leaderboard(
        self, asked: Mapping[str, Any], progress: Progress | None
    ) -> Standings:
        """Ask until no model is pending, for as long as there are fewer of them."""
        least, moved = None, time.monotonic()
        while True:
            reply = self._get("leaderboard", asked)
            found = read_standings(reply)
            if not found.pending:
                return found
            done = len(found.models) + len(found.left_out)
            if progress:
                progress(done, done + found.pending, "leaderboard")
            if least is None or found.pending < least:
                least, moved = found.pending, time.monotonic()
            if time.monotonic() - moved > self._transport.timeout_s:
                raise IreneError(
                    f"{found.pending} models are still being predicted: ask again, or "
                    "with partial=True for the others"
                )
            time.sleep(reply.retry_after_s or AGAIN_S)

    def _of_model(
        self,
        name: str,
        model: str | Upload,
        on: str | None,
        run_options: Mapping[str, Any],
        **further: Any,
    ) -> Reply:
        run = run_query(run_options)
        return self._get(
            name, {"model": _name(model), "hardware": on, **run, **further}
        )

    def _get(self, name: str, asked: Mapping[str, Any]) -> Reply:
        return self._transport.get(f"/{name}", query_of(asked))


def _name(model: str | Upload) -> str:
    return model.model if isinstance(model, Upload) else model


def _table(rows: Sequence[AccuracyRow]) -> bytes:
    return rows_csv(asdict(row) for row in rows).encode()
