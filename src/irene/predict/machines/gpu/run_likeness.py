"""What energies of two runs on GPUs are wrong by together.

What calibrations are wrong by is alike in runs that are alike: of models with weights
of the same sizes, in one setup, of sizes that are near.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from irene.energy import SharedError
from irene.predict.intervals import Beyond
from irene.predict.machines.gpu.doubts import CONTRADICTED
from irene.predict.machines.gpu.engines import TODAY
from irene.spec import RunSpec
from irene.trace.serving.tree import is_serving_tree
from irene.tree import ModelTree

WEIGHTED = ("linear", "fused_moe")
"""Ops of servings whose weights are stored in a type of their own."""
APART: Mapping[str, float] = {
    "model": 0.073, "setup": 0.029, "batch": 0.01, "prompt": 0.01, "output": 0.01,
}  # fmt: skip
"""Square of what errors of two servings differ by, in log units: of two models, by the
part of their weights that is not of the same sizes; of two setups (another GPU, other
numbers of them, another precision or engine); for each octave between their sizes. Nine
of ten measured pairs that differ in nothing else are then inside
(`benchmarks/coverage.py`, which makes them without the families of a pair). No pairs
differ in lengths alone: prompts and answers are taken as batches."""
APART_AT = 0.15
"""Half the interval of the servings that tell it; what is no serving, and has a wider
one, is apart in proportion."""
CONTRADICTED_OCTAVE = 0.06
"""The same of what servings contradict each other about, for an octave of the batch, in
the one family that shows it; errors of two models have nothing in common there."""


def shared_errors(
    tree: ModelTree,
    gpu: str,
    width: float,
    causes: Sequence[Beyond],
    engine: str = TODAY,
) -> list[SharedError]:
    """What the energy of a run is wrong by that others may share.

    What calibrations are wrong by is alike in servings that are alike.

    Half the interval of the whole is without its causes.
    """
    times = 1.0 if is_serving_tree(tree) else (width / APART_AT) ** 2
    place = {axis: times * at for axis, at in _place(tree, gpu, engine).items()}
    found = [SharedError("servings", width, place)]
    for each in causes:
        at = {}
        if each.cause == "contradicted" and tree.spec is not None:
            octaves = math.log2(tree.spec.batch_size)
            model = str(tree.columns.params[0])
            at = {"batch": CONTRADICTED_OCTAVE * octaves, model: CONTRADICTED}
        found.append(SharedError(f"{each.cause} on {gpu}", each.width, at))
    return found


def _place(tree: ModelTree, gpu: str, engine: str) -> dict[str, float]:
    """Where a run is among servings, by how far apart their errors are."""
    spec = tree.spec
    setup: object = gpu
    sizes = {}
    if spec is not None:
        split = spec.tensor_parallel, spec.expert_parallel, spec.data_parallel
        stored = _stored(tree, spec), spec.cache_dtype or spec.dtype
        setup = gpu, *stored, spec.phase, spec.engine or engine, *split
        sizes = {
            "batch": spec.batch_size,
            "prompt": spec.prompt_len or spec.seq_len,
            "output": spec.output_len,
        }
    # Two words that differ are on two axes, each of half the distance.
    place = {f"setup {setup}": APART["setup"] / 2}
    for weight, share in _weights(tree).items():
        place[f"model {weight}"] = share * APART["model"] / 2
    return place | {name: APART[name] * math.log2(n or 1) for name, n in sizes.items()}


def _weights(tree: ModelTree) -> dict[str, float]:
    """Share of each size of weight in a model, without tables that are looked up.

    One model has the same whatever it is called, was trained for, is stored in, and
    over how many GPUs it is split.
    """
    params = tree.columns.params
    own = tree.columns.own(params.astype(np.float64), tree.parents) * tree.multiplicity
    found: dict[str, float] = {}
    for row in np.flatnonzero(own > 0).tolist():
        op = tree.strings[tree.columns.op[row]]
        if "embedding" not in op.lower():
            name = f"{op} {params[row]}"
            found[name] = found.get(name, 0.0) + float(own[row])
    total = sum(found.values())
    return {name: each / total for name, each in found.items()}


def _stored(tree: ModelTree, spec: RunSpec) -> str:
    """How most weights of a run are stored."""
    kinds = [place for place, op in enumerate(tree.strings) if op in WEIGHTED]
    rows = np.flatnonzero(np.isin(tree.columns.op, kinds))
    if not len(rows):
        return spec.quantization or spec.dtype
    largest = rows[int(tree.columns.params[rows].argmax())]
    return tree.signatures[int(tree.columns.signature[largest])].dtype
