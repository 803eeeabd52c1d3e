"""Figures 3, 4 and 5 of the paper, drawn from the data and our predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scripts.paper import published
from scripts.paper.energy_shares import Branch
from scripts.paper.held_out import HeldOut, of_kind
from scripts.paper.svg import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    Axis,
    Picture,
    draw_axes,
)

import irene
from irene.energy import Energy

LAYERS, HIDDEN = (2, 4, 6, 8, 10, 12), (128, 256, 512, 768)
BATCH, LENGTH = 16, 128

CURVES = {  # colour, dashes; its name: at which percent of models, on which side
    "counters": (GREEN, "2 3", 30, "end"),
    "specs": (BLUE, "", 35, "start"),
    "irene": (RED, "", 80, "end"),
    "sum": (PURPLE, "8 4", 20, "end"),
    "utilisation": (FAINT, "1 4", 8, "end"),
}


def model_errors(found: HeldOut) -> list[float]:
    """Errors of all whole models with every seed, %, sorted."""
    percent = found.percent[:, of_kind(found.table, "model")]
    return np.sort(percent.ravel()).tolist()


def figure_3(predictions: Mapping[str, HeldOut]) -> Picture:
    """Part of the models whose error is below a value."""
    picture = Picture(900, 560, "Distribution of the errors of whole models on PC1")
    ticks = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    x = Axis(0.02, 80, 80, 870, ticks, "error of the whole model, %", True)
    y = Axis(0, 100, 490, 50, (0, 25, 50, 75, 100), "models with a smaller error, %")
    picture.text((80, 28), picture.title, 17, INK, bold=True)
    draw_axes(picture, x, y)
    for label, (colour, dash, height, side) in CURVES.items():
        errors = model_errors(predictions[label])
        steps = [(x.place(errors[0]), y.place(0))]
        for i, error in enumerate(errors):
            steps.append((x.place(error), y.place(100 * (i + 1) / len(errors))))
        picture.line(steps, colour, 2.5, dash)
        beside = x.place(float(np.quantile(errors, height / 100)))
        at = (beside + (12 if side == "start" else -12), y.place(height) + 5)
        picture.text(at, label, 15, colour, side, bold=True)
    for error, part in published.FIGURE_3:
        picture.marker((x.place(error), y.place(100 * part)), "diamond", INK, 6)
    picture.marker((110, 74), "diamond", INK, 6)
    picture.text((124, 79), "the paper's irene", 14)
    return picture


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


WIDTH_STYLES = {
    128: (ORANGE, "triangle"),
    256: (GREEN, "square"),
    512: (RED, "diamond"),
    768: (BLUE, "circle"),
}


def figure_4(miniatures: Sequence[Miniature], measured_j: float) -> Picture:
    """Energy against accuracy, and energy of all sizes below it."""
    title = f"BERT sizes on PC1, batch {BATCH}, length {LENGTH}"
    picture = Picture(900, 830, title)
    picture.text((80, 28), title, 17, INK, bold=True)
    ticks = (0.2, 0.5, 1, 2, 5, 10, 20, 50)
    above = Axis(0.2, 50, 80, 870, ticks, "", True)
    accuracy = Axis(80, 96, 400, 80, (80, 85, 90, 95), "SST-2 accuracy (test), %")
    draw_axes(picture, above, accuracy)
    below = Axis(
        0.2, 50, 80, 870, ticks, "predicted energy of one forward pass, J", True
    )
    layers = Axis(0, 14, 770, 450, LAYERS, "layers")
    draw_axes(picture, below, layers)
    _draw_legend(picture, 56)
    for mini in miniatures:
        percent = published.SST2_PERCENT.get(mini.name)
        if percent is not None:
            at = (above.place(mini.energy.joules), accuracy.place(percent))
            _draw_point(picture, mini, above, at[1])
            nickname = published.NICKNAMES[mini.name]
            picture.text((at[0] - 14, at[1] - 10), nickname, 14, INK, "end")
        _draw_point(picture, mini, below, layers.place(mini.layers))
    base = (below.place(measured_j), layers.place(LAYERS[-1]))
    picture.line([(base[0], base[1] - 16), (base[0], base[1] + 16)], INK, 2.5)
    picture.text((base[0], base[1] - 22), "measured", 13, INK, "middle")
    return picture


def _draw_legend(picture: Picture, y: float) -> None:
    for i, (hidden, (colour, shape)) in enumerate(WIDTH_STYLES.items()):
        x = 100 + 130 * i
        picture.marker((x, y - 5), shape, colour)
        picture.text((x + 14, y), f"width {hidden}", 14)
    picture.line([(630, y - 5), (660, y - 5)], FAINT, 1.5)
    picture.text((668, y), "interval of the prediction", 14)


def _draw_point(picture: Picture, mini: Miniature, x: Axis, y: float) -> None:
    colour, shape = WIDTH_STYLES[mini.hidden]
    low, high = x.place(mini.energy.low), x.place(mini.energy.high)
    picture.line([(low, y), (high, y)], FAINT, 1.5)
    for end in (low, high):
        picture.line([(end, y - 5), (end, y + 5)], FAINT, 1.5)
    picture.marker((x.place(mini.energy.joules), y), shape, colour)


ROW, BAR_LEFT, BAR_WIDTH = 34, 420, 300


def figure_5(branches: Sequence[Branch]) -> Picture:
    """The tree with mean energy of every node, measured and predicted."""
    top = 96
    title = "bert-base-uncased on PC1: mean energy of one run over 28 sizes"
    picture = Picture(1000, top + ROW * len(branches) + 20, title)
    picture.text((24, 30), title, 17, INK, bold=True)
    for x, colour, words in ((24, BLUE, "measured"), (130, ORANGE, "predicted")):
        picture.rectangle((x, 49), (14, 14), colour)
        picture.text((x + 20, 61), words, 14)
    picture.text((240, 61), "(specs, this model held out)", 14)
    for x, words in (
        (BAR_LEFT, "share of the model, all copies together"),
        (860, "one, measured"),
        (975, "one, predicted"),
    ):
        anchor = "start" if x == BAR_LEFT else "end"
        picture.text((x, 86), words, 13, FAINT, anchor)
    for i, branch in enumerate(branches):
        _draw_branch(picture, branch, top + ROW * i)
    _draw_connectors(picture, branches, top)
    return picture


def _draw_branch(picture: Picture, branch: Branch, y: float) -> None:
    name = branch.path.rpartition(".")[2].replace("0", "layer") or "model"
    times = f" × {branch.count}" if branch.count > 1 else ""
    label = branch.op if name == branch.op else f"{name} · {branch.op}"
    picture.text((_indent(branch) + 14, y + 20), f"{label}{times}", 14)
    pairs = ((branch.measured_share, BLUE), (branch.predicted_share, ORANGE))
    for i, (share, colour) in enumerate(pairs):
        width = max(BAR_WIDTH * min(branch.copies * share, 1.0), 1.0)
        picture.rectangle((BAR_LEFT, y + 5 + 11 * i), (width, 10), colour)
    part = f"{100 * branch.copies * branch.measured_share:.1f} %"
    picture.text((BAR_LEFT + BAR_WIDTH + 10, y + 20), part, 13, FAINT)
    for x, joules in ((860, branch.measured_j), (975, branch.predicted_j)):
        words = _joules(joules)
        picture.text((x, y + 20), words, 14, INK, "end", bold=branch.depth == 0)


def _draw_connectors(picture: Picture, branches: Sequence[Branch], top: float) -> None:
    """A line from every node to its parent."""
    for i, branch in enumerate(branches):
        if branch.depth == 0:
            continue
        parent = max(j for j in range(i) if branches[j].depth == branch.depth - 1)
        x, y = _indent(branches[parent]) + 18, top + ROW * i + 15
        start = top + ROW * parent + 25
        picture.line([(x, start), (x, y), (_indent(branch) + 10, y)], GREY, 1)


def _indent(branch: Branch) -> float:
    return 12 + 26 * branch.depth


def _joules(joules: float) -> str:
    return f"{1000 * joules:.0f} mJ" if joules < 1 else f"{joules:.2f} J"
