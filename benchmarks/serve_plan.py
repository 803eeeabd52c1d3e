"""Which serving is the cheapest under a latency limit: found among measured ones?

For every model and workload of the ML.ENERGY leaderboard v3 that was measured in
several configurations (GPU, how many, precision, streams), and for every limit of a
ladder on the time between two tokens, the configuration that takes the fewest joules
per token among those that are quick enough. The choice is made with energies and times
predicted by calibrations that have not seen the model family; beside it two ways to
choose that need no prediction, and one that knows how wrong times are: what is the
cheapest most often when they are drawn so. Last, what the same energies would find with
times that are wrong by so much at random, without bias: what the errors of times alone
allow.

    IRENE_DATA_DIR=DATA python -m benchmarks.serve_plan [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.serving_calibration import examined
from benchmarks.servings import Serving, read_servings, served

LIMITS_MS = (10, 15, 20, 30, 50, 75, 100, 150)
"""Limits that people set on the time between two tokens, ms."""
DRAWS = 60
MANY = 300
MEDIANS = (0.0, 0.027, 0.04, 0.054, 0.077, 0.1)
"""Errors of times that are drawn."""
NEAR = 1.05
"""Energy by that of the best up to which a choice counts as good."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A measured serving, and what was predicted for it.

    Attributes:
        serving: As measured.
        j_per_token: Predicted, J.
        step_s: Predicted time between two tokens, s.
        shared_off: σ of the errors of times that the curves of other families have.
        own_off: The same of single configurations on a curve.
    """

    serving: Serving
    j_per_token: float
    step_s: float
    shared_off: float = 0.0
    own_off: float = 0.0


Configurations = Sequence[Configuration]
Choose = Callable[[Configurations, float], Configuration | None]


def by_prediction(
    some: Sequence[Configuration], limit_s: float
) -> Configuration | None:
    """The cheapest of those that are predicted to be quick enough."""
    quick = [each for each in some if each.step_s <= limit_s]
    return min(quick, key=lambda each: each.j_per_token, default=None)


def most_streams(some: Configurations, limit_s: float) -> Configuration | None:
    """Most streams on the fewest GPUs, whatever the limit: what many do."""
    del limit_s
    return max(some, key=lambda e: (e.serving.max_seqs, -e.serving.gpus), default=None)


def fewest_gpus(some: Configurations, limit_s: float) -> Configuration | None:
    """The fewest GPUs, with as many streams as are predicted to be quick enough."""
    quick = [each for each in some if each.step_s <= limit_s]
    return min(quick, key=lambda e: (e.serving.gpus, -e.serving.max_seqs), default=None)


def most_often(some: Configurations, limit_s: float) -> Configuration | None:
    """What is the cheapest most often if energies and times are as wrong as they are.

    Errors are those of all other families: one of each number of GPUs of a kind, which
    its streams share, and one of each configuration.
    """
    random, rows = np.random.default_rng(DRAWS), np.arange(len(some))
    curves = [(e.serving.model, e.serving.gpu, e.serving.gpus) for e in some]
    _, curve = np.unique([str(each) for each in curves], return_inverse=True)
    shared = random.normal(0.0, some[0].shared_off, (MANY, len(some)))[:, curve]
    off = shared + random.normal(0.0, some[0].own_off, (MANY, len(some)))
    is_quick = np.array([each.step_s for each in some]) * np.exp(off) <= limit_s
    joules = np.where(is_quick, [each.j_per_token for each in some], np.inf)
    best = joules.argmin(axis=1)[is_quick.any(axis=1)]
    times = (best[:, None] == rows).sum(axis=0)
    return some[int(times.argmax())] if len(best) else None


WAYS: dict[str, Choose] = {
    "irene": by_prediction,
    "most often": most_often,
    "most streams": most_streams,
    "fewest GPUs": fewest_gpus,
}


def examine(configurations: Sequence[Configuration]) -> dict[str, dict[str, float]]:
    """How often each way finds the cheapest, comes near, or is too slow."""
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for each in configurations:
        model = each.serving.model.removesuffix("-FP8")
        groups.setdefault((model, each.serving.task), []).append(each)
    found: dict[str, list[tuple[bool, bool, bool]]] = {name: [] for name in WAYS}
    for some in groups.values():
        for limit_ms in LIMITS_MS:
            limit_s = limit_ms / 1e3
            quick = [e.serving for e in some if e.serving.step_s <= limit_s]
            if len(quick) < 2:
                continue  # nothing to choose
            best = min(quick, key=lambda each: each.j_per_token)
            for name, choose in WAYS.items():
                chosen = choose(some, limit_s)
                found[name].append(_judged(chosen, best, limit_s))
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


def configurations(servings: Sequence[Serving]) -> list[Configuration]:
    """Servings with predictions of calibrations that have not seen their family."""
    exam = examined(served(servings))
    off = exam.log_errors("step_s")
    curves = np.array(
        [f"{s.model} {s.task} {s.gpu} {s.gpus}" for s in exam.servings], dtype=str
    )
    means = np.array([off[curves == curve].mean() for curve in curves])
    families = np.array([each.family for each in exam.servings])
    found = []
    for each, joules, step_s in zip(
        exam.servings, exam.j_per_token.tolist(), exam.step_s.tolist(), strict=True
    ):
        others = families != each.family
        sizes = float(means[others].std()), float((off - means)[others].std())
        found.append(Configuration(each, joules, step_s, *sizes))
    return found


def allowed(some: Configurations, median: float) -> tuple[float, float, float]:
    """What is found with normal errors of times of this median; the mean, nine of ten.

    Args:
        some: Whose predicted energies are kept.
        median: Of the errors' sizes; the median of a normal one is 0.6745 of its σ.
    """
    random = np.random.default_rng(DRAWS)
    shares = []
    for _ in range(DRAWS):
        off = np.exp(random.normal(0.0, median / 0.6745, len(some)))
        drawn = [
            replace(each, step_s=each.serving.step_s * times)
            for each, times in zip(some, off.tolist(), strict=True)
        ]
        shares.append(examine(drawn)["irene"]["best"])
    low, high = np.quantile(shares, (0.05, 0.95))
    return float(np.mean(shares)), float(low), float(high)


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
    predicted = configurations(clean)
    found = examine(predicted)
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    print("cheapest under a limit on the time between tokens, family left out")
    print(f"{'':16}{'questions':>10}{'best':>8}{'within 5 %':>12}{'too slow':>10}")
    for name, row in found.items():
        print(
            f"{name:16}{row['questions']:10}{row['best']:8.0%}{row['near']:12.0%}"
            f"{row['too_slow']:10.0%}"
        )
    for median in MEDIANS:
        best, low, high = allowed(predicted, median)
        print(
            f"times wrong by {median:.1%} at random: {best:.0%} ({low:.0%}–{high:.0%})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
