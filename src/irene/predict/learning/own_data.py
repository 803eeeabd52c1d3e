"""Data that this program measured: the table, how it was run, and on what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from irene.dataset import NodeTable, read_data
from irene.dataset.formats.nodes_parquet import read_provenance
from irene.dataset.measured_data import (
    configs_beside,
    data_path,
    disturbed_nodes,
    format_of,
)
from irene.dataset.store import Entry, Store, is_store
from irene.errors import UsageError
from irene.hardware import Hardware
from irene.measure.alone.rounds import FLAGS
from irene.predict.learning.join import Joiner, OwnRun
from irene.spec import Attention, DType
from irene.tree import ModelTree


@dataclass(frozen=True, slots=True)
class Choice:
    """Which part of a store is meant.

    Attributes:
        hardware: Name of the machine; None if there is one only.
        software: Versions, as `irene data show` prints them; None if there is one only.
        allow_mixed: Whether measurements of different software may be mixed.
        models: Only these; None for all.
    """

    hardware: str | None = None
    software: str | None = None
    allow_mixed: bool = False
    models: tuple[str, ...] | None = None

    def wants(self, entry: Entry) -> bool:
        """Whether an entry of a store is of the models that are wanted."""
        return self.models is None or entry.spec.model in self.models


@dataclass(frozen=True, slots=True)
class DataRead:
    """Measured trees that a predictor can learn from.

    Attributes:
        table: The trees.
        joiner: Traces them as they were run.
        left_out: In words, what of the data was left out.
        hardware: The machine, if the data tells.
        unmatched: Paths of measured nodes that no trace has, by model, where traces
            were made.
        disturbed: Part of the measured nodes that something disturbed.
        caveats: What disturbed them, in words.
    """

    table: NodeTable
    joiner: Joiner
    left_out: list[str]
    hardware: Hardware | None = None
    unmatched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    disturbed: float = 0.0
    caveats: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What did not match, as in a JSON document."""
        return {
            "unknown_models": dict(self.joiner.unknown),
            "unmatched_paths": {m: list(paths) for m, paths in self.unmatched.items()},
            "left_out": self.left_out,
            "disturbed": self.disturbed,
        }

    def doubts(self) -> dict[str, Any]:
        """What a predictor that learns from it keeps of what disturbed it."""
        if not self.disturbed:
            return {}
        caveats = [f"{each}: these weigh less" for each in self.caveats]
        return {"disturbed": self.disturbed, "caveats": caveats}


def read_for_training(data: str | Path, choice: Choice | None = None) -> DataRead:
    """Read measured trees, whichever form they are in.

    Raises:
        UsageError: There is no such data, or a store has several machines or kinds of
            run and nothing says which.
        FormatError: It is damaged.
    """
    path = data_path(data)
    if is_store(path):
        return _read_store(path, choice or Choice())
    if choice is not None and choice != Choice():
        raise UsageError(f"{data} is no store: it has one machine and one software")
    table, left_out = read_data(data)
    configs = configs_beside(path, table.models)
    own, hardware = None, None
    if format_of(path) == "parquet":
        own, hardware = _told_by_file(path)
    joiner = Joiner(configs=configs, own=own)
    share, count = float(table.disturbed.mean()), int(table.disturbed.sum())
    told = f"warning: {count:,} of {len(table):,} measured nodes were disturbed"
    caveats = (told,) if count else ()
    return DataRead(table, joiner, left_out, hardware, {}, share, caveats)


def _read_store(path: Path, choice: Choice) -> DataRead:
    store = Store.open(path)
    table = store.table(
        choice.hardware,
        software=choice.software,
        where=choice.wants,
        allow_mixed=choice.allow_mixed,
    )
    entry = next(
        e
        for e in store.entries()
        if e.state == "measured" and e.hardware == table.name and choice.wants(e)
    )
    tree = next(store.trees(entry.hardware, lambda e: e.id == entry.id))
    spec = entry.spec
    device = tree.provenance.get("device", "cpu").partition(":")[0]
    own = OwnRun(spec.dtype, spec.attention, device)
    configs = configs_beside(path, table.models)
    disturbed, caveats = _disturbed(store.trees(entry.hardware, choice.wants))
    joiner = Joiner(configs=configs, own=own)
    machine = entry.machine
    return DataRead(table, joiner, [], machine, {}, disturbed, caveats)


def _disturbed(trees: Iterable[ModelTree]) -> tuple[float, tuple[str, ...]]:
    """Part of the measured nodes that have a flag, and each flag in words."""
    nodes, flagged, counts = 0, 0, dict.fromkeys(FLAGS, 0)
    for tree in trees:
        for flag in FLAGS:
            rounds = tree.features.get(f"rounds_{flag}", np.zeros(len(tree)))
            counts[flag] += int((np.nan_to_num(rounds) > 0).sum())
        nodes, flagged = nodes + len(tree), flagged + int(disturbed_nodes(tree).sum())
    caveats = tuple(
        f"warning: {FLAGS[flag]} in rounds of {count:,} of {nodes:,} measured nodes"
        for flag, count in counts.items()
        if count
    )
    return flagged / nodes if nodes else 0.0, caveats


def _told_by_file(path: Path) -> tuple[OwnRun | None, Hardware | None]:
    """How and where a file of `irene measure --data` was measured."""
    told = read_provenance(path)
    if told.run is None or not told.source.startswith("irene measure,"):
        return None, None
    dtype, attention, hardware = told.run
    known = dtype in get_args(DType) and attention in get_args(Attention)
    if not known:
        raise UsageError(f"{path}: unknown kind of run: {dtype}, {attention}")
    device = "cuda" if "gpu" in hardware.covers else "cpu"
    return OwnRun(dtype, attention, device), hardware  # type: ignore[arg-type]
