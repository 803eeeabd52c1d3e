"""Small made-up data, random tables, and the real data where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import strategies as st

from irene.dataset import FEATURES, MeasuredNode, NodeTable, TreeKey, write_folder

COUNTED = tuple(name for name in FEATURES if name not in ("batch_size", "seq_len"))

# (path, kind, op, position of the parent), as a CSV folder sorts them
SHAPE = (
    ("", "model", "tiny", -1),
    ("encoder", "module", "Encoder", 0),
    ("encoder.layer.0", "module", "Layer", 1),
    ("encoder.layer.0.attention", "module", "Attention", 2),
    ("encoder.layer.0.attention.query", "ml", "Linear", 3),
    ("encoder.layer.0.attention.MatMul", "ml", "MatMul", 3),
    ("encoder.layer.0.attention.MatMul", "ml", "MatMul", 3),
    ("encoder.layer.0.attention.Softmax", "ml", "Softmax", 3),
    ("encoder.layer.0.LayerNorm", "ml", "LayerNorm", 2),
    ("encoder.layer.0.dense", "ml", "Linear", 2),
    ("embeddings", "ml", "Embedding", 0),
)


def make_table(models=("tiny", "small"), sizes=((1, 8), (2, 8))) -> NodeTable:
    """Trees of a fixed shape with energies that all differ, but for MatMul."""
    trees = []
    for m, model in enumerate(models):
        for batch, seq in sizes:
            nodes = []
            for i, (path, kind, op, parent) in enumerate(SHAPE):
                i -= op == "MatMul" and nodes[-1].op == "MatMul"
                scale = (1 + 0.37 * m) * batch * (1 + i)
                features = dict.fromkeys(COUNTED[1:], 0.1 * scale)
                op = model if kind == "model" else op
                nodes.append(
                    MeasuredNode(path, kind, op, 0.3 * scale, features, parent)
                )
            trees.append((TreeKey(model, batch, seq), nodes))
    return NodeTable.from_trees("made-up", trees)


@pytest.fixture
def table() -> NodeTable:
    return make_table()


@pytest.fixture
def folder(tmp_path: Path, table: NodeTable) -> Path:
    """A folder of CSV files."""
    write_folder(table, tmp_path / "made-up")
    return tmp_path / "made-up"


@pytest.fixture(scope="session")
def real_folder() -> Path:
    where = os.environ.get("IRENE_DATA_DIR")
    if not where:
        pytest.skip("IRENE_DATA_DIR is not set: no measured data")
    folder = Path(where) / "irene-pc1"
    if not folder.is_dir():
        pytest.skip(f"no measured data in {folder}")
    return folder


amounts = st.one_of(
    st.just(float("nan")), st.floats(0, 1e300, allow_subnormal=False).map(abs)
)
energies = st.one_of(st.just(float("nan")), st.floats(1e-300, 1e300))
names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=".:"),
    min_size=1,
    max_size=6,
)


@st.composite
def trees(draw) -> list[MeasuredNode]:
    """One random tree in pre-order."""
    nodes: list[MeasuredNode] = []
    for i in range(draw(st.integers(1, 8))):
        parent = draw(st.integers(0, i - 1)) if i else -1
        above = f"{nodes[parent].path}." if i and nodes[parent].path else ""
        path = f"{above}{draw(names)}" if i else ""
        kind = draw(st.sampled_from(("module", "ml"))) if i else "model"
        features = {name: draw(amounts) for name in COUNTED}
        nodes.append(
            MeasuredNode(path, kind, draw(names), draw(energies), features, parent)
        )
    return nodes


@st.composite
def tables(draw) -> NodeTable:
    """A random table: any shape, names and values, some unknown."""
    sizes = st.integers(1, 2**31 - 1)
    keys = draw(
        st.lists(
            st.builds(TreeKey, names, sizes, sizes), min_size=1, max_size=3, unique=True
        )
    )
    return NodeTable.from_trees("random", [(key, draw(trees())) for key in keys])
