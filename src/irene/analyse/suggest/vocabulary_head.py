"""The product with the whole vocabulary, where nobody reads its result."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion

LARGE = 0.03
"""Part of the energy from which a head is worth a look."""


def no_vocabulary_head(situation: Situation) -> list[Suggestion]:
    """Hidden states alone, or scores of the last position only."""
    phase = situation.run.phase
    has_head = situation.model.model_class != "AutoModel"
    vocabulary = situation.fields.get("vocab_size")
    if phase not in ("forward", "prefill") or not has_head or not vocabulary:
        return []
    share = situation.role_share("head")
    if share < LARGE:
        return []
    return situation.suggest(
        "vocabulary head",
        {"model_class": "AutoModel"},
        "score the vocabulary at the last position only (logits_to_keep=1), or not at "
        "all where hidden states do",
        f"the head takes {share:.0%}: scores of {vocabulary:,} words for each of "
        f"{situation.run.seq_len} positions",
        accuracy="none: scores of other positions are not read",
    )
