"""Activations: the same function in one kernel, or a simpler function."""

from __future__ import annotations

from irene.analyse.suggest.suggestion import Situation, Suggestion

SAME_FUNCTION = {
    "gelu_new": "gelu_pytorch_tanh",
    "gelu_fast": "gelu_pytorch_tanh",
    "gelu_accurate": "gelu_pytorch_tanh",
    "gelu_python_tanh": "gelu_pytorch_tanh",
    "gelu_python": "gelu",
}
"""Activations that transformers computes step by step, and the one-kernel function of
the same formula."""
SMOOTH = frozenset({"gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "swish", "mish"})


def cheaper_activation(situation: Situation) -> list[Suggestion]:
    """The same activation in one kernel; failing that, a ReLU."""
    found: list[Suggestion] = []
    for name, value in situation.fields.items():
        is_activation = "act" in name.rpartition(".")[2] and isinstance(value, str)
        if not is_activation or name in situation.model.aliases:
            continue
        fused = SAME_FUNCTION.get(value)
        if fused is not None:
            found += situation.suggest(
                "activation",
                {name: fused},
                f"set {name}={fused} instead of {value}",
                f"{value} is computed step by step, each step through memory; {fused} "
                "is the same formula in one kernel",
                accuracy="none: the same function to rounding",
            )
        elif value in SMOOTH:
            found += situation.suggest(
                "activation",
                {name: "relu"},
                f"train with {name}=relu instead of {value}",
                f"{value} is slow to compute",
                effort="retraining",
                accuracy="unknown: weights have to be trained for it",
            )
    return found
