"""A desktop with an RTX 4090 at the wall: one stream of Ollama, a family left out.

52 runs of 900 s of language models from GGUF files. Time per token and joules per token
at the wall are predicted from the config and the name of the quantisation, with numbers
fitted to the other families: two of time, two of power. Beside it the same with bytes
that cost what those of HBM do, 4.5 bit × parameters, and the file's size.

    IRENE_DATA_DIR=DATA python benchmarks/desktop.py [--write FILE]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from irene.predict.machines.finding import shipped_files
from irene.predict.machines.gpu.datasheet import read_datasheet
from irene.predict.machines.gpu.gpu_device import read_device, stand_in
from irene.predict.machines.gpu.kernel_work import Work
from irene.predict.machines.gpu.node_ops import serving_ops
from irene.predict.machines.gpu.serving_calibration import (
    BYTE_ENERGY,
    SCHEMA,
    Calibration,
    OpKinds,
)
from irene.predict.machines.gpu.wall import walls
from irene.saved import Floats
from irene.trace import catalogue
from irene.trace.serving.tree import serving_tree

MODELS = {
    "olmo2:7b": ("olmo-2-7b", "q4_K_M"),
    "dolphin3:8b": ("llama-3.1-8b", "q4_K_M"),
    "phi4:14b": ("phi-4", "q4_K_M"),
    "magistral:24b": ("mistral-small-24b", "q4_K_M"),
    "mistral:7b": ("mistral-7b-v0.3", "q4_K_M"),
    "llama3.2:3b": ("llama-3.2-3b", "q4_K_M"),
    "qwen3:4b": ("qwen3-4b", "q4_K_M"),
    "qwen3:8b": ("qwen3-8b", "q4_K_M"),
    "gemma3:270m": ("gemma-3-270m", "q8_0"),
    "deepseek-r1:1.5b": ("qwen2.5-1.5b", "q4_K_M"),
    "gpt-oss:20b": ("gpt-oss-20b", None),
}
"""Our names of Ollama's models, and how their files are stored. Left out: gemma3n,
which no config here describes, and phi4-reasoning, whose file departs from the rule of
its name (it stores some attention in fp16)."""
FAMILIES = ("olmo", "llama", "phi", "mistral", "qwen", "gemma", "gpt-oss")
UNMEASURED = 0.5
"""Half the interval, in log units, of what no file here has, an assumption."""
REGIMES = tuple(
    f"{what} {answers} one"
    for what in ("dense gguf", "experts gguf", "experts fp4")
    for answers in ("short", "long")
)
START = Calibration(
    sequence_s=0.0, logit_s=0.0, layer_s=0.0, memory_time=1.5, gap_s=5e-4,
    active_share=0.0, engine="llama.cpp",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A measured run, and the ops of its mean step.

    Attributes:
        name: As Ollama calls the model.
        model: As the catalogue does.
        step_s: Measured time per token, s.
        token_j: Measured energy per token at the wall, J.
        weight: How often each op is run in a mean step.
        time_s: By its table, s.
        work: FLOPs and bytes.
        kinds: What kinds of ops they are.
        file_bytes: Size of the file.
    """

    name: str
    model: str
    step_s: float
    token_j: float
    weight: Floats
    time_s: Floats
    work: Work
    kinds: OpKinds
    file_bytes: float

    @property
    def family(self) -> str:
        """Models of one make, which are left out together."""
        return next(word for word in FAMILIES if word in self.model)


SHEET = read_datasheet(shipped_files(".toml")["rtx4090"])
DEVICE = stand_in(SHEET, read_device(shipped_files(".json.gz")["l40s"]))
WALL = walls()["desktop"]


