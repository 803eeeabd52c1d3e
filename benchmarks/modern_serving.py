"""Joules per token of whole servings, beside what people would use instead.

Every serving of the chat workload (ML.ENERGY leaderboard v3) is predicted with a
calibration that has not seen its model. Beside it, in the same run and at the same
sizes: two baselines fitted in the same way, the package llm-flops and the regression of
EcoLogits, which are fitted to nothing here. Then how long predictions take.

    IRENE_DATA_DIR=DATA python benchmarks/modern_serving.py [--json] [--write FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from serving_calibration import (
    PROMPT,
    Serving,
    calibration_document,
    coverage,
    examined,
    fit_calibrations,
    read_servings,
    served_ops,
    steps_j,
)

from irene.predict.api import predict
from irene.predict.machines.finding import find_gpu
from irene.trace import catalogue
from irene.trace.serving import serving_tree

GPUS = ("h100", "b200")
BIG = "llama-3.1-70b"
RUN = {"batch_size": 64, "prompt_len": 750, "output_len": 500}


def params_of(model: str) -> tuple[float, float]:
    """All parameters of a model, and those that a token passes."""
    entry = catalogue.find(model)
    assert entry is not None
    return float(entry.params), float(entry.active_params or entry.params)


# Baselines ------------------------------------------------------------------


def three_numbers(each: Serving) -> list[float]:
    """Terms of a · total / B + b · active + c."""
    total, active = params_of(each.model)
    return [total / 1e10 / each.batch_size, active / 1e12, 1e-2]


def bytes_alone(each: Serving) -> list[float]:
    """Terms of a · active / B + b."""
    _, active = params_of(each.model)
    return [active / 1e10 / each.batch_size, 1e-2]


def fitted(
    terms: Callable[[Serving], list[float]], servings: Sequence[Serving]
) -> np.ndarray:
    """Predictions of a sum of terms whose factors the other models give, by GPU.

    The loss is that of our own calibration: relative, robust, models count alike.
    """
    rows = np.array([terms(each) for each in servings])
    truth = np.array([each.j_per_token for each in servings])
    found = np.zeros(len(servings))
    for gpu in GPUS:
        for model in {each.model for each in servings}:
            here = np.array([s.gpu == gpu for s in servings])
            held = np.array([s.model == model for s in servings])
            train, test = here & ~held, here & held
            names = [s.model for s in servings]
            weight = np.array([sum(a == b for b in names) for a in names]) ** -0.25

            def loss(logs, train=train, weight=weight):
                ratio = np.log(rows[train] @ np.exp(logs) / truth[train])
                error = ratio * weight[train]
                return np.sqrt(2 * (np.sqrt(0.03**2 + error**2) - 0.03))

            starts = np.zeros(rows.shape[1])
            best = least_squares(loss, starts)
            found[test] = rows[test] @ np.exp(best.x)
    return found


# Peers ----------------------------------------------------------------------


def llm_flops(each: Serving) -> float:
    """The package llm-flops 0.0.1, given our datasheet and the same sizes."""
    import llmflops

    entry = catalogue.find(each.model)
    assert entry is not None
    config, sheet = entry.config, find_gpu(each.gpu).device.sheet
    experts = config.get("num_experts")
    model = llmflops.ModelConfig(
        name=entry.name,
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        num_key_value_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        vocab_size=config["vocab_size"],
        intermediate_size=config["intermediate_size"],
        tie_word_embeddings=config["tie_word_embeddings"],
        num_experts=experts,
        num_experts_per_tok=config.get("num_experts_per_tok", 2) if experts else 2,
        moe_intermediate_size=config.get("moe_intermediate_size"),
    )
    gpu = llmflops.GPUSpec(
        sheet.name, sheet.memory_bytes / 1e9, sheet.hbm_bytes_s / 1e9, sheet.tdp_w,
        {"bf16": sheet.flops_s["bf16"] / 1e12},
    )  # fmt: skip
    batch, output = max(1, round(each.batch_size)), round(each.output_len)
    told = llmflops.estimate(
        model, batch_size=batch, sequence_length=PROMPT, gpu=gpu,
        num_generated_tokens=output, include_backward=False,
        allow_hf_fetch=False,
    )  # fmt: skip
    details = told["details"]["performance"]
    return float(details["energy_total_joules"]) / (batch * output)


def ecologits(each: Serving) -> float:
    """EcoLogits 0.11, `ecologits.impacts.llm.gpu_energy`: Wh per output token.

    It needs an older `packaging` than this project's tools, so that its regression is
    written out here: α · exp(β · batch) · active parameters in billions + γ, on as many
    GPUs of 80 GB as hold the weights, of which each uses that much.
    """
    alpha, beta, gamma = 1.1665273e-06, -0.011205921, 4.0529281e-05
    total, active = params_of(each.model)
    wh = alpha * math.exp(beta * each.batch_size) * active / 1e9 + gamma
    gpus = 2 ** math.ceil(math.log2(math.ceil(1.2 * total / 1e9 * 2 / 80)))
    return wh * 3600 * gpus


# Reports --------------------------------------------------------------------


def errors(predicted: np.ndarray, servings: Sequence[Serving], gpu: str) -> np.ndarray:
    """Absolute relative errors on one GPU, in percent."""
    here = np.array([each.gpu == gpu for each in servings])
    truth = np.array([each.j_per_token for each in servings])
    return 100 * np.abs(predicted / truth - 1)[here]


def summary(values: np.ndarray) -> dict[str, float]:
    """Median and 90th percentile."""
    return {"median": float(np.median(values)), "p90": float(np.quantile(values, 0.9))}


def accuracy(servings: Sequence[Serving]) -> dict[str, Any]:
    """Errors of all methods on both GPUs, each model left out where one is fitted."""
    exam = examined(servings)
    methods = {
        "irene": exam.j_per_token,
        "irene, step time known": exam.j_per_token_known,
        "a·total/B + b·active + c": fitted(three_numbers, servings),
        "a·active/B + b": fitted(bytes_alone, servings),
        "llm-flops 0.0.1": np.array([llm_flops(each) for each in servings]),
        "EcoLogits 0.11": np.array([ecologits(each) for each in servings]),
    }
    leaf = {gpu: leaf_widths(servings, gpu) for gpu in GPUS}
    return {
        "errors_percent": {
            name: {gpu: summary(errors(found, servings, gpu)) for gpu in GPUS}
            for name, found in methods.items()
        },
        "coverage": coverage(exam, leaf),
        "other_gpu_percent": other_gpu(servings),
    }


def leaf_widths(servings: Sequence[Serving], gpu: str) -> np.ndarray:
    """What the leaf models add to the interval of each run, in log units."""
    machine = find_gpu(gpu)
    found = []
    for each in servings:
        if each.gpu == gpu:
            energy = machine.predict(each.tree()).energy_of(0)
            assert energy is not None
            whole = math.log(energy.high / energy.joules)
            shared = machine.calibration.energy_width
            found.append(math.sqrt(max(whole**2 - shared**2, 0.0)))
    return np.array(found)


def other_gpu(servings: Sequence[Serving]) -> dict[str, dict[str, float]]:
    """Servings of one GPU from a calibration on the other alone, models left out."""
    found = {}
    for gpu in GPUS:
        mine = [each for each in servings if each.gpu == gpu]
        predicted = np.zeros(len(mine))
        for model in {each.model for each in mine}:
            others = [s for s in servings if s.gpu != gpu and s.model != model]
            (told,) = fit_calibrations(others).values()
            held = [i for i, each in enumerate(mine) if each.model == model]
            runs = served_ops([mine[i] for i in held])
            batch = np.array([run.batch for run in runs])
            predicted[held] = steps_j(runs, told)[1] / batch
        found[gpu] = summary(errors(predicted, mine, gpu))
    return found


def speed() -> dict[str, float]:
    """Seconds of a 70-billion model's full answer, new and again; of 10,000 nodes."""
    command = [sys.executable, "-m", "irene", "predict", BIG, "--on", "h200", "--json",
               "-b", "64", "--prompt", "750", "--output", "500",
               "--tensor-parallel", "2"]  # fmt: skip
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    cold_s = time.perf_counter() - started
    predict(BIG, on="h200", tensor_parallel=2, **RUN)
    warm_s = best_of(lambda: predict(BIG, on="h200", tensor_parallel=2, **RUN))
    machine = find_gpu("h200")
    config = dict(catalogue.entries()["gemma-2-27b"].config)
    config |= {"num_hidden_layers": 330, "layer_types": None}
    tree = serving_tree(config, phase="generate", **RUN).unfold()
    many_s = best_of(lambda: machine.predict(tree))
    return {
        "cold_s": cold_s,
        "warm_s": warm_s,
        "nodes": len(tree),
        "nodes_s": many_s,
    }


