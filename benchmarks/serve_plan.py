"""Which serving is the cheapest under a latency limit: found among measured ones?

For every model and workload of the ML.ENERGY leaderboard v3 that was measured in
several configurations (GPU, how many, precision, streams), and for every limit of a
ladder on the time between two tokens, the configuration that takes the fewest joules
per token among those that are quick enough. Limit and choice are about the mean time
between tokens, streams are those that ran on average, measured and predicted alike.
Energies and times are predicted by calibrations that have not seen the model family.

Beside the choice that irene makes: two that know how wrong predictions are (what is the
cheapest most often if they are as wrong as those of other families; a margin to the
limit that finds the most among other families), one by the roofline and the power
limit, and two rules of thumb.

Last, what errors allow: the same questions with the measured values made wrong, by our
own errors dealt anew or by less. The share that is found then is what predictions with
such errors find if their form has no fault at all, and what a planner finds that knows
how they are spread.

    IRENE_DATA_DIR=DATA python -m benchmarks.serve_plan [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.serving_calibration import Exam, examined, some_families
from benchmarks.servings import Runs, Serving, read_servings, served

from irene.saved import Floats

LIMITS_MS = (10, 15, 20, 30, 50, 75, 100, 150)
"""Limits that people set on the time between two tokens, ms."""
MARGINS = (0.0, -0.025, 0.025, -0.05, 0.05, -0.1, 0.1)
"""Margins to a limit that are tried, in log units."""
DRAWS = 60
MANY = 300
MEDIANS = (0.01, 0.02, 0.03, 0.04, 0.05)
"""Errors of times that are drawn."""
NORMAL_MEDIAN = 0.6745
"""Median size of a normal error by its σ."""
NEAR = 1.05
"""Energy by that of the best up to which a choice counts as good."""


@dataclass(frozen=True, slots=True)
class Errors:
    """How wrong predictions are, as logs of times and of energies, a column each.

    Attributes:
        of_curves: Means of every model on a number of GPUs of a kind, which its streams
            share; without bias.
        own: What single servings have beside that.
    """

    of_curves: Floats
    own: Floats

    @classmethod
    def of(cls, logs: Floats, curves: np.ndarray) -> Errors:
        """Those of servings, given which of them are of one curve."""
        _, place = np.unique(curves, return_inverse=True)
        counts = np.bincount(place)[:, None]
        sums = np.stack([np.bincount(place, each) for each in logs.T], axis=1)
        means = sums / counts
        return cls(means - np.median(means, axis=0), logs - means[place])

    def dealt(
        self, curves: np.ndarray, times: int, random: np.random.Generator
    ) -> Floats:
        """Errors drawn from these for servings of such curves: times × rows × 2."""
        _, place = np.unique(curves, return_inverse=True)
        shape = times, int(place.max()) + 1
        shared = self.of_curves[random.integers(len(self.of_curves), size=shape)]
        own = self.own[random.integers(len(self.own), size=(times, len(place)))]
        found: Floats = shared[:, place] + own
        return found


@dataclass(frozen=True, slots=True)
class Configuration:
    """A measured serving, and what was predicted for it.

    Attributes:
        serving: As measured.
        j_per_token: Predicted, J.
        step_s: Predicted mean time between two tokens, s.
        roof_s: The same by the roofline, s.
        roof_j: Energy per token by it and the limits of power, J.
        margin: Time by the limit that finds the most among other families, a log.
        others: Errors of other families.
    """

    serving: Serving
    j_per_token: float
    step_s: float
    roof_s: float = 0.0
    roof_j: float = 0.0
    margin: float = 0.0
    others: Errors | None = None


Configurations = Sequence[Configuration]
Choose = Callable[[Configurations, float], Configuration | None]


def curve_of(each: Serving) -> str:
    """What servings share that differ in the number of streams alone."""
    return f"{each.model} {each.task} {each.gpu} {each.gpus}"


def by_prediction(some: Configurations, limit_s: float) -> Configuration | None:
    """The cheapest of those that are predicted to be quick enough."""
    quick = [each for each in some if each.step_s <= limit_s]
    return min(quick, key=lambda each: each.j_per_token, default=None)


def with_margin(some: Configurations, limit_s: float) -> Configuration | None:
    """The same with a margin that other families choose."""
    return by_prediction(some, limit_s * float(np.exp(some[0].margin)))


def most_often(some: Configurations, limit_s: float) -> Configuration | None:
    """What is the cheapest most often if predictions are as wrong as those of others.

    Args:
        some: Configurations, with the errors of others.
        limit_s: Most time between tokens, s.
    """
    assert some[0].others is not None
    curves = np.array([curve_of(each.serving) for each in some])
    off = some[0].others.dealt(curves, MANY, np.random.default_rng(DRAWS))
    said = np.array([(each.step_s, each.j_per_token) for each in some])
    times, joules = np.moveaxis(said * np.exp(-off), 2, 0)
    is_quick = times <= limit_s
    best = np.where(is_quick, joules, np.inf).argmin(axis=1)[is_quick.any(axis=1)]
    counts = np.bincount(best, minlength=len(some))
    return some[int(counts.argmax())] if len(best) else None


def by_roofline(some: Configurations, limit_s: float) -> Configuration | None:
    """The cheapest by the roofline, at the limits of power."""
    quick = [each for each in some if each.roof_s <= limit_s]
    return min(quick, key=lambda each: each.roof_j, default=None)


def fewest_gpus(some: Configurations, limit_s: float) -> Configuration | None:
    """The fewest GPUs, with as many streams as are predicted to be quick enough."""
    quick = [each for each in some if each.step_s <= limit_s]
    return min(quick, key=lambda e: (e.serving.gpus, -e.serving.max_seqs), default=None)


def most_streams(some: Configurations, limit_s: float) -> Configuration | None:
    """Most streams on the fewest GPUs, whatever the limit: what many do."""
    del limit_s
    return max(some, key=lambda e: (e.serving.max_seqs, -e.serving.gpus), default=None)


WAYS: Mapping[str, Choose] = {
    "irene": by_prediction,
    "cheapest most often": most_often,
    "with a margin": with_margin,
    "roofline": by_roofline,
    "fewest GPUs": fewest_gpus,
    "most streams": most_streams,
}


def examine(
    configurations: Configurations, ways: Mapping[str, Choose] = WAYS
) -> dict[str, dict[str, float]]:
    """How often each way finds the cheapest, comes near, or is too slow."""
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for each in configurations:
        model = each.serving.model.removesuffix("-FP8")
        groups.setdefault((model, each.serving.task), []).append(each)
    found: dict[str, list[tuple[bool, bool, bool]]] = {name: [] for name in ways}
    for some in groups.values():
        for limit_ms in LIMITS_MS:
            limit_s = limit_ms / 1e3
            quick = [e.serving for e in some if e.serving.step_s <= limit_s]
            if len(quick) < 2:
                continue  # nothing to choose
            best = min(quick, key=lambda each: each.j_per_token)
            for name, choose in ways.items():
                found[name].append(_judged(choose(some, limit_s), best, limit_s))
    return {
        name: {
            "questions": len(rows),
            "best": sum(row[0] for row in rows) / len(rows),
            "near": sum(row[1] for row in rows) / len(rows),
            "too_slow": sum(row[2] for row in rows) / len(rows),
        }
        for name, rows in found.items()
    }


def _judged(
    chosen: Configuration | None, best: Serving, limit_s: float
) -> tuple[bool, bool, bool]:
    """Whether a choice is the best, near it, or breaks the limit as measured."""
    if chosen is None:
        return False, False, False
    one = chosen.serving
    is_slow = one.step_s > limit_s
    is_near = not is_slow and one.j_per_token <= NEAR * best.j_per_token
    return one == best, is_near, is_slow


def configurations(runs: Mapping[str, Runs]) -> list[Configuration]:
    """Servings with predictions of calibrations that have not seen their family."""
    exam = examined(runs)
    roofs = _roofs(runs)
    logs = np.stack([exam.log_errors("step_s"), exam.log_errors()], axis=1)
    curves = np.array([curve_of(each) for each in exam.servings])
    families = np.array([each.family for each in exam.servings])
    told = {}
    for family in sorted(set(families)):
        is_other = families != family
        margin = _margin(examined(some_families(runs, family, False)))
        told[family] = margin, Errors.of(logs[is_other], curves[is_other])
    return [
        Configuration(
            each.serving,
            each.j_per_token,
            each.step_s,
            *roofs[each.serving],
            *told[each.serving.family],
        )
        for each in _predicted(exam)
    ]


def _predicted(exam: Exam) -> list[Configuration]:
    said = zip(exam.j_per_token.tolist(), exam.step_s.tolist(), strict=True)
    return [
        Configuration(each, *both)
        for each, both in zip(exam.servings, said, strict=True)
    ]


def _roofs(runs: Mapping[str, Runs]) -> dict[Serving, tuple[float, float]]:
    """Times of steps by the rates of the datasheet, s, and energies per token, J."""
    found: dict[Serving, tuple[float, float]] = {}
    for each in runs.values():
        work, sheet = each.work, each.sheet
        taken_s = np.maximum(
            work.bytes / sheet.hbm_bytes_s, work.flops / sheet.peak("bf16")
        )
        step_s = each.sums(taken_s)
        joules = sheet.tdp_w * each.of("gpus") * step_s / each.batch
        both = zip(step_s.tolist(), joules.tolist(), strict=True)
        found |= zip(each.servings, both, strict=True)
    return found


def _margin(exam: Exam) -> float:
    """What finds the most; of several the least."""
    said = _predicted(exam)

    def found(margin: float) -> float:
        tried = [replace(each, margin=margin) for each in said]
        return examine(tried, {"": with_margin})[""]["best"]

    return max(MARGINS, key=found)


# What errors allow ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is found with errors that are drawn: the mean, and nine of ten draws.

    Attributes:
        best: Share of the questions in which the best is found.
        low: The share that one draw of twenty stays below.
        high: The share that one of twenty passes.
        near: Share in which what is chosen is within 5 % of the best.
    """

    best: float
    low: float
    high: float
    near: float


