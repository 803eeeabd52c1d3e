"""Eight bits for weights or cache: half of what a decoding step reads."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion
from irene.predict.machines.finding import find_machine
from irene.spec import SERVING_PHASES


def fewer_bits(situation: Situation) -> list[Suggestion]:
    """Weights, and the KV cache, in fp8, where a model is served on a GPU."""
    serves = find_machine(situation.base.on).serves
    if not serves or situation.run.phase not in SERVING_PHASES:
        return []
    found: list[Suggestion] = []
    if situation.run.quantization in (None, "bf16"):
        found += situation.suggest(
            "quantization",
            {"quantization": "fp8"},
            "store and multiply weights in fp8",
            "a decoding step reads every weight once, whatever the batch",
            accuracy="usually small with calibrated scales; check it",
        )
    if situation.run.cache_dtype in (None, "bf16"):
        found += situation.suggest(
            "quantization",
            {"cache_dtype": "fp8"},
            "keep keys and values in fp8",
            "with many streams or long contexts a step reads more cache than weights",
            accuracy="usually small; check it on long contexts",
        )
    return found