def read_runs(path: Path) -> list[Run]:
    """All runs of models that a config describes."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] in MODELS]
    return [_run(row) for row in rows]


def _run(row: dict[str, str]) -> Run:
    model, kind = MODELS[row["model"]]
    config = dict(catalogue.entries()[model].config)
    if row["model"] == "deepseek-r1:1.5b":
        config["tie_word_embeddings"] = False  # as its hub page has it
    requests, out = float(row["requests"]), float(row["tokens_out"])
    prompt, output = float(row["tokens_in"]) / requests, out / requests
    tree = serving_tree(
        config, name=model, phase="generate", batch_size=1,
        prompt_len=max(1, round(prompt)), output_len=round(output),
        context_len=round(prompt + output / 2), quantization=kind,
    )  # fmt: skip
    nodes = serving_ops(tree)
    costs = DEVICE.costs(nodes.ops)
    beside = nodes.base >= 0
    times = nodes.runs * tree.multiplicity[nodes.rows] / round(output)
    at = np.concatenate([nodes.place, nodes.base[beside]])
    kinds = OpKinds.of(nodes.ops, SHEET)
    flags = [getattr(kinds, name)[at] for name in OpKinds.__slots__]
    return Run(
        row["model"], model, float(row["seconds"]) / out, float(row["wall_j"]) / out,
        np.concatenate([times, -times[beside]]), costs.time_s[at],
        Work(costs.flops[at], costs.bytes[at]), OpKinds(*flags),
        float(row["file_bytes"]),
    )  # fmt: skip


def predicted(
    told: Calibration, fixed_w: float, run: Run, memory: str = SHEET.memory
) -> tuple[float, float]:
    """Time per token, s, and energy per token at the wall, J."""
    sheet = replace(SHEET, memory=memory)
    time_s = run.time_s * told.factors(run.kinds)
    above_j = (run.weight * told.work_j(run.kinds, time_s, run.work, sheet)).sum()
    step_s = float((run.weight * time_s).sum() + told.gap_s)
    joules = float(told.limited_j(above_j, np.array(step_s), sheet))
    return step_s, WALL.factor * joules + fixed_w * step_s


def fitted(runs: Sequence[Run]) -> tuple[Calibration, float]:
    """Two numbers of time, two of power: the calibration and the W of the host."""

    def clocked(logs: Floats) -> Calibration:
        memory_time, gap_s = np.exp(logs).tolist()
        return replace(START, memory_time=memory_time, gap_s=gap_s)

    def late(logs: Floats) -> Floats:
        told = clocked(logs)
        return np.log([predicted(told, 0.0, run)[0] / run.step_s for run in runs])

    start = np.log([START.memory_time, START.gap_s])
    clock = clocked(least_squares(late, start, loss="soft_l1", f_scale=0.05).x)

    def powered(logs: Floats) -> tuple[Calibration, float]:
        byte_j, fixed_w = np.exp(logs).tolist()
        return replace(clock, joules_per_byte=byte_j), fixed_w

    def dear(logs: Floats) -> Floats:
        told = powered(logs)
        return np.log([predicted(*told, run)[1] / run.token_j for run in runs])

    start = np.log([1.4e-10, WALL.fixed_w])
    return powered(least_squares(dear, start, loss="soft_l1", f_scale=0.05).x)


def summary(errors: Floats) -> str:
    """Median, 90th percentile and bias of log errors, in percent."""
    size = 100 * np.abs(np.expm1(errors))
    bias = 100 * np.expm1(np.median(errors))
    return f"{np.median(size):7.1f}{np.quantile(size, 0.9):7.1f}{bias:+7.1f}"


def main() -> int:
    """Examine, print, or write the calibration that ships."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", metavar="FILE", help="write the calibration")
    options = parser.parse_args()
    home = os.environ.get("IRENE_DATA_DIR")
    data = Path(home or "") / "wall" / "rtx4090-ollama.csv"
    if not home or not data.is_file():
        print("needs IRENE_DATA_DIR with wall/rtx4090-ollama.csv", file=sys.stderr)
        return 0
    runs = read_runs(data)
    found: dict[str, list[tuple[str, float]]] = {}
    for family in FAMILIES:
        told = fitted([run for run in runs if run.family != family])
        for run in (run for run in runs if run.family == family):
            step_s, token_j = predicted(*told, run)
            hbm_j = predicted(*told, run, memory="hbm")[1]
            others = [r for r in runs if r.family != family]
            plain = np.median([r.token_j / r.file_bytes for r in others])
            ratios = {
                "J per token at the wall": token_j / run.token_j,
                "time per token": step_s / run.step_s,
                "J, bytes as those of HBM": hbm_j / run.token_j,
                "J, a number × the file": plain * run.file_bytes / run.token_j,
            }
            for what, ratio in ratios.items():
                found.setdefault(what, []).append((run.name, float(np.log(ratio))))
    print(f"{'family left out, %':28}{'median':>7}{'p90':>7}{'bias':>7}")
    for what, pairs in found.items():
        print(f"{what:28}{summary(np.array([error for _, error in pairs]))}")
    for name in MODELS:
        cells = [
            summary(np.array([e for n, e in found[what] if n == name]))
            for what in ("J per token at the wall", "time per token")
        ]
        print(f"  {name:26}{cells[0]}   time{cells[1]}")
    told, fixed_w = fitted(runs)
    print(f"all: {told.memory_time:.3g}, {1e3 * told.gap_s:.3g} ms, "
          f"{1e12 * told.joules_per_byte * BYTE_ENERGY[SHEET.memory]:.0f} pJ per byte, "
          f"{fixed_w:.0f} W")  # fmt: skip
    if options.write:
        widths = [
            round(float(np.quantile(np.abs([e for _, e in found[what]]), 0.92)), 3)
            for what in ("J per token at the wall", "time per token")
        ]
        names = {run.name for run in runs}
        shipped = replace(
            told, energy_width=UNMEASURED, time_width=UNMEASURED,
            energy_widths=dict.fromkeys(REGIMES, widths[0]),
            time_widths=dict.fromkeys(REGIMES, widths[1]),
            joules_per_byte=float(f"{told.joules_per_byte:.4g}"),
            memory_time=float(f"{told.memory_time:.4g}"),
            gap_s=float(f"{told.gap_s:.4g}"),
            source=f"{len(runs)} runs of {len(names)} models on a desktop with an RTX "
            "4090, one stream of Ollama",
        )  # fmt: skip
        document = {"schema": SCHEMA, "calibrations": {"rtx4090": shipped.to_dict()}}
        text = json.dumps(document, indent=1) + "\n"
        Path(options.write).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
