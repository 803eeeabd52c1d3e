"""Lengths that do not fill the last tile or wave of a kernel cost as if they did."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion

TILES = (128, 64, 32)
NEAR = 0.1
"""Part of the tokens that may be cut off."""
MORE_THAN_TOKENS = 1.5
"""How much larger than the part of the tokens the saving has to be."""


def whole_tiles(situation: Situation) -> list[Suggestion]:
    """A slightly shorter length whose saving is out of proportion to its tokens."""
    length = situation.run.seq_len
    if situation.run.phase == "decode":
        return []
    best: list[Suggestion] = []
    for tile in TILES:
        shorter = length // tile * tile
        cut = 1 - shorter / length
        if not 0 < cut <= NEAR or not shorter:
            continue
        found = situation.suggest(
            "tiles",
            {"seq_len": shorter},
            f"cut sequences to {shorter} tokens instead of {length}",
            f"{length} tokens do not fill whole tiles: {cut:.1%} of the tokens cost "
            "more than their share",
            accuracy=f"that of dropping up to {length - shorter} tokens of long inputs",
            least=MORE_THAN_TOKENS * cut + 0.01,
        )
        if found and (not best or found[0].saving_j > best[0].saving_j):
            best = found
    return best
