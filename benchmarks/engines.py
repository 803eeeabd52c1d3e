"""Engines: what an older one adds to steps, and how well it predicts a left-out model.

Servings of the ML.ENERGY leaderboard v2 (vLLM of 2024 on A100-40GB and H100) are
predicted with the engine known (its numbers fitted to the other models), unknown, and
with that of today. Two stages, as for machines: times from measured steps, then power
from measured energy with the measured step.

    IRENE_DATA_DIR=DATA python -m benchmarks.engines [--write FILE]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.servings import Serving, predicted, served
from scipy.optimize import least_squares

from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.engines import SCHEMA, Engine, engines
from irene.saved import Floats
from irene.trace import catalogue

TASK = "sharegpt-v2"
NAME = "vllm-2024"
START = Engine(
    NAME, "vLLM 0.4 of 2024", step_s=5e-3, sequence_s=3e-4, shared_layer_s=8e-4,
    step_share=0.05, sequence_share=0.25,
)  # fmt: skip
TIMES = ("step_s", "sequence_s", "shared_layer_s")
POWERS = ("step_share", "sequence_share")
ROBUST, HOLD, COVERED = 0.05, 0.02, 0.92


@dataclass(frozen=True, slots=True)
class Steps:
    """Mean steps of servings, one GPU's share: measured, and as the engine of today.

    Attributes:
        servings: What was measured.
        layers: Of each model.
        ranks: GPUs of each.
        joules: Measured, J.
        time_s: Measured, s.
        today_j: Predicted for the engine of today, J.
        today_s: The same, s.
        idle_w: Idle power of each GPU, W.
        span_w: From there to the most that is reached, W.
        width: Half the interval of the energy for the engine of today, in log units.
        unserved: What a GPU without servings adds to it.
    """

    servings: tuple[Serving, ...]
    layers: Floats
    ranks: Floats
    joules: Floats
    time_s: Floats
    today_j: Floats
    today_s: Floats
    idle_w: Floats
    span_w: Floats
    width: Floats
    unserved: Floats

    def at(self, keep: Sequence[bool]) -> Steps:
        """Some of them."""
        some = np.asarray(keep, dtype=bool)
        rows = {n: getattr(self, n)[some] for n in Steps.__slots__ if n != "servings"}
        kept = (s for s, k in zip(self.servings, some, strict=True) if k)
        return Steps(tuple(kept), **rows)

    def said(self, engine: Engine, step_s: Floats | None = None) -> np.ndarray:
        """Joules and seconds of steps by an engine, two rows; or with a known time."""
        batch = np.array([each.batch_size for each in self.servings])
        host_s, weighed = engine.waits(batch, self.layers, self.ranks)
        if step_s is not None:
            known_s = np.maximum(step_s - self.today_s, 0.0)
            host_s, weighed = known_s, weighed / host_s * known_s
        host_j = self.idle_w * host_s + self.span_w * weighed
        return np.stack([self.today_j + host_j, self.today_s + host_s])


def read_steps(path: Path) -> Steps:
    """Servings of v2 on one GPU or with tensor parallelism alone."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["PP"] == "1"]
    found = []
    for gpu, runs in served([_serving(row) for row in rows]).items():
        told, sheet = find_gpu(gpu).calibration, runs.sheet
        token_j, step_s = predicted(told, runs)
        each = runs.batch / runs.of("gpus")
        ones = np.ones(len(runs.servings))
        found.append(
            (
                [catalogue.find(s.model).config["num_hidden_layers"]
                 for s in runs.servings],
                runs.of("gpus"), runs.of("j_per_token") * each, runs.of("step_s"),
                token_j * each, step_s, sheet.idle_w * ones,
                told.span_w(sheet) * ones, [told.width(r) for r in runs.regimes],
                told.unserved * ones,
                runs.servings,
            )
        )  # fmt: skip
    *numbers, servings = map(np.concatenate, zip(*found, strict=True))
    return Steps(tuple(servings), *(np.asarray(each, float) for each in numbers))


def _serving(row: Mapping[str, str]) -> Serving:
    output = float(row["Avg Output Tokens"])
    return Serving(
        TASK,
        row["model"],
        "a100" if "A100" in row["gpu"] else "h100",
        int(row["TP"]),
        1,
        "bfloat16",
        int(row["Max BS (reqs)"]),
        float(row["Avg BS (reqs)"]),
        output,
        0.97 * output,
        float(row["Energy/req (J)"]) / output,
        float(row["Avg TPOT (s)"]),
    )


