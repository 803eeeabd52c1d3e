"""All models of the catalogue by their energy at one size on one machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from irene.analyse.energy_cache import EnergyCache
from irene.analyse.pareto import published_accuracies
from irene.analyse.subject import LeftOut, Progress
from irene.energy import Energy
from irene.errors import UsageError
from irene.plain import flat_row
from irene.predict.api import predict_run
from irene.predict.machines.finding import find_machine
from irene.presented import Drawn
from irene.saved import read_values
from irene.spec import SERVING_PHASES, RunSpec
from irene.trace import catalogue
from irene.trace.limits import NO_LIMITS, limits_from_environment
from irene.trace.sources import quiet
from irene.trace.templates.trees import is_at_once

if TYPE_CHECKING:
    from irene.trace.catalogue import Entry

WORTH_PROCESSES = 4
"""Models per process below which starting processes takes longer than it saves."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A model in its place.

    Attributes:
        model: Its name.
        family: Models that share an architecture.
        kind: `encoder`, `decoder`, ….
        params: Published number of parameters.
        energy: Of a run.
        per_sequence_j: J per sequence (image, clip).
        per_token_j: J per token; None where the model reads no tokens.
        flops: Floating-point operations of a run.
        is_extrapolated: Whether the run is outside what the machine was measured on.
        fits: Whether it fits into the memory; None where that is not known.
        accuracy: Published, on SST-2, %; None where none is.
    """

    model: str
    family: str
    kind: str
    params: int
    energy: Energy
    per_sequence_j: float | None
    per_token_j: float | None
    flops: float
    is_extrapolated: bool
    fits: bool | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Leaderboard(Drawn):
    """Models by energy per sequence, the cheapest first; some may be pending."""

    run: RunSpec
    hardware: str
    models: tuple[Ranked, ...]
    left_out: tuple[LeftOut, ...]
    pending: int = 0

    schema: ClassVar = "irene.leaderboard/1"

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.leaderboard/1` as JSON-ready values."""
        return {
            "schema": self.schema,
            "run": self.run.of_any_model(),
            "hardware": self.hardware,
            "models": [
                {"place": place, **asdict(each)}
                for place, each in enumerate(self.models, start=1)
            ],
            "left_out": [asdict(each) for each in self.left_out],
            **({"pending": self.pending} if self.pending else {}),
        }

    def within(self, j_per_token: float) -> Leaderboard:
        """Only models that take at most so much per token; others are left out.

        Args:
            j_per_token: J per token that is read, of a generation per output token.

        Raises:
            UsageError: None of them does.
        """

        def is_cheap(each: Ranked) -> bool:
            return (each.per_token_j or float("inf")) <= j_per_token

        models = tuple(each for each in self.models if is_cheap(each))
        rest = [each for each in self.models if not is_cheap(each)]
        if not models:
            raise UsageError(f"no model takes {j_per_token:g} J per token or less")
        why = f"takes more than {j_per_token:g} J per token"
        dear = tuple(LeftOut(each.model, why) for each in rest)
        return replace(self, models=models, left_out=(*self.left_out, *dear))

    def table(self) -> list[dict[str, Any]]:
        """One flat row for each model in its place."""
        ranked = enumerate(self.models, start=1)
        return [{"place": place, **flat_row(each)} for place, each in ranked]


def choose_entries(
    words: str = "",
    *,
    family: str | None = None,
    kind: str | None = None,
    least_params: float | None = None,
    most_params: float | None = None,
) -> list[Entry]:
    """Entries of the catalogue that pass all filters."""
    everything = catalogue.entries().values()
    for name, value in (("family", family), ("kind", kind)):
        known = sorted({getattr(entry, name) for entry in everything})
        if value is not None and value not in known:
            raise UsageError(f"no {name} {value!r}; there are {', '.join(known)}")
    found = [
        entry
        for entry in catalogue.search(words)
        if family in (None, entry.family)
        and kind in (None, entry.kind)
        and (least_params or 0) <= entry.params <= (most_params or float("inf"))
    ]
    if not found:
        raise UsageError(
            "no model passes these filters; `irene models` lists all that are known"
        )
    return found


