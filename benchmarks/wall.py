"""Joules at the wall of MLPerf's language models, the submitter left out.

MLPerf Inference v4.0 has language models with measured wall power on servers of 8 H100.
Batch, parallelism, precision and the power limit of boards are in the public configs of
the submitters (MaxQ), lengths are those of the benchmark's data. Boards are predicted
under that limit; what a board takes at the wall is fitted to the other submitter.
Beside it, 1.59 × the boards, and the boards alone.

    IRENE_DATA_DIR=DATA python benchmarks/wall.py
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from irene.predict.api import predict
from irene.predict.machines.gpu.wall import walls
from irene.tree.generation import generation_of

GPUS = 8
BEAMS = 4
RUNS: dict[str, dict[str, Any]] = {
    "llama2-70b": {
        "model": "llama-2-70b", "batch_size": 960, "prompt_len": 294,
        "output_len": 292, "quantization": "fp8", "cache_dtype": "fp8",
        "tensor_parallel": 2, "power_limit_w": 450.0,
    },
    # Four beams have one prompt: three of four find it in the cache, and decoding
    # reads its keys and values once for all four.
    "gptj": {
        "model": "gpt-j-6b", "batch_size": 224 * BEAMS, "prompt_len": 778,
        "output_len": 69, "quantization": "fp8", "cache_dtype": "fp8",
        "cached_prompt": 1 - 1 / BEAMS, "power_limit_w": 350.0,
        "context_len": round(778 / BEAMS + 0.5 * 69),
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A submission, and what was predicted for its boards.

    Attributes:
        submitter: Who measured it.
        benchmark: Model.
        scenario: Offline or Server.
        wall_w: Measured, W.
        samples_s: Measured throughput, samples per second.
        board_w: Predicted for all boards, W.
        predicted_s: Predicted throughput, samples per second.
    """

    submitter: str
    benchmark: str
    scenario: str
    wall_w: float
    samples_s: float
    board_w: float
    predicted_s: float


def board(run: dict[str, Any]) -> tuple[float, float]:
    """Power of 8 boards, W, and samples per second."""
    options = {name: value for name, value in run.items() if name != "model"}
    found = generation_of(predict(run["model"], on="h100", **options))
    assert found is not None
    replicas = GPUS / run.get("tensor_parallel", 1)
    beams = BEAMS if "cached_prompt" in run else 1
    samples_s = found.output_tokens_per_s / run["output_len"] / beams
    return found.j_per_second.value * replicas, samples_s * replicas


def read_rows(path: Path) -> list[Row]:
    """Distinct runs of language models on 8 H100; 99 and 99.9 % are one run twice."""
    boards = {name: board(run) for name, run in RUNS.items()}
    found: dict[tuple[str, ...], Row] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = next((n for n in RUNS if row["benchmark"].startswith(n)), "")
            if not name or "H100" not in row["system"]:
                continue
            key = (row["submitter"], name, row["scenario"])
            measured = float(row["wall_w"]), float(row["samples_per_s"])
            found[key] = Row(*key, *measured, *boards[name])
    return list(found.values())


def factor_of(rows: list[Row], fixed_w: float) -> float:
    """What the wall takes with the boards, by the boards."""
    beyond = [(row.wall_w - fixed_w * GPUS) / row.board_w for row in rows]
    return float(np.median(beyond))


def main() -> int:
    """Print errors in percent."""
    home = os.environ.get("IRENE_DATA_DIR")
    data = Path(home or "") / "wall" / "mlperf-v4.0-power.csv"
    if not home or not data.is_file():
        print("needs IRENE_DATA_DIR with wall/mlperf-v4.0-power.csv", file=sys.stderr)
        return 0
    rows, shipped = read_rows(data), walls()["server"]
    errors: dict[str, list[float]] = {}
    print(f"{'':34}{'wall W':>8}{'said':>8}{'samples/s':>11}{'said':>8}")
    for row in rows:
        others = [each for each in rows if each.submitter != row.submitter]
        said_w = factor_of(others, shipped.fixed_w) * row.board_w
        said_w += shipped.fixed_w * GPUS
        name = f"{row.submitter} {row.benchmark} {row.scenario}"
        print(f"{name:34}{row.wall_w:8.0f}{said_w:8.0f}{row.samples_s:11.1f}"
              f"{row.predicted_s:8.1f}")  # fmt: skip
        as_shipped = shipped.fixed_w * GPUS + shipped.factor * row.board_w
        slower = row.samples_s / row.predicted_s
        ratios = {
            "submitter left out, throughput given": said_w / row.wall_w,
            "as shipped, throughput given": as_shipped / row.wall_w,
            "1.59 × boards, throughput given": 1.59 * row.board_w / row.wall_w,
            "boards alone, throughput given": row.board_w / row.wall_w,
            "submitter left out, throughput predicted": slower * said_w / row.wall_w,
        }
        for what, ratio in ratios.items():
            errors.setdefault(what, []).append(100 * abs(ratio - 1))
    print(f"\n{'error of the joules, %':44}{'median':>8}{'most':>8}")
    for what, some in errors.items():
        print(f"{what:44}{np.median(some):8.1f}{max(some):8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