def fitted(steps: Steps) -> Engine:
    """The engine whose servings they are, without widths."""

    def least(names: Sequence[str], start: Engine, errors) -> Engine:
        usual = np.array([getattr(start, name) for name in names])

        def made(logs: Floats) -> Engine:
            numbers = (usual * np.exp(logs)).tolist()
            return replace(start, **dict(zip(names, numbers, strict=True)))

        def robust(logs: Floats) -> Floats:
            size = errors(made(logs))
            size = 2 * (np.sqrt(ROBUST**2 + size**2) - ROBUST)
            return np.concatenate([np.sqrt(size), HOLD * logs])

        return made(least_squares(robust, np.zeros(len(names))).x)

    timed = least(TIMES, START, lambda e: np.log(steps.said(e)[1] / steps.time_s))
    return least(
        POWERS,
        timed,
        lambda e: np.log(steps.said(e, steps.time_s)[0] / steps.joules),
    )  # fmt: skip


def left_out(steps: Steps) -> np.ndarray:
    """Log errors of energy and time, two rows, each model by the others' engine."""
    truth = np.stack([steps.joules, steps.time_s])
    found = np.zeros_like(truth)
    models = np.array([each.model for each in steps.servings])
    for model in sorted(set(models)):
        held = models == model
        found[:, held] = steps.at(held).said(fitted(steps.at(~held)))
    return np.log(found / truth)


def unknown(steps: Steps, known: Mapping[str, Engine]) -> tuple[Floats, Floats]:
    """Log errors of the energy where the engine is unknown, and half the intervals."""
    totals = np.stack([steps.said(each)[0] for each in known.values()])
    centre = np.sqrt(totals.min(axis=0) * totals.max(axis=0))
    width = np.log(totals.max(axis=0) / centre)
    width += np.max([half_widths(steps, each) for each in known.values()], axis=0)
    return np.log(centre / steps.joules), width


def half_widths(steps: Steps, engine: Engine) -> Floats:
    """Half the intervals of servings whose engine is known, as machines make them."""
    pairs = zip(steps.width.tolist(), (steps.ranks > 1).tolist(), strict=True)
    own = [max(usual, engine.width(usual, several)) for usual, several in pairs]
    return np.hypot(own, steps.unserved)


def words(errors: Floats) -> str:
    """Median, 90th percentile and bias in percent."""
    size = 100 * np.abs(np.expm1(errors))
    bias = 100 * np.expm1(np.median(errors))
    return f"{np.median(size):5.1f} /{np.quantile(size, 0.9):4.0f} /{bias:+4.0f}"


def show(steps: Steps) -> None:
    """Print errors by GPU and parallelism, the worst first."""
    energy, time = left_out(steps)
    models = np.array([each.model for each in steps.servings])
    width = np.zeros(len(energy))
    for model in set(models):
        held = models == model
        others = float(np.quantile(np.abs(energy[~held]), COVERED))
        told = replace(START, energy_width=others)
        width[held] = half_widths(steps.at(held), told)
    shipped = engines()
    blind, wide = unknown(steps, shipped)
    today = np.log(steps.today_j / steps.joules)
    gpus = np.array([f"{s.gpu} × {s.gpus}" for s in steps.servings])
    groups = {name: gpus == name for name in sorted(set(gpus))}
    groups["all"] = np.ones(len(gpus), dtype=bool)
    print(
        f"{'median / p90 / bias, %':24} rows {'engine known':>17} {'unknown':>17} "
        f"{'that of today':>17} {'step known':>17} inside known, unknown"
    )
    for name, some in sorted(
        groups.items(), key=lambda item: -np.median(np.abs(energy[item[1]]))
    ):
        cells = (words(each[some]) for each in (energy, blind, today, time))
        inside = (np.abs(energy) <= width, np.abs(blind) <= wide)
        held = (f"{each[some].mean():.0%}" for each in inside)
        print(f"{name:24} {some.sum():4}", *(f"{c:>17}" for c in cells), *held)


def document(steps: Steps) -> dict[str, object]:
    """What ships."""
    energy, time = left_out(steps)
    engine = fitted(steps)
    numbers = {n: float(f"{getattr(engine, n):.4g}") for n in (*TIMES, *POWERS)}
    models = len({each.model for each in steps.servings})
    told = replace(
        engine,
        **numbers,
        energy_width=round(float(np.quantile(np.abs(energy), COVERED)), 3),
        time_width=round(float(np.quantile(np.abs(time), COVERED)), 3),
        source=f"ML.ENERGY leaderboard v2, {len(steps.servings)} chat servings of "
        f"{models} dense models on A100 and H100, prompts of 100 tokens taken",
    )
    return {"schema": SCHEMA, **told.to_dict()}


def main() -> int:
    """Examine and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", metavar="FILE", help="write the engine, and stop")
    options = parser.parse_args()
    data = Path(os.environ.get("IRENE_DATA_DIR", "")) / "serving/mlenergy-v2-chat.csv"
    if not data.is_file():
        print("needs IRENE_DATA_DIR with serving/mlenergy-v2-chat.csv", file=sys.stderr)
        return 0
    steps = read_steps(data)
    if options.write:
        text = json.dumps(document(steps), indent=1) + "\n"
        Path(options.write).write_text(text, encoding="utf-8")
    else:
        show(steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
