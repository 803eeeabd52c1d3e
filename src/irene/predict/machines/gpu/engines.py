"""Serving engines: how long their host makes a GPU wait beside its kernels."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from irene.arrays import Floats
from irene.errors import UsageError
from irene.saved import Saved, check_schema

SCHEMA = "irene.engine/1"
TODAY = "vllm"
"""The engine whose servings calibrate machines."""
UNKNOWN = "unknown"
"""Any of those that are known: an interval that holds them all."""


@dataclass(frozen=True, slots=True)
class Engine(Saved):
    """What an engine adds to the steps of the one that machines are calibrated on.

    Attributes:
        name: As given to `--engine`.
        description: Name, version and year.
        step_s: Time of a step, s.
        sequence_s: Time of a step for each of its sequences, s.
        layer_s: Time of a step for each layer, s.
        shared_layer_s: Time of a step for each layer that several GPUs share, s.
        step_share: Power in the time of steps and layers, as a share of what lies
            between idle and the limit.
        sequence_share: Power in the time of sequences, the same.
        energy_width: Least half of the 90 % interval of the energy, in log units.
        time_width: The same of time.
        source: Which servings it is from, in words.
    """

    name: str
    description: str
    step_s: float = 0.0
    sequence_s: float = 0.0
    layer_s: float = 0.0
    shared_layer_s: float = 0.0
    step_share: float = 0.0
    sequence_share: float = 0.0
    energy_width: float = 0.0
    time_width: float = 0.0
    source: str = ""

    def waits(
        self, sequences: Floats, layers: Floats, ranks: Floats
    ) -> tuple[Floats, Floats]:
        """Time beside kernels of steps, s, and how much of it is at the upper power.

        Returns:
            Time, s; and the same weighed by its share of power.
        """
        of_layers = self.layer_s + np.where(ranks > 1, self.shared_layer_s, 0.0)
        steps_s = self.step_s + of_layers * layers
        own_s = self.sequence_s * sequences
        weighed: Floats = self.step_share * steps_s + self.sequence_share * own_s
        return steps_s + own_s, weighed

    def width(self, usual: float, is_shared: bool, of_time: bool = False) -> float:
        """Half the interval of its servings, in log units.

        Between GPUs its time is known from one model alone: what servings of the engine
        of today are wrong by comes to it.
        """
        own = self.time_width if of_time else self.energy_width
        return math.hypot(own, usual) if is_shared else own


@cache
def engines() -> Mapping[str, Engine]:
    """Those that are known, by name, that of today first."""
    folder = resources.files("irene.predict").joinpath("machines", "files", "engines")
    found = {}
    for file in folder.iterdir():
        fields = json.loads(file.read_text(encoding="utf-8"))
        check_schema(fields.get("schema"), SCHEMA)
        engine = Engine.from_dict(fields)
        found[engine.name] = engine
    return dict(sorted(found.items(), key=lambda item: (item[0] != TODAY, item[0])))


def engines_of(name: str) -> tuple[Engine, ...]:
    """The engine of a name; all of them for one that is not known.

    Raises:
        UsageError: Nothing is known of an engine of that name.
    """
    known = engines()
    if name == UNKNOWN:
        return tuple(known.values())
    if name not in known:
        raise UsageError(f"no engine {name!r}: {', '.join(known)}, {UNKNOWN}")
    return (known[name],)


def in_words(engines: tuple[Engine, ...]) -> str:
    """Engines in words."""
    if len(engines) == 1:
        return engines[0].description
    several = ", ".join(each.description for each in engines)
    return f"unknown, the interval holds {several}"