def best_of(call: Callable[[], object], times: int = 5) -> float:
    """The least of several times, s."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)


def show(document: dict[str, Any]) -> None:
    """Print both tables."""
    found = document["errors_percent"]
    print(
        f"{'J per output token, median (90th percentile)':46} {'H100':>16} {'B200':>16}"
    )
    for name, by_gpu in found.items():
        cells = (
            f"{by_gpu[gpu]['median']:5.1f} % ({by_gpu[gpu]['p90']:4.0f} %)"
            for gpu in GPUS
        )
        print(f"{name:46}", *(f"{cell:>16}" for cell in cells))
    for name in list(found)[2:]:
        theirs, ours = found[name], found["irene"]
        ratios = ", ".join(
            f"{gpu.upper()} {theirs[gpu]['median'] / ours[gpu]['median']:.1f} × "
            f"(p90 {theirs[gpu]['p90'] / ours[gpu]['p90']:.1f} ×)"
            for gpu in GPUS
        )
        print(f"  error of {name} by ours: {ratios}")
    print("share of runs of each left-out model inside the 90 % interval:")
    for gpu, models in document["coverage"].items():
        cells = ", ".join(f"{m.split('/')[1]} {c:.0%}" for m, c in models.items())
        print(f"  {gpu.upper()}: {cells}")
    cells = ", ".join(
        f"{gpu.upper()} {e['median']:.1f} % ({e['p90']:.0f} %)"
        for gpu, e in document["other_gpu_percent"].items()
    )
    print(f"calibrated on the other GPU only, model left out: {cells}")
    times = document["speed"]
    print(
        f"{BIG}: {times['cold_s']:.2f} s in a new process, {times['warm_s'] * 1e3:.1f} "
        f"ms again; {times['nodes']:,} nodes in {times['nodes_s'] * 1e3:.0f} ms"
    )


def main() -> int:
    """Run all, print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument(
        "--write", metavar="FILE", help="write the calibration that ships, and stop"
    )
    options = parser.parse_args()
    home = os.environ.get("IRENE_DATA_DIR")
    data = Path(home or "") / "serving" / "mlenergy-v3-chat.csv"
    if not home or not data.is_file():
        print("needs IRENE_DATA_DIR with serving/mlenergy-v3-chat.csv", file=sys.stderr)
        return 0
    if options.write:
        text = json.dumps(calibration_document(data), indent=1) + "\n"
        Path(options.write).write_text(text, encoding="utf-8")
        return 0
    document = {**accuracy(read_servings(data)), "speed": speed()}
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        show(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
