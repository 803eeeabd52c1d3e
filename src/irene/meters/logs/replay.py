"""Replay: plays recorded samples as if they were taken now, for tests and teaching."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from irene.errors import UsageError
from irene.meters.channel import Channel, SensorLostError
from irene.meters.sampling.recording import Recording, read_recording

__all__ = ["ReplayMeter", "open_replay"]


class ReplayMeter:
    """Gives the values of a recording, as much later as it was opened later.

    Counters are read between two samples in proportion to time, other values as they
    were at the last sample. After the last sample there is nothing more.
    """

    name = "replay"

    def __init__(
        self,
        recording: Recording,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if not len(recording):
            raise UsageError("the recording has no samples to replay")
        self.channels: tuple[Channel, ...] = recording.channels
        self._recording = recording
        self._clock_ns = clock_ns
        self._began_ns: int | None = None

    def read(self) -> list[float]:
        """Values at this moment of the recording.

        Raises:
            SensorLostError: The recording is over.
        """
        now_ns = self._clock_ns()
        if self._began_ns is None:
            self._began_ns = now_ns
        times = self._recording.time_ns
        moment = int(times[0]) + now_ns - self._began_ns
        if moment > times[-1]:
            raise SensorLostError("the recording is over")
        before = int(np.searchsorted(times, moment, side="right")) - 1
        after = min(before + 1, len(times) - 1)
        values: list[float] = self._recording.values[before].tolist()
        step_ns = int(times[after] - times[before])
        part = (moment - int(times[before])) / step_ns if step_ns else 0.0
        for column, channel in enumerate(self.channels):
            if channel.quantity == "energy_j":
                then = float(self._recording.values[after, column])
                values[column] += part * (then - values[column])
        return values

    def close(self) -> None:
        """Nothing is open."""


def open_replay(path: Path) -> ReplayMeter:
    """Open a file of samples to be played again.

    Args:
        path: What a sampler wrote.
    """
    return ReplayMeter(read_recording(path))
