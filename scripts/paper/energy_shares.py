"""Where the energy goes: Tables 10 and 12, and the numbers of Figure 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scripts.paper import published
from scripts.paper.held_out import HeldOut, of_kind
from scripts.paper.markdown import markdown_table, number

from irene.dataset import NodeTable

Floats = npt.NDArray[np.float64]
FIGURE_MODEL = "bert-base-uncased"
FIGURE_CLASS = "BertModel"


def share_tables(table: NodeTable, predictions: Mapping[str, HeldOut]) -> str:
    """Tables 10 and 12 as one: share of energy by module above primitives, %."""
    columns = {
        "irene": predictions["irene"].energy_j.mean(axis=0),
        "measured": table.energy_j,
        "specs": predictions["specs"].energy_j[0],
    }
    rows = []
    for model, theirs in published.SHARES.items():
        shares = [module_shares(table, model, each) for each in columns.values()]
        for op in sorted(shares[1], key=lambda op: -shares[1][op]):
            ours = [number(100 * each[op]) for each in shares]
            rows.append([model, op, number(theirs[op]), *ours])
    header = ("model", "module", "paper", "ours, by `irene`", "measured", "by `specs`")
    return markdown_table(header, rows).replace("|---|---:|", "|---|---|", 1)


def share_distances(
    table: NodeTable, predictions: Mapping[str, HeldOut]
) -> tuple[float, float]:
    """Mean distance of the paper's shares from `irene`'s and the measured, points."""
    columns = (predictions["irene"].energy_j.mean(axis=0), table.energy_j)
    found = []
    for energy_j in columns:
        distances = []
        for model, theirs in published.SHARES.items():
            ours = module_shares(table, model, energy_j)
            distances += [abs(100 * ours[op] - share) for op, share in theirs.items()]
        found.append(float(np.mean(distances)))
    return found[0], found[1]


def module_shares(table: NodeTable, model: str, energy_j: Floats) -> dict[str, float]:
    """Share of energy by class, mean over sizes, 0 to 1.

    Counted are modules that hold primitives only, and primitives beside modules.

    Args:
        table: Measured trees.
        model: Whose trees.
        energy_j: Energy of every row, J.
    """
    counted = _counted(table)
    per_tree: list[dict[str, float]] = []
    for key, rows in table.trees():
        if key.model != model:
            continue
        sums: dict[str, float] = {}
        for row in np.flatnonzero(counted[rows]) + rows.start:
            sums[table.op[row]] = sums.get(table.op[row], 0.0) + float(energy_j[row])
        total = sum(sums.values())
        per_tree.append({op: value / total for op, value in sums.items()})
    return {op: float(np.mean([t[op] for t in per_tree])) for op in per_tree[0]}


def _counted(table: NodeTable) -> npt.NDArray[np.bool_]:
    module, ml = of_kind(table, "module"), of_kind(table, "ml")
    above_modules = np.zeros(len(table), dtype=bool)
    above_modules[table.parent[module]] = True
    above_ml = np.zeros(len(table), dtype=bool)
    above_ml[table.parent[ml]] = True
    return (module & above_ml & ~above_modules) | (ml & above_modules[table.parent])


@dataclass(frozen=True)
class Branch:
    """One node of Figure 5; equal layers and equal primitives are one node.

    Attributes:
        path: Of the first layer.
        op: Class.
        depth: Below the root.
        count: How many there are of it in its parent.
        copies: How many there are of it in the model.
        measured_j: Mean over sizes of one of them, J.
        predicted_j: The same by `specs`, its model held out, J.
        irene_j: The same by `irene`.
        measured_share: Mean over sizes of its part of the model's energy, 0 to 1.
        predicted_share: The same by `specs`.
        irene_share: The same by `irene`.
    """

    path: str
    op: str
    depth: int
    count: int
    copies: int
    measured_j: float
    predicted_j: float
    irene_j: float
    measured_share: float
    predicted_share: float
    irene_share: float


def bert_branches(table: NodeTable, predictions: Mapping[str, HeldOut]) -> list[Branch]:
    """The tree of bert-base, averaged over sizes, in pre-order."""
    columns = [
        table.energy_j,
        predictions["specs"].energy_j[0],
        predictions["irene"].energy_j.mean(axis=0),
    ]
    trees = [rows for key, rows in table.trees() if key.model == FIGURE_MODEL]
    each = [np.stack([column[rows] for rows in trees]) for column in columns]
    joules = [found.mean(axis=0) for found in each]
    shares = [(found / found[:, :1]).mean(axis=0) for found in each]
    return _fold_equal(table, trees[0], np.column_stack([*joules, *shares]))


def _fold_equal(table: NodeTable, rows: slice, means: Floats) -> list[Branch]:
    """One branch per first layer, and per primitives of one name in a parent."""
    branches: list[Branch] = []
    seen: dict[tuple[int, str], int] = {}
    above: dict[int, int] = {}
    depths, place = {-1: -1}, {}
    for offset, row in enumerate(range(rows.start, rows.stop)):
        parent = max(int(table.parent[row]) - rows.start, -1)
        if parent not in depths:  # below a layer that was folded
            continue
        name = table.path[row].rpartition(".")[2]
        key = (parent, table.op[row] if name.isdigit() else table.path[row])
        if key in seen:
            first = branches[seen[key]]
            branches[seen[key]] = replace(first, count=first.count + 1)
            continue
        seen[key] = place[offset] = len(branches)
        above[seen[key]] = place.get(parent, -1)
        depths[offset] = depths[parent] + 1
        op = table.op[row] if parent >= 0 else FIGURE_CLASS
        numbers = means[offset].tolist()
        branches.append(Branch(table.path[row], op, depths[offset], 1, 1, *numbers))
    for i, branch in enumerate(branches):
        copies = branches[above[i]].copies if above[i] >= 0 else 1
        branches[i] = replace(branch, copies=copies * branch.count)
    return branches


def figure_5_table(branches: Sequence[Branch]) -> str:
    """The nodes of Figure 5 whose share the paper prints."""
    by_path = {branch.path: branch for branch in branches}
    rows = [
        [
            f"`{path}`",
            number(theirs, 1),
            number(100 * by_path[path].irene_share, 1),
            number(100 * by_path[path].measured_share, 1),
            number(100 * by_path[path].predicted_share, 1),
        ]
        for path, theirs in published.FIGURE_5.items()
    ]
    header = ("node", "paper", "ours, by `irene`", "measured", "by `specs`")
    return markdown_table(header, rows)
