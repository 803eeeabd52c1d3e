"""Trees with made-up energies, for tests of how energy is shown."""

from __future__ import annotations

import numpy as np

from irene.hardware import Hardware
from irene.tree import EnergyColumns, ModelTree, TreeBuilder

HARDWARE = Hardware("pc1", "wall", "a desk", "made-up rates 1")


def with_made_up_energy(tree: ModelTree, notes: tuple[str, ...] = ()) -> ModelTree:
    """The same tree: 20 pJ per FLOP, 600 pJ per byte, 4 mJ per module, 0.2 mJ per op.

    The interval is from 3 % below to 2 % above.
    """
    columns = tree.columns
    moved = columns.bytes_read + columns.bytes_written
    own_flops = columns.own(columns.flops)
    own_bytes = columns.own(moved)
    own_j = own_flops * 20e-12 + own_bytes * 600e-12
    own_j = own_j + np.where(columns.kind == 1, 4e-3, 0)
    own_j = own_j + np.where(columns.kind == 3, 2e-4, 0)
    joules = columns.inclusive(own_j)
    source = np.ones(len(tree), np.uint8)
    low, high = joules * 0.97, joules * 1.02
    energy = EnergyColumns(joules, low, high, source, "made-up rates 1")
    noted = tree.with_notes(*notes)
    return noted.with_energy(energy, HARDWARE)


def tree_of_own() -> ModelTree:
    """10 J: two layers of 4 J (3 J product, 1 J own), a 1.9 J head, 0.05 J each for a
    view and for the model itself."""
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model", params=50)
    for i in range(2):
        layer = builder.add(model, f"layer.{i}", "module", "Layer", params=20)
        builder.add(layer, "fc", "ml", "Linear", flops=100, bytes_read=7, params=20)
    builder.add(model, "view", "ml", "view")
    builder.add(model, "head", "ml", "Linear", flops=20, params=10)
    tree = builder.build(notes=("extrapolation: 3 is more than 2", "made up"))
    own_j = np.array([0.0975, 1.0, 3.0, 1.0, 3.0, 0.0025, 1.9])
    joules = tree.columns.inclusive(own_j)
    source = np.ones(len(tree), np.uint8)
    energy = EnergyColumns(
        joules, joules * 0.9, joules * 1.1, source, "made-up rates 1"
    )
    return tree.with_energy(energy, HARDWARE)
