"""Larger batches: kernels that fill the machine, and fewer calls per sequence."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion

LARGEST = 512
"""Most streams at a time of measured servings."""
MOST_TOKENS = 16_384
"""Batches beyond this rarely fit into the memory of one GPU."""
ENOUGH = 0.9
"""The cheapest batch takes at least this part of what is left with the one chosen."""


def larger_batch(situation: Situation) -> list[Suggestion]:
    """The smallest batch beyond which others save little more, of those sure to."""
    run = situation.run
    if situation.run.phase == "train":
        return []  # a larger batch trains another model
    sizes, size = [], run.batch_size * 2
    length = 1 if run.phase in ("decode", "generate") else run.seq_len
    while size <= LARGEST and size * length <= MOST_TOKENS:
        sizes.append(size)
        size *= 2
    tried = {size: situation.try_out({"batch_size": size}) for size in sizes}
    found = {size: each for size, each in tried.items() if each is not None}
    sure = {size: each for size, each in found.items() if each.saving_is_real}
    usual_j = situation.per_sequence_j
    left_j = {size: usual_j - each.saving_j for size, each in (sure or found).items()}
    least_j = min(left_j.values(), default=usual_j)
    if least_j >= usual_j:
        return []
    chosen = min(size for size, joules in left_j.items() if ENOUGH * joules <= least_j)
    served = run.phase == "generate"
    what = f"serve {chosen} streams at once" if served else f"run batches of {chosen}"
    return situation.suggest(
        "batch size",
        {"batch_size": chosen},
        f"{what} instead of {run.batch_size}",
        "small batches do not fill the machine, and every call costs the host the same",
        least=0.02,
    )
