"""Calibrations of servings: fitted to measured ones, examined, and as they ship.

Few numbers, most of them shared by all GPUs. How well they predict model families they
have not seen sets the intervals, regime by regime.

The fit has two stages, so that a serving that waited for its host does not pass for one
that draws little power: times from measured steps, then power from measured energy with
the measured step.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.servings import PROMPTS, Runs, Serving, predicted, read_servings, served
from scipy.optimize import least_squares

from irene.predict.intervals import COVERAGE
from irene.predict.machines.gpu.serving_calibration import (
    SCHEMA,
    UNSEEN,
    Calibration,
    coarse,
)
from irene.saved import Floats

__all__ = [
    "Exam",
    "calibration_document",
    "examined",
    "examined_elsewhere",
    "fit_calibrations",
    "some_families",
    "unserved_width",
    "width_of_alike",
    "widths_of",
]

PLAIN, EIGHTS, REST = "dense bf16", "dense fp8", ""
STAGES: tuple[tuple[str, str, Mapping[str, float]], ...] = (
    ("step", PLAIN, {"sequence_s": 1e-5, "logit_s": 2.1e-10, "layer_s": 1.5e-5}),
    ("step", REST, {"untuned_time": 1.2, "block_time": 1.7}),
    ("long", REST, {"long_gap_s": 1e-3}),
    ("energy", PLAIN,
     {"joules_per_byte": 1.3e-10, "active_share": 0.1, "compute_share": 1.5,
      "sequence_share": 1.0}),
    ("energy", EIGHTS, {"eights_share": 0.05}),
    ("energy", REST,
     {"experts_share": 0.1, "unpacked_share": 0.1, "block_share": 0.45,
      "experts_sequences": 1.0}),
)  # fmt: skip
"""What is fitted one after the other: to steps, to steps of long answers, or to energy
where the step is known; to dense models in bf16, whose kernels are known best, to
dense ones in fp8, or to all but the first; and where each number starts. Only one
family is dense in fp8, one has experts of block-scaled fp8 on Hopper, and one experts
that are unpacked: without it, what they take stays where it starts."""
OF_EACH_GPU = ("layer_s", "long_gap_s", "compute_share", "sequence_share")
"""Numbers that every GPU has for itself."""
ROBUST = 0.05
"""Relative error beyond which a run counts by its error, not by its square."""
HOLD = 0.1
"""How hard the logarithm of a number is held where it starts, in errors."""
HOLDS = {"compute_share": 0.3, "logit_s": 0.2}
"""Numbers that are held harder. Chat tells arithmetic hardly from sequences, and a long
prompt is arithmetic: with both free an H100 would read one at half its power. It hardly
tells a sequence from its vocabulary either, which starts at what sorting takes: 57.6 ms
for 2,048 sequences and 131,072 tokens, twice that for 262,144 (as published with a
quicker way, github.com/vllm-project/vllm/pull/32234)."""


def some_families(
    runs: Mapping[str, Runs], family: str, is_in: bool
) -> dict[str, Runs]:
    """The runs of a family, or all others."""
    chosen = {
        gpu: each.at([(s.family == family) == is_in for s in each.servings])
        for gpu, each in runs.items()
    }
    return {gpu: each for gpu, each in chosen.items() if each.servings}


def _for(told: Mapping[str, Calibration], gpu: str) -> Calibration:
    """The calibration of a GPU, or that of another if it has none."""
    return told.get(gpu) or next(iter(told.values()))


def fit_calibrations(runs: Mapping[str, Runs]) -> dict[str, Calibration]:
    """Calibrations by GPU, without widths.

    Args:
        runs: What was measured, by GPU.
    """
    told = {gpu: Calibration() for gpu in runs}
    for what, kind, starts in STAGES:
        some = {gpu: each.at(_counts(each, what, kind)) for gpu, each in runs.items()}
        some = {gpu: each for gpu, each in some.items() if each.servings}
        told = _stage(told, some, what, starts) if some else told
    return told


def _counts(runs: Runs, what: str, kind: str) -> list[bool]:
    """Which servings a stage sees: steps of long answers on one GPU are apart."""
    is_long = [regime.endswith("long one") for regime in runs.regimes]
    if what == "long":
        return is_long
    counts = [
        regime.startswith(kind) and (kind != REST or not regime.startswith(PLAIN))
        for regime in runs.regimes
    ]
    if what == "energy":
        return counts
    return [c and not long for c, long in zip(counts, is_long, strict=True)]


def _stage(
    told: Mapping[str, Calibration],
    runs: Mapping[str, Runs],
    what: str,
    starts: Mapping[str, float],
) -> dict[str, Calibration]:
    """With the numbers of a stage fitted; a GPU without servings keeps their starts."""
    names = [(name, "") for name in starts if name not in OF_EACH_GPU]
    names += [(name, gpu) for name in starts if name in OF_EACH_GPU for gpu in runs]
    usual = np.array([starts[name] for name, _ in names])
    holds = np.array([HOLDS.get(name, HOLD) for name, _ in names])

    def made(numbers: Floats) -> dict[str, Calibration]:
        pairs = list(zip(names, numbers.tolist(), strict=True))
        return {
            gpu: replace(
                each, **{**starts, **{n: v for (n, g), v in pairs if g in ("", gpu)}}
            )
            for gpu, each in told.items()
        }

    def ratio(found: Mapping[str, Calibration], gpu: str) -> Floats:
        here = runs[gpu]
        if what == "energy":
            known: Floats = predicted(found[gpu], here, here.of("step_s"))[0]
            return known / here.of("j_per_token")
        timed: Floats = predicted(found[gpu], here)[1]
        return timed / here.of("step_s")

    return made(_least(lambda n: _errors(runs, made(n), ratio), usual, holds))


def _errors(runs: Mapping[str, Runs], told: Any, ratio: Any) -> Floats:
    """Robust errors of all servings; families count alike on every GPU."""
    found = []
    for gpu, each in runs.items():
        families = [s.family for s in each.servings]
        root = np.array([families.count(name) for name in families]) ** -0.25
        errors = np.log(ratio(told, gpu)) * root
        size = 2 * (np.sqrt(ROBUST**2 + errors**2) - ROBUST)
        found.append(np.sign(errors) * np.sqrt(size))
    return np.concatenate(found)


def _least(errors: Any, start: Floats, holds: Floats) -> Floats:
    """The numbers of least error, held near where they start."""
    best = least_squares(
        lambda logs: np.concatenate([errors(start * np.exp(logs)), holds * logs]),
        np.zeros(len(start)),
        max_nfev=60,
    )
    found: Floats = start * np.exp(best.x)
    return found


# Exam -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exam:
    """Predictions of servings whose model family the calibration has not seen.

    Attributes:
        servings: What was predicted.
        regimes: Their regimes.
        j_per_token: Predicted without the time of steps, J.
        j_per_token_known: Predicted with it, J.
        step_s: Predicted time between tokens, s.
    """

    servings: tuple[Serving, ...]
    regimes: tuple[str, ...]
    j_per_token: Floats
    j_per_token_known: Floats
    step_s: Floats

    def log_errors(self, what: str = "j_per_token") -> Floats:
        """log(predicted / measured)."""
        of = "step_s" if what == "step_s" else "j_per_token"
        measured = np.array([getattr(each, of) for each in self.servings])
        found: Floats = np.log(getattr(self, what) / measured)
        return found


def examined(runs: Mapping[str, Runs]) -> Exam:
    """Predict every serving with what all other families tell.

    Args:
        runs: What was measured, by GPU.
    """
    servings = [s for each in runs.values() for s in each.servings]
    found: list[tuple[Runs, Floats, Floats, Floats]] = []
    for family in dict.fromkeys(each.family for each in servings):
        told = fit_calibrations(some_families(runs, family, False))
        for gpu, held in some_families(runs, family, True).items():
            mine = _for(told, gpu)
            energy, step_s = predicted(mine, held)
            known, _ = predicted(mine, held, held.of("step_s"))
            found.append((held, energy, known, step_s))
    return Exam(
        tuple(s for held, *_ in found for s in held.servings),
        tuple(r for held, *_ in found for r in held.regimes),
        *(np.concatenate([each[i] for each in found]) for i in (1, 2, 3)),
    )


def examined_elsewhere(runs: Mapping[str, Runs]) -> Exam:
    """Predict every serving with what other families tell on other kinds of GPU.

    Args:
        runs: What was measured, by GPU.
    """
    found = []
    for gpu, here in runs.items():
        rest = {name: each for name, each in runs.items() if name != gpu}
        for family in dict.fromkeys(each.family for each in here.servings):
            (known,) = fit_calibrations(some_families(rest, family, False)).values()
            held = some_families({gpu: here}, family, True)[gpu]
            found.append((held, predicted(replace(known, long_gap_s=0.0), held)))
    return Exam(
        tuple(s for held, _ in found for s in held.servings),
        tuple(r for held, _ in found for r in held.regimes),
        *(np.concatenate([said[i] for _, said in found]) for i in (0, 0, 1)),
    )


REGIMES = (("dense", "experts"), ("one", "several"))
"""Kinds of layers and numbers of GPUs, of which regimes are made; errors of servings
that differ in precision, or in the length of answers, are alike."""
UNLIKE = (0.1, 0.25)
"""What the error of a serving with another word counts in a regime, by that of one of
its own: of those that were tried, regimes and intervals are then the best on families
left out of families left out (how far regimes are from 85 to 97 % inside, and the
width and ten times what lies outside)."""
UNSERVED = 2.0
"""How much wider than the widest are layers that no serving had. Nine of ten servings
of dense models are within 0.17 by what those with experts say, and these within 0.25 by
those, but two kinds of layers are few."""


def widths_of(
    exam: Exam, what: str = "j_per_token", but: Sequence[str] = ()
) -> tuple[dict[str, float], float]:
    """Half the intervals by regime, in log units, and that of what is no regime.

    Args:
        exam: Predictions on left-out families.
        what: Energy or time, a field of the exam.
        but: Families and GPUs whose errors do not count.
    """
    counted = [
        (each.family, coarse(regime).split(), abs(float(error)))
        for each, regime, error in zip(
            exam.servings, exam.regimes, exam.log_errors(what), strict=True
        )
        if each.family not in but and each.gpu not in but
    ]
    families, words, errors = (np.array(each) for each in zip(*counted, strict=True))
    found = {}
    for regime in itertools.product(*REGIMES):
        alike = np.where(words == regime, 1.0, UNLIKE).prod(axis=1)
        found[" ".join(regime)] = round(width_of_alike(errors, alike, families), 3)
    return found, round(UNSERVED * max(found.values()), 3)


def width_of_alike(errors: Floats, alike: Floats, families: np.ndarray) -> float:
    """Half the interval of a serving by the errors of those that are like it.

    The quantile of all errors, each by how alike it is; families count by the mean of
    theirs, however many servings they have.

    Args:
        errors: Sizes of errors, in log units.
        alike: How alike each serving is, 0 to 1.
        families: Of each.
    """
    _, which, counts = np.unique(families, return_inverse=True, return_counts=True)
    weights = alike / counts[which]
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(errors[order][np.searchsorted(reached, COVERAGE)])


def unserved_width(
    exam: Exam, elsewhere: Exam, what: str = "j_per_token", but: str = ""
) -> float:
    """What a GPU without servings adds to half its intervals, in log units.

    With it nine of ten servings of the GPU that is predicted worst are inside, where no
    serving of it was seen; families count alike.

    Args:
        exam: Predictions on left-out families, for the widths by regime.
        elsewhere: Predictions on left-out families and GPUs.
        what: Energy or time, a field of the exams.
        but: A family whose errors do not count.
    """
    widths, _ = widths_of(exam, what, (but,))
    usual = np.array([widths[coarse(regime)] for regime in elsewhere.regimes])
    beyond = np.maximum(elsewhere.log_errors(what) ** 2 - usual**2, 0.0) ** 0.5
    found = []
    for gpu in {each.gpu for each in elsewhere.servings}:
        here = [s.gpu == gpu and s.family != but for s in elsewhere.servings]
        families = np.array([s.family for s in elsewhere.servings])[here]
        found.append(width_of_alike(beyond[here], np.ones(len(families)), families))
    return round(max(found), 3)


SAME_CHIP = {"h200": "h100"}
"""GPUs that use another's calibration: the same chip with another memory."""
SAME_CHIP_SHARE = 0.5
"""How unsure they are by those of another chip, an assumption."""
WHAT = ("j_per_token", "j_per_token_known", "step_s")
"""What is examined: energy, energy where the step time is known, time."""


