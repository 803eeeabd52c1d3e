"""Trees of any shape with any energies, for properties that hold for all."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from irene.hardware import Hardware
from irene.spec import RunSpec
from irene.tree import EnergyColumns, ModelTree, TreeBuilder

OPS = ("Linear", "LayerNorm", "softmax", "add", "GELUActivation")
MODULES = ("attention", "mlp", "norm", "output")


@st.composite
def trees(draw: st.DrawFn) -> ModelTree:
    """A model of layers with modules and primitives, some of them with own energy."""
    builder = TreeBuilder()
    model = builder.add(-1, "", "model", "Model")
    own = [draw(_small())]
    builder.add(model, "embeddings", "ml", "Embedding", bytes_read=draw(_whole()))
    own.append(draw(_energy()))
    for number in range(draw(st.integers(0, 3))):
        layer = builder.add(model, f"layer.{number}", "module", "Layer")
        own.append(draw(_small()))
        for name in draw(st.lists(st.sampled_from(MODULES), max_size=3, unique=True)):
            module = builder.add(layer, name, "module", name.title())
            own.append(draw(_small()))
            for i, op in enumerate(draw(st.lists(st.sampled_from(OPS), max_size=3))):
                flops, moved = draw(_whole()), draw(_whole())
                builder.add(
                    module, f"{op}_{i}", "ml", op, flops=flops, bytes_read=moved
                )
                own.append(draw(_energy()))
    spec = RunSpec("made-up", batch_size=draw(st.integers(1, 8)), seq_len=16)
    return _with_energy(builder.build(spec=spec), own)


def _energy() -> st.SearchStrategy[float]:
    return st.floats(1e-3, 10.0)


def _small() -> st.SearchStrategy[float]:
    return st.sampled_from((0.0, 0.0, 0.25))


def _whole() -> st.SearchStrategy[int]:
    return st.integers(0, 10**9)


def _with_energy(tree: ModelTree, own: list[float]) -> ModelTree:
    joules = tree.columns.inclusive(np.array(own))
    source = np.ones(len(tree), np.uint8)
    energy = EnergyColumns(joules, joules * 0.9, joules * 1.1, source, "made-up rates")
    return tree.with_energy(energy, Hardware("made-up", "wall"))
