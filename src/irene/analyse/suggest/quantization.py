"""Eight bits for weights or cache: half of what a decoding step reads."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion

__all__ = ["fewer_bits"]

SERVED = ("prefill", "decode", "generate")


def fewer_bits(situation: Situation) -> list[Suggestion]:
    """Weights, and the KV cache, in fp8, where a model is served on a GPU."""
    from irene.predict.machines.finding import is_gpu

    is_served = is_gpu(situation.base.on) and situation.setting("phase") in SERVED
    if not is_served:
        return []
    found: list[Suggestion] = []
    if situation.setting("quantization") in (None, "bf16"):
        found += situation.suggest(
            "quantization",
            {"quantization": "fp8"},
            "store and multiply weights in fp8",
            "a decoding step reads every weight once, whatever the batch",
            accuracy="usually small with calibrated scales; check it",
        )
    if situation.setting("cache_dtype") in (None, "bf16"):
        found += situation.suggest(
            "quantization",
            {"cache_dtype": "fp8"},
            "keep keys and values in fp8",
            "with many streams or long contexts a step reads more cache than weights",
            accuracy="usually small; check it on long contexts",
        )
    return found
