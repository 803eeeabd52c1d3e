"""Recordings of made-up power, to be replayed as if a meter measured it."""

from __future__ import annotations

from pathlib import Path

from irene.meters.channel import Channel
from irene.meters.sampling.sample_file import SampleFile

WATTS = 25.0
DRAM_WATTS = 5.0


def made_up_meter(path: Path, seconds: float = 600.0, **channel) -> str:
    """Name of a meter with counters of 25 W and 5 W, and a zone that does not count."""
    channels = (
        Channel(
            "sim:package", "energy_j", "cpu-package", relative_error=0.02, **channel
        ),
        Channel("sim:dram", "energy_j", "dram"),
        Channel("sim:core", "energy_j", "cpu-core", counted=False),
        Channel("sim:load", "percent", counted=False),
    )
    file = SampleFile(path, channels, 0.01)
    for second in (0.0, seconds):
        values = [WATTS * second, DRAM_WATTS * second, 20 * second, 40.0]
        file.add(round(second * 1e9) + 1, values)
    file.event("end")
    file.close()
    return f"replay:{path}"
