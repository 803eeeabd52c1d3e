"""Half precision: half the bytes."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion


def half_precision(situation: Situation) -> list[Suggestion]:
    """16-bit weights and activations instead of 32-bit ones."""
    if situation.run.dtype != "fp32":
        return []
    if situation.run.phase == "train":
        return []  # mixed precision keeps 32-bit weights: another run than this one
    return situation.suggest(
        "precision",
        {"dtype": "fp16"},
        "use 16-bit weights and activations",
        "half the bytes move; machines with units for 16-bit products gain more than "
        "this figure, which changes bytes alone",
        accuracy="usually small; check it",
    )
