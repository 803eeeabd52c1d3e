"""How whole servings differ from the sum of their kernels: few numbers per GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from irene.predict.learned_file import Floats, Saved, check_schema
from irene.predict.machines.gpu.datasheet import Datasheet

__all__ = ["SCHEMA", "UNSEEN", "Calibration", "calibration_of", "calibrations"]


SCHEMA = "irene.serving_calibration/1"
FILE = "serving_calibration.json"
UNSEEN = "unseen"
"""Name of the calibration for GPUs that no serving was measured on."""


@dataclass(frozen=True, slots=True)
class Calibration(Saved):
    """From the times of kernels to the energy of a step of a serving engine.

    While a kernel runs, the GPU takes its idle power, `joules_per_byte` for what is
    moved and, for what is multiplied, `compute_share` of the power between idle and the
    limit at the peak rate; never more than the limit. Between kernels it takes its idle
    power. What a step takes for each of its sequences is work that no list of ops has:
    sampling, copies, bookkeeping.

    Attributes:
        joules_per_byte: To and from memory, J.
        compute_share: Power of the arithmetic at its peak rate, by (limit − idle).
        gap_s: Idle time of a step for which energy is counted, s.
        work_j: Energy of a sequence in a step beside its ops, J.
        wait_j: Energy of a sequence in a step while the GPU waits for the host, J; not
            counted where the time of a step was measured.
        time_gap_s: What a step takes beyond the time of its kernels, s.
        time_gap_per_sequence_s: More of it for every sequence, s.
        energy_width: Half the 90 % interval of the energy, in log units.
        time_width: The same of time.
        source: Which servings it is from, in words.
        errors: Errors with a model left out, and what else was learned on the way.
    """

    joules_per_byte: float = 1.4e-10
    compute_share: float = 0.75
    gap_s: float = 1e-3
    work_j: float = 0.0
    wait_j: float = 0.0
    time_gap_s: float = 1e-3
    time_gap_per_sequence_s: float = 0.0
    energy_width: float = 0.35
    time_width: float = 0.5
    source: str = "no serving"
    errors: Mapping[str, Any] = field(default_factory=dict)

    def power_w(
        self, time_s: Floats, moved: Floats, compute_s: Floats, sheet: Datasheet
    ) -> Floats:
        """Mean power while ops run, W.

        Args:
            time_s: Time of each, s.
            moved: Bytes of each.
            compute_s: Least time of the arithmetic of each, s.
            sheet: Whose idle power and limit hold.
        """
        span = sheet.tdp_w - sheet.idle_w
        joules = self.joules_per_byte * moved + self.compute_share * span * compute_s
        watts: Floats = sheet.idle_w + np.minimum(joules / time_s, span)
        return watts

    def gap_j(self, sequences: Floats | float, idle_w: float) -> Floats:
        """What steps take beyond their kernels, J, where nobody measured their time."""
        each_j = self.work_j + self.wait_j
        return idle_w * self.gap_s + each_j * np.asarray(sequences, dtype=np.float64)

    def time_gap(self, sequences: Floats | float) -> Floats:
        """What steps take beyond the time of their kernels, s."""
        each_s = self.time_gap_per_sequence_s
        return self.time_gap_s + each_s * np.asarray(sequences, dtype=np.float64)


@cache
def calibrations() -> Mapping[str, Calibration]:
    """Those that ship, by name of the GPU."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    document = json.loads(text)
    check_schema(document.get("schema"), SCHEMA)
    return {
        name: Calibration.from_dict(fields)
        for name, fields in document["calibrations"].items()
    }


def calibration_of(name: str) -> Calibration:
    """The calibration of a GPU, or the one for GPUs nobody measured."""
    known = calibrations()
    return known.get(name, known[UNSEEN])
