"""All-reduces between GPUs: a law of three numbers, fitted to measured ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from irene.arrays import Floats
from irene.saved import Saved, shipped_document

SCHEMA = "irene.collectives/2"
FILE = "collectives.json"


@dataclass(frozen=True, slots=True)
class Exchange(Saved):
    """Time between so many GPUs: (latency^p + (bytes / rate)^p)^(1/p).

    Attributes:
        latency_s: Time of a message of nothing, s.
        bytes_s: Bytes that leave a GPU per second in long messages.
        sharpness: p.
        width: 90 % quantile of |log(measured / law)|.
    """

    latency_s: float
    bytes_s: float
    sharpness: float
    width: float

    def seconds(self, sent: Floats) -> Floats:
        """Time of messages, s, by the bytes that leave each GPU."""
        p = self.sharpness
        joined = self.latency_s**p + (sent / self.bytes_s) ** p
        seconds: Floats = joined ** (1.0 / p)
        return seconds


Laws = Mapping[int, Exchange]
"""Of collectives of one kind and kind of GPU, by how many take part."""


def exchange_seconds(laws: Laws, ranks: Floats, sent: Floats) -> tuple[Floats, float]:
    """Time of each collective, s, and half the width of their interval in log units.

    Args:
        laws: Of as many GPUs, or nearly as many.
        ranks: GPUs that take part in each.
        sent: Bytes that leave each GPU.
    """
    known = np.array(sorted(laws))
    time_s, width = np.zeros(len(sent)), 0.0
    nearest = known[np.abs(np.log(known[:, None] / ranks)).argmin(axis=0)]
    for count in np.unique(nearest).tolist():
        law, here = laws[count], nearest == count
        time_s[here] = law.seconds(sent[here])
        width = max(width, law.width)
    return time_s, width


@cache
def exchanges() -> Mapping[str, Mapping[str, Laws]]:
    """Those that were measured, by kind of op and name of the GPU."""
    document = shipped_document(__package__, FILE, SCHEMA)
    return {
        kind: {
            gpu: {int(n): Exchange.from_dict(law) for n, law in laws.items()}
            for gpu, laws in by_gpu.items()
        }
        for kind, by_gpu in document["laws"].items()
    }
