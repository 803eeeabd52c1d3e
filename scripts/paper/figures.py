"""Figures 3, 4 and 5 of the paper, drawn from the data and our predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scripts.paper import published
from scripts.paper.energy_shares import Branch
from scripts.paper.held_out import HeldOut, of_kind

import irene
from irene.energy import Energy
from irene.human import human_energy
from irene.show.picture import (
    AxisSpec,
    Dot,
    Picture,
    TreeBox,
    distribution,
    in_a_column,
    scatter,
    tree_chart,
)

LAYERS, HIDDEN = (2, 4, 6, 8, 10, 12), (128, 256, 512, 768)
BATCH, LENGTH = 16, 128

CURVES = ("irene", "specs", "counters", "sum", "utilisation")


def model_errors(found: HeldOut) -> list[float]:
    """Errors of all whole models with every seed, %, sorted."""
    percent = found.percent[:, of_kind(found.table, "model")]
    return np.sort(percent.ravel()).tolist()


def figure_3(predictions: Mapping[str, HeldOut]) -> Picture:
    """Part of the models whose error is at most a value."""
    published_points = [(error, 100 * part) for error, part in published.FIGURE_3]
    return distribution(
        {label: model_errors(predictions[label]) for label in CURVES},
        "Distribution of the errors of whole models on PC1",
        AxisSpec("error of the whole model", "%", log=True),
        "models",
        {"the paper's irene": published_points},
        (900, 560),
    )


class Miniature(NamedTuple):
    """A BERT of Figure 4."""

    name: str
    layers: int
    hidden: int
    energy: Energy
    is_outside: bool


def predict_miniatures() -> list[Miniature]:
    """The 24 sizes, predicted by the shipped predictor of PC1."""
    found = []
    for layers in LAYERS:
        for hidden in HIDDEN:
            name = f"bert-l{layers}-h{hidden}"
            tree = irene.predict(name, on="pc1", batch_size=BATCH, seq_len=LENGTH)
            energy = next(iter(tree.nodes())).energy
            assert energy is not None
            outside = any(note.startswith("extrapolation") for note in tree.notes)
            found.append(Miniature(name, layers, hidden, energy, outside))
    return found


def figure_4(miniatures: Sequence[Miniature], measured_j: float) -> Picture:
    """Energy against accuracy, and energy of all sizes below it."""
    title = f"BERT sizes on PC1, batch {BATCH}, length {LENGTH}"
    x = AxisSpec("predicted energy of one forward pass", "J", True, 0.2, 50)
    known = [mini for mini in miniatures if mini.name in published.SST2_PERCENT]
    above = scatter(
        [
            _dot(
                mini, published.SST2_PERCENT[mini.name], published.NICKNAMES[mini.name]
            )
            for mini in known
        ],
        title,
        x,
        AxisSpec("SST-2 accuracy (test)", "%", low=80, high=96),
        size=(900, 430),
    )
    base = Dot(measured_j, LAYERS[-1], "measured", "measured: bert-base-uncased")
    below = scatter(
        [*(_dot(mini, mini.layers) for mini in miniatures), base],
        "All sizes, with the interval of the prediction",
        x,
        AxisSpec("layers", ticks=LAYERS, low=0, high=14),
        size=(900, 430),
    )
    return in_a_column(title, [above, below])


def _dot(mini: Miniature, y: float, name: str = "") -> Dot:
    energy, group = mini.energy, f"width {mini.hidden}"
    return Dot(energy.joules, y, name, group, energy.low, energy.high)


def figure_5(branches: Sequence[Branch]) -> Picture:
    """The tree with mean energy of every node, measured and predicted."""
    return tree_chart(
        [_box(branch) for branch in branches],
        "bert-base-uncased on PC1: mean energy of one run over 28 sizes, measured → "
        "predicted by specs with this model held out; share of the model, measured",
    )


def _box(branch: Branch) -> TreeBox:
    name = branch.path.rpartition(".")[2].replace("0", "layer") or branch.op
    times = f" ×{branch.count}" if branch.count > 1 else ""
    share = min(branch.copies * branch.measured_share, 1.0)
    each = " each" if branch.copies > 1 else ""
    joules = (human_energy(j) for j in (branch.measured_j, branch.predicted_j))
    text = f"{' → '.join(joules)}{each} · {share:.1%}"
    return TreeBox(f"{name}{times}", branch.depth, share, text, branch.measured_j)