def calibration_document(path: str | Path) -> dict[str, Any]:
    """What ships: calibrations of all GPUs, with errors and where they come from.

    Args:
        path: Table of measured servings.
    """
    servings = [each for each in read_servings(path) if each.is_clean]
    runs = served(servings)
    exam = examined(runs)
    energy, widest = widths_of(exam)
    time, slowest = widths_of(exam, "step_s")
    elsewhere = examined_elsewhere(runs)
    unserved = unserved_width(exam, elsewhere)
    unserved_time = unserved_width(exam, elsewhere, "step_s")
    shared = {
        "energy_width": widest, "time_width": slowest, "energy_widths": energy,
        "time_widths": time,
    }  # fmt: skip
    found = {}
    for gpu, told in fit_calibrations(runs).items():
        here = runs[gpu].servings
        models = len({each.model for each in here})
        source = f"{len(here)} servings of {models} models on 1 to 8 {gpu.upper()}"
        errors = {what: _percent(exam, gpu, what) for what in WHAT}
        found[gpu] = _rounded(replace(told, **shared, source=source, errors=errors))
    for gpu, other in SAME_CHIP.items():
        found[gpu] = replace(
            found[other],
            source=f"{found[other].source}, the same chip with other memory",
            errors={},
            unserved=round(SAME_CHIP_SHARE * unserved, 3),
            unserved_time=round(SAME_CHIP_SHARE * unserved_time, 3),
        )
    found[UNSEEN] = replace(
        _unseen(list(found.values())[: len(runs)]),
        unserved=unserved,
        unserved_time=unserved_time,
    )
    return {
        "schema": SCHEMA,
        "data": {
            "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
            "rows": len(servings),
            "from": "ML.ENERGY leaderboard v3, servings that do not repeat prompts",
            "prompts": {each.task: PROMPTS[each.task] for each in servings},
        },
        "calibrations": {gpu: told.to_dict() for gpu, told in found.items()},
    }


def _percent(exam: Exam, gpu: str, what: str) -> dict[str, float]:
    """Median and 90th percentile of the error on left-out families, in percent."""
    here = np.array([each.gpu == gpu for each in exam.servings])
    errors = 100 * np.abs(np.expm1(exam.log_errors(what)[here]))
    return {
        "median": round(float(np.median(errors)), 2),
        "p90": round(float(np.quantile(errors, 0.9)), 2),
    }


def _rounded(told: Calibration) -> Calibration:
    """Four digits: more would say more than the data do."""
    numbers = {
        name: float(f"{value:.4g}")
        for name, value in told.to_dict().items()
        if isinstance(value, float)
    }
    return Calibration.from_dict({**told.to_dict(), **numbers})


def _unseen(known: Sequence[Calibration]) -> Calibration:
    """What GPUs share, for one that no serving was measured on.

    That the hosts of one kind of GPU made long answers wait is not expected of others.
    """
    means = {
        name: float(np.mean([getattr(each, name) for each in known]))
        for name in OF_EACH_GPU
    }
    source = "servings on other GPUs, H100 and B200"
    means["long_gap_s"] = 0.0
    return _rounded(replace(known[0], **means, source=source, errors={}))
