"""Larger batches: kernels that fill the machine, and fewer calls per sequence."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion

LARGEST = 512
"""Most streams at a time of measured servings."""
MOST_TOKENS = 16_384
"""Batches beyond this rarely fit into the memory of one GPU."""
ENOUGH = 0.9
"""Part of the largest saving that a smaller batch has to reach."""


def larger_batch(situation: Situation) -> list[Suggestion]:
    """The smallest batch that reaches most of what larger batches save for sure."""
    run = situation.run
    if situation.run.phase == "train":
        return []  # a larger batch trains another model
    sizes, size = [], run.batch_size * 2
    length = 1 if run.phase in ("decode", "generate") else run.seq_len
    while size <= LARGEST and size * length <= MOST_TOKENS:
        sizes.append(size)
        size *= 2
    tried = {size: situation.try_out({"batch_size": size}) for size in sizes}
    found = {size: outcome for size, outcome in tried.items() if outcome is not None}
    savings = {s: each.saving_j - each.saving_half_j for s, each in found.items()}
    if max(savings.values(), default=0.0) <= 0:
        savings = {size: each.saving_j for size, each in found.items()}
    most = max(savings.values(), default=0.0)
    if most <= 0:
        return []
    chosen = min(size for size, saving in savings.items() if saving >= ENOUGH * most)
    served = run.phase == "generate"
    what = f"serve {chosen} streams at once" if served else f"run batches of {chosen}"
    return situation.suggest(
        "batch size",
        {"batch_size": chosen},
        f"{what} instead of {run.batch_size}",
        "small batches do not fill the machine, and every call costs the host the same",
        least=0.02,
    )
