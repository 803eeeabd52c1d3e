"""Fused attention: scores are not written to memory and read again."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion


def fused_attention(situation: Situation) -> list[Suggestion]:
    """`sdpa` instead of `eager`."""
    if situation.run.attention != "eager":
        return []
    share = situation.role_share("attention")
    return situation.suggest(
        "attention",
        {"attention": "sdpa"},
        "use fused attention (attn_implementation='sdpa')",
        f"attention takes {share:.0%}; fused kernels do not write the scores to memory",
    )