def allowed(some: Configurations, off: Floats, choose: Choose) -> Allowed:
    """What a way to choose finds where measured values are wrong by so much.

    Args:
        some: Measured configurations.
        off: Logs of errors of times and energies: draws × rows × 2.
        choose: The way.
    """
    found = []
    for draw in np.exp(off):
        drawn = [
            replace(
                each,
                step_s=each.serving.step_s * step,
                j_per_token=each.serving.j_per_token * joules,
            )
            for each, (step, joules) in zip(some, draw.tolist(), strict=True)
        ]
        found.append(examine(drawn, {"": choose})[""])
    best = [each["best"] for each in found]
    low, high = np.quantile(best, (0.05, 0.95)).tolist()
    near = float(np.mean([each["near"] for each in found]))
    return Allowed(float(np.mean(best)), low, high, near)


def bounds(some: Configurations) -> dict[str, Allowed]:
    """What is found with our errors, with parts of them, and with less, by name."""
    random = np.random.default_rng(DRAWS)
    curves = np.array([curve_of(each.serving) for each in some])
    said = np.array([(each.step_s, each.j_per_token) for each in some])
    true = np.array([(e.serving.step_s, e.serving.j_per_token) for e in some])
    ours = Errors.of(np.log(said / true), curves)
    off = ours.dealt(curves, DRAWS, random)
    found = {
        "our errors dealt anew": allowed(some, off, by_prediction),
        "the same, cheapest most often": allowed(
            [replace(each, others=ours) for each in some], off[:20], most_often
        ),
        "our errors of times alone": allowed(some, off * (1.0, 0.0), by_prediction),
        "our errors of energies alone": allowed(some, off * (0.0, 1.0), by_prediction),
    }
    for median in MEDIANS:
        sigmas = median / NORMAL_MEDIAN, 0.0
        off = random.normal(0.0, sigmas, (DRAWS, len(some), 2))
        name = f"times wrong by {median:.0%}, energies exact"
        found[name] = allowed(some, off, by_prediction)
    return found


