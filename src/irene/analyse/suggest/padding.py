"""Padding to the longest possible sequence: tokens that say nothing cost the same."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion

LIMITS = ("max_position_embeddings", "n_positions")
LONG = 0.9
"""Part of a model's positions from which a length looks like a limit, not like text."""


def shorter_padding(situation: Situation) -> list[Suggestion]:
    """What half the length would take, where the length is the model's limit."""
    length = situation.run.seq_len
    limits = [situation.fields.get(name) for name in LIMITS]
    limit = next((n for n in limits if isinstance(n, int)), None)
    if limit is None or not LONG * limit <= length <= limit:
        return []
    if situation.run.phase == "decode":
        return []
    half = length // 2
    return situation.suggest(
        "padding",
        {"seq_len": half},
        f"pad to the longest of a batch, not to {length}: {half} tokens shown",
        "padding costs as much as text, and attention grows with the square of the "
        "length; sort inputs by length",
        accuracy="none while no text is cut off",
    )
