"""What the process of a job may use, set by the process itself before it does anything.

The parent cannot set them: between fork and exec a process with threads must not run
Python.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from irene.serve.http.settings import Settings

__all__ = ["Bounds", "bounds_of", "set_bounds"]

MEASURE_TIMES = 24
"""A measurement may take this many times as long as a prediction."""
FILE_BYTES = 200_000_000
RESULT_BYTES = 400_000_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that one job may use.

    Attributes:
        wall_s: Time, s.
        cpu_s: Time of all its threads together, s.
        memory_bytes: Memory on top of what the libraries take; 0: any.
        file_bytes: Any file that it writes.
        result_bytes: Its result.
    """

    wall_s: float
    cpu_s: float
    memory_bytes: int
    file_bytes: int = FILE_BYTES
    result_bytes: int = RESULT_BYTES

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return asdict(self)


def bounds_of(settings: Settings, kind: str) -> Bounds:
    """The bounds of a job of a kind.

    A measurement has real weights, and a GPU's driver reserves far more addresses than
    it uses: `irene.measure` looks itself whether a model fits, so no bound is set here.
    """
    wall_s = settings.limits.job_seconds
    if kind != "measure":
        return Bounds(wall_s, wall_s, settings.limits.memory_bytes)
    wall_s *= MEASURE_TIMES
    return Bounds(wall_s, wall_s * (os.cpu_count() or 1), 0)


def set_bounds(bounds: Mapping[str, Any]) -> None:
    """Bound this process and those it will start; memory is bounded later."""
    import resource

    cpu_s = int(bounds["cpu_s"]) + 1
    file_bytes = int(bounds["file_bytes"])
    for name, soft, hard in (
        # Between the two the kernel says what it is about: SIGXCPU, not SIGKILL.
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 5),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(name, (soft, hard))
