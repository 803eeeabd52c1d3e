"""Small measured trees that are made up, each unlike the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from irene.dataset.store import Origin
from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tree import EnergyColumns, ModelTree, TreeBuilder
from irene.tree.columns import Signature

DESK = Hardware("desk", "wall", "a desk, 2 cores")
SHELF = Hardware("desk", "wall", "a shelf, 8 cores")
TORCH = {"torch": "2.9.1", "transformers": "5.1.0", "irene": "0.1.0"}
SIGNATURE = Signature(((2, 8), (8, 8)), ((2, 8),), "fp32")


def made_up_tree(
    model: str = "tiny", scale: float = 1.0, hardware: Hardware = DESK, **spec: Any
) -> ModelTree:
    """A model of two layers; one energy and one latency are not known."""
    builder = TreeBuilder()
    root = builder.add(-1, "", "model", "Model", params=40)
    for place in range(2):
        layer = builder.add(root, f"layer.{place}", "module", "Layer", params=20)
        product = builder.add(
            layer, "fc", "ml", "Linear", params=20, signature=SIGNATURE
        )
        builder.add(product, "mm", "math", "aten.mm", flops=700, bytes_read=96)
    builder.add(root, "/tied.head", "ml", "Linear", flops=300, bytes_written=8)
    builder.add(root, "view", "ml", "view")
    tree = builder.build(
        spec=RunSpec(model, **{"batch_size": 2, "seq_len": 8, **spec}),
        provenance={"torch": "2.9.1", "counted": "a wall meter"},
        notes=("made up",),
        unsupported={"aten.odd": 2},
    )
    joules = scale * (1.0 + np.arange(len(tree))[::-1])
    joules[-1] = np.nan
    times = joules / 20
    times[0] = np.nan
    busy = np.full(len(tree), np.nan)
    busy[2] = 1.0
    energy = EnergyColumns(
        joules, joules * 0.9, joules * 1.1, np.zeros(len(tree), np.uint8), "made up"
    )
    features = {"times_mean": times, "rounds_busy": busy}
    return tree.with_features(features).with_energy(energy, hardware)


def origin(hardware: Hardware = DESK, **facts: Any) -> Origin:
    told: dict[str, Any] = {
        "host": "here",
        "software": TORCH,
        "meter": "a wall meter",
        "started": "2026-01-02T03:04:05+00:00",
        "duration_s": 1.5,
        "collector": "me",
    }
    return Origin(hardware=hardware, **{**told, **facts})
