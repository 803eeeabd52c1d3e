"""Random trees for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from irene.spec import RunSpec
from irene.tree import EnergyColumns, ModelTree, Signature, TreeBuilder

NAMES = ("layer.0", "layer.1", "layer.2", "norm", "query", "block.0.fc", "block.1.fc")
SIGNATURES = (
    Signature(((2, 3),), ((2, 4),), "fp32"),
    Signature(((2, 3), (3,)), (), "bf16"),
    Signature((), (), ""),
)


@st.composite
def subtrees(draw, depth=3):
    """A nested plan: op, signature, own costs and children."""
    width = draw(st.integers(0, 4)) if depth else 0
    names = draw(
        st.lists(st.sampled_from(NAMES), min_size=width, max_size=width, unique=True)
    )
    # Repeating one subtree under several names makes folding likely.
    kinds = draw(st.lists(subtrees(depth - 1), min_size=1, max_size=2)) if width else []
    return {
        "op": draw(st.sampled_from(("Linear", "Block", "add"))),
        "signature": draw(st.sampled_from(SIGNATURES)),
        "flops": draw(st.integers(0, 3)),
        "bytes_read": draw(st.integers(0, 2**40)) if not width else 0,
        "params": draw(st.integers(0, 2)),
        "children": [(name, draw(st.sampled_from(kinds))) for name in names],
    }


def build(plan) -> ModelTree:
    builder = TreeBuilder()

    def add(parent, name, node, depth):
        kind = "model" if parent < 0 else "module" if node["children"] else "ml"
        costs = {k: node[k] for k in ("signature", "flops", "bytes_read", "params")}
        handle = builder.add(parent, name, kind, node["op"], **costs)
        for child_name, child in node["children"]:
            add(handle, child_name, child, depth + 1)

    add(-1, "", plan, 0)
    return builder.build(spec=RunSpec("random"), notes=("made up",))


@st.composite
def trees(draw, with_energy=None):
    """A tree, with or without energies whose parents are children plus own."""
    tree = build(draw(subtrees()))
    if with_energy is False or (with_energy is None and draw(st.booleans())):
        return tree
    own = np.array(
        draw(
            st.lists(
                st.sampled_from((0.0, 0.25, 1.0, 3.5)),
                min_size=len(tree),
                max_size=len(tree),
            )
        )
    )
    joules = tree.columns.inclusive(own)
    return tree.with_energy(
        EnergyColumns(
            joules, joules * 0.9, joules * 1.1, np.ones(len(tree), np.uint8), "a test"
        )
    )
