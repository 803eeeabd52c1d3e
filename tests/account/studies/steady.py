"""A machine of known power, and models small enough to run many times."""

from __future__ import annotations

from typing import Any

from transformers import AlbertConfig, BertConfig, PretrainedConfig

from irene.account.studies import Conditions, Subject
from irene.account.studies.run import Operation, Run
from tests.account.simulated import WATTS, SteadyMeter

__all__ = ["WATTS", "SteadyMeter", "albert", "bert", "made_run", "quick"]

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
}


def quick(**changes: Any) -> Conditions:
    """Short runs on the steady machine."""
    usual: dict[str, Any] = {
        "batch_size": 2,
        "seq_len": 16,
        "steps": 2,
        "runs": 1,
        "level": "module",
        "meters": (SteadyMeter(),),
        "period_s": 0.002,
        "device": "cpu",
    }
    return Conditions(**(usual | changes))


def bert(layers: int = 1, **fields: Any) -> Subject:
    config = BertConfig(num_hidden_layers=layers, **(SIZES | fields))
    return _subject(f"L={layers}", config, num_hidden_layers=layers)


def albert(layers: int = 1) -> Subject:
    config = AlbertConfig(num_hidden_layers=layers, embedding_size=8, **SIZES)
    return _subject("albert", config)


def _subject(name: str, config: PretrainedConfig, **fields: Any) -> Subject:
    return Subject(name, config, fields)


def made_run(
    energies: dict[str, tuple[float, ...]], phase: str = "forward", **fields: Any
) -> Run:
    """A run whose operations have known energies, by scope."""
    operations = tuple(
        Operation(scope, "op", phase, True, step_j)
        for scope, step_j in energies.items()
    )
    total_j = sum(map(sum, energies.values()))
    usual: dict[str, Any] = {
        "measured_j": total_j,
        "attributed_j": total_j,
        "window_s": 1.0,
        "parameters": 10,
        "source": "measured",
        "produced_by": "steady",
    }
    return Run(operations, **(usual | fields))