def rank_models(
    entries: Sequence[Entry],
    run: RunSpec,
    on: str = "default",
    *,
    cache: EnergyCache | None = None,
    jobs: int = 1,
    with_unfit: bool = False,
    progress: Progress | None = None,
) -> Leaderboard:
    """Predict models at one size and put them in order.

    Args:
        entries: Models of the catalogue.
        run: The run; its model does not count.
        on: Machine or file of a predictor.
        cache: Where predictions are kept; None keeps none.
        jobs: Processes that predict at a time.
        with_unfit: Also models that do not fit into the machine's memory.
        progress: Told what is being done.

    Raises:
        UsageError: The machine is unknown, or none of the models can run.
    """
    machine = find_machine(on)
    store = cache or EnergyCache(None)
    keys = entry_keys(entries, run, on, store)
    known = {name: store.get(key) for name, key in keys.items()}
    missing = [entry for entry in entries if known[entry.name] is None]
    done = len(entries) - len(missing)
    for entry, fields in _predictions(missing, run, on, jobs):
        if progress:
            progress(done, len(entries), entry.name)
        known[entry.name] = fields
        store.put(keys[entry.name], fields)
        done += 1
    found = {name: fields or {} for name, fields in known.items()}
    resolved = run.resolved(machine)
    name = machine.hardware.name
    board = rank_known(entries, found, resolved, name, with_unfit)
    if not board.models:
        raise UsageError(f"none of the models can run: {board.left_out[0].problem}")
    return board


def entry_keys(
    entries: Sequence[Entry], run: RunSpec, on: str, store: EnergyCache
) -> dict[str, str]:
    """The key of every model's energy in a cache, by name."""
    machine = find_machine(on)
    sizes = run.resolved(machine).to_dict()
    return {
        entry.name: store.key(entry.to_dict(), sizes, machine.hardware.predictor)
        for entry in entries
    }


def rank_known(
    entries: Sequence[Entry],
    known: Mapping[str, Mapping[str, Any]],
    run: RunSpec,
    hardware: str,
    with_unfit: bool = False,
) -> Leaderboard:
    """Put models in order whose energies are known."""
    said = [(entry, known[entry.name]) for entry in entries]
    if not with_unfit:
        said = [
            (entry, {"problem": fields["unfit"]} if fields.get("unfit") else fields)
            for entry, fields in said
        ]
    models = [_ranked(entry, fields) for entry, fields in said if fields.get("energy")]
    models.sort(key=lambda each: (each.per_sequence_j or 0.0, each.model))
    left_out = [
        LeftOut(entry.name, fields.get("problem", ""))
        for entry, fields in said
        if not fields.get("energy")
    ]
    return Leaderboard(run, hardware, tuple(models), tuple(left_out))


def _predictions(
    entries: Sequence[Entry], run: RunSpec, on: str, jobs: int
) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """What predictions say of models; those to be traced in several processes."""
    slow = []
    for entry in entries:
        if _is_quick(entry, run, on):
            yield entry, predict_entry(entry, run, on)
        else:
            slow.append(entry)
    if jobs == 1 or len(slow) < WORTH_PROCESSES * jobs:
        for entry in slow:
            yield entry, predict_entry(entry, run, on)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    # Forked processes would inherit the threads of torch in any state.
    lifted = limits_from_environment() is NO_LIMITS
    with ProcessPoolExecutor(
        jobs, get_context("spawn"), _one_thread, (lifted,)
    ) as pool:
        waiting = {pool.submit(predict_entry, each, run, on): each for each in slow}
        try:
            for ready in as_completed(waiting):
                yield waiting[ready], ready.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _is_quick(entry: Entry, run: RunSpec, on: str) -> bool:
    """Whether a prediction takes milliseconds: a serving, or a tree by its template."""
    machine = find_machine(on)
    if machine.serves and run.phase in SERVING_PHASES:
        return True
    return is_at_once(run.of(entry.name).resolved(machine))


def _one_thread(lifted: bool) -> None:
    import torch

    if lifted:
        os.environ["IRENE_NO_LIMITS"] = "1"
    torch.set_num_threads(1)


def predict_entry(entry: Entry, run: RunSpec, on: str) -> dict[str, Any]:
    """What a prediction says of a model, as JSON-ready values."""
    from irene.tree.headline import (
        energy_per_unit,
        is_warning,
        unfit,
        whole_energy,
    )

    try:
        with quiet():
            tree = predict_run(run.of(entry.name), find_machine(on))
    except UsageError as error:
        return {"problem": str(error)}
    units, problem = dict(energy_per_unit(tree)), unfit(tree)
    return {
        "energy": asdict(whole_energy(tree)),
        "per_sequence_j": units.get(
            "sequence", units.get("request", units.get("input"))
        ),
        "per_token_j": units.get("token", units.get("output token")),
        "flops": float(tree.total().flops),
        "is_extrapolated": any(is_warning(note) for note in tree.notes),
        "fits": None if "memory_share" not in tree.features else not problem,
        "unfit": problem,
        "problem": "",
    }


def _ranked(entry: Entry, fields: Mapping[str, Any]) -> Ranked:
    scores = {each.model: each.accuracy for each in published_accuracies()}
    told = {"model": entry.name, "accuracy": scores.get(entry.name)}
    return read_values(Ranked, {**fields, **entry.to_dict(), **told})