def repeats(servings: Sequence[Serving]) -> dict[str, tuple[float, float]]:
    """Servings measured twice: how far times and energies are apart, in logs."""
    found: dict[str, list[Serving]] = {}
    for each in servings:
        name = f"{curve_of(each)} {each.precision} {each.max_seqs}"
        found.setdefault(name, []).append(each)
    return {
        name: (
            abs(float(np.log(one.step_s / other.step_s))),
            abs(float(np.log(one.j_per_token / other.j_per_token))),
        )
        for name, (one, *rest) in found.items()
        for other in rest
    }


def show(
    found: Mapping[str, Mapping[str, float]],
    limits: Mapping[str, Allowed],
    again: Mapping[str, tuple[float, float]],
) -> None:
    """Print the tables."""
    print("cheapest under a limit on the time between tokens, family left out")
    print(f"{'':36}{'questions':>10}{'best':>8}{'within 5 %':>12}{'too slow':>10}")
    for name, row in found.items():
        print(
            f"{name:36}{row['questions']:10}{row['best']:8.1%}{row['near']:12.1%}"
            f"{row['too_slow']:10.0%}"
        )
    print("what errors allow (nine of ten draws)")
    for name, each in limits.items():
        print(
            f"{name:36}{each.low:9.0%}–{each.high:.0%}{each.best:6.1%}{each.near:12.1%}"
        )
    for name, (step, joules) in again.items():
        print(f"measured twice, {name}: times {step:.1%}, energies {joules:.1%} apart")


def main() -> int:
    """Run all, print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    home = os.environ.get("IRENE_DATA_DIR")
    data = Path(home or "") / "serving" / "mlenergy-v3-text.csv"
    if not home or not data.is_file():
        print("needs IRENE_DATA_DIR with serving/mlenergy-v3-text.csv", file=sys.stderr)
        return 0
    clean = [each for each in read_servings(data) if each.is_clean]
    predicted = configurations(served(clean))
    found = examine(predicted)
    limits, again = bounds(predicted), repeats(clean)
    if options.json:
        told = {name: asdict(each) for name, each in limits.items()}
        document = {"found": found, "allowed": told, "measured_twice": again}
        print(json.dumps(document, indent=2))
    else:
        show(found, limits, again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
