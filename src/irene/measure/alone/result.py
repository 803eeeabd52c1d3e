"""The measured tree: figures of distinct nodes laid out on it, with their story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from irene.energy import Source
from irene.hardware import Hardware
from irene.measure.alone.bench import Bench
from irene.measure.alone.capture import DistinctNode
from irene.measure.alone.rounds import FLAGS, Figures, NodeResult
from irene.meters.machine import machine_words
from irene.tree import EnergyColumns, ModelTree
from irene.tree.columns import features_of_rows

MOST_NAMED = 5
UNSTEADY = 0.1


def measured_tree(
    tree: ModelTree,
    nodes: Sequence[DistinctNode],
    results: Mapping[str, NodeResult],
    bench: Bench,
    machine: Mapping[str, str],
    name: str = "this-machine",
) -> ModelTree:
    """A tree with the energy and the features of every node that could be run."""
    figures: list[Figures | None] = [None] * len(tree)
    for node in nodes:
        one = results[node.key].figures()
        for row in node.rows:
            figures[row] = one
    known = [one or Figures(np.nan, np.nan, np.nan, {}) for one in figures]
    readings, protocol = bench.readings, bench.protocol
    source = get_args(Source).index(readings.source)
    rounds = f"{protocol.rounds} × {protocol.round_s:g} s"
    energy = EnergyColumns(
        np.array([one.energy_j for one in known]),
        np.array([one.low_j for one in known]),
        np.array([one.high_j for one in known]),
        np.full(len(tree), source, np.uint8),
        f"{readings.meters}, {rounds}",
    )
    told = {**tree.provenance, **machine, **_story(bench, results, rounds)}
    described = tree.with_provenance(told).with_notes(*_notes(nodes, results, bench))
    hardware = Hardware(name, readings.covers, machine_words(machine))
    features = features_of_rows([one.features for one in known])
    return described.with_features(features).with_energy(energy, hardware)


def _story(
    bench: Bench, results: Mapping[str, NodeResult], rounds: str
) -> dict[str, str]:
    idle = bench.idle
    dates = sorted(result.date for result in results.values() if result.date)
    return {
        "meters": ", ".join(c.name for c in bench.sampler.channels),
        "counted": ", ".join(c.name for c in bench.readings.counted),
        "sampling_period": f"{bench.protocol.period_s:g} s",
        "rounds": rounds,
        "idle_power": f"{idle.power_w:.2f} W, ±{idle.spread:.1%}"
        if idle.power_w == idle.power_w
        else "not known",
        "measured": " – ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "",
    }


def _notes(
    nodes: Sequence[DistinctNode], results: Mapping[str, NodeResult], bench: Bench
) -> list[str]:
    told = [results[node.key] for node in nodes]
    return [
        "energy is gross, idle power included; net_energy_mean is without it",
        *bench.readings.notes,
        *_unknown(told),
        *_flagged(told),
        *_unsteady(bench),
    ]


def _unknown(results: Sequence[NodeResult]) -> list[str]:
    """A note for every reason for which energies are not known."""
    reasons: dict[str, list[str]] = {}
    for result in results:
        if not result.energy_known:
            reason = f"cannot be run alone: {result.problem}"
            if not result.problem:
                reason = "a meter was lost, latency is known"
            reasons.setdefault(reason, []).append(result.label)
    return [
        f"warning: energy not known of {_named(labels)}: {reason}"
        for reason, labels in reasons.items()
    ]


def _flagged(results: Sequence[NodeResult]) -> list[str]:
    """A note for every flag that rounds still have, and one on repeated rounds."""
    labels: dict[str, list[str]] = {flag: [] for flag in FLAGS}
    for result in results:
        for flag in result.remaining_flags:
            labels[flag].append(result.label)
    again = sum(max(0, len(r.rounds) - r.wanted) for r in results)
    notes = [
        f"warning: {words} in rounds of {len(labels[flag])} of {len(results)} distinct "
        f"nodes: {_named(labels[flag])}"
        for flag, words in FLAGS.items()
        if labels[flag]
    ]
    if again:
        notes.append(f"{again} disturbed rounds were repeated")
    return notes


def _unsteady(bench: Bench) -> list[str]:
    if not bench.idle.spread > UNSTEADY:
        return []
    return [
        f"warning: idle power was not steady (±{bench.idle.spread:.0%}): was the "
        "machine doing something else?"
    ]


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - MOST_NAMED
    named = ", ".join(labels[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named
