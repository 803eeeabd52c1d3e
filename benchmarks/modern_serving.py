"""Joules per token and time of steps of whole servings, regime by regime.

Every serving (ML.ENERGY leaderboard v3: chat, long reasoning, filling in code; 1 to 8
H100 or B200; bf16, fp8, mxfp4; dense and experts) that does not repeat its prompts is
predicted with a calibration that has not seen its model family. Beside it, in the same
run: the form that was shipped before, and for chat in bf16 on one GPU two baselines
fitted in the same way, the package llm-flops and the regression of EcoLogits, which are
fitted to nothing here. Then servings of models that are shown a picture, which no
number of any calibration was ever fitted to, and how long predictions take.

    IRENE_DATA_DIR=DATA python -m benchmarks.modern_serving [--json] [--write FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
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
from benchmarks.coverage import serving_rows
from benchmarks.serving_calibration import (
    Exam,
    calibration_document,
    examined,
    fit_calibrations,
    some_families,
)
from benchmarks.servings import PROMPTS, Serving, predicted, read_servings, served
from scipy.optimize import least_squares

from irene.predict.api import predict
from irene.predict.machines.finding import find_gpu
from irene.trace import catalogue
from irene.trace.serving import serving_tree

GPUS = ("h100", "b200")
BIG = "llama-3.1-70b"
RUN = {"batch_size": 64, "prompt_len": 750, "output_len": 500}
FEW = 10
"""Servings below which a regime says little."""
DIFFER = 0.1
"""Relative difference from which on the sign of a pair counts."""


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
        model, batch_size=batch, sequence_length=PROMPTS[each.task], gpu=gpu,
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


# What was shipped before -----------------------------------------------------


def before(servings: Sequence[Serving]) -> dict[Serving, tuple[float, float]]:
    """J per token and time of a step by the form and the numbers shipped before.

    A prompt of chat had 750 tokens, experts were shared like other layers, energy went
    by bytes and FLOPs of the type, sequences took energy but no time. It is given the
    times of kernels as they are now.
    """
    gaps = {"h100": (7.453e-4, 7.744e-15), "b200": (1.849e-3, 3.186e-5)}
    found = {}
    for task, prompt in {**PROMPTS, "lm-arena-chat": 750}.items():
        mine = [each for each in servings if each.task == task]
        for gpu, runs in served(mine, prompt=prompt, spread=False).items():
            sheet, (gap_s, each_s) = runs.sheet, gaps[gpu]
            span_w = sheet.tdp_w - sheet.idle_w
            joules = 1.381e-10 * runs.work.bytes
            joules += 0.75 * span_w * runs.work.flops / sheet.peak("bf16")
            watts = sheet.idle_w + np.minimum(joules / runs.time_s, span_w)
            step_j = runs.sums(runs.time_s * watts)
            step_j += sheet.idle_w * 9.735e-4 + 0.012735 * runs.batch
            token_j = step_j * runs.of("gpus") / runs.batch
            step_s = runs.sums(runs.time_s) + gap_s + each_s * runs.batch
            found |= dict(zip(runs.servings, zip(token_j, step_s, strict=True),
                              strict=True))  # fmt: skip
    return found


# Reports --------------------------------------------------------------------


def errors(predicted: np.ndarray, servings: Sequence[Serving], gpu: str) -> np.ndarray:
    """Absolute relative errors on one GPU, in percent."""
    here = np.array([each.gpu == gpu for each in servings])
    truth = np.array([each.j_per_token for each in servings])
    return 100 * np.abs(predicted / truth - 1)[here]


def summary(values: np.ndarray) -> dict[str, float]:
    """Median and 90th percentile."""
    return {"median": float(np.median(values)), "p90": float(np.quantile(values, 0.9))}


def signed(logs: np.ndarray) -> dict[str, float]:
    """Median, 90th percentile and bias of errors, in percent."""
    found = summary(100 * np.abs(np.expm1(logs)))
    return {**found, "bias": float(100 * np.expm1(np.median(logs)))}


def group_of(each: Serving, regime: str) -> str:
    """Layers, precision, one or several GPUs, workload."""
    layers, stored, _, where = regime.split()
    return f"{layers} {stored} {where} {each.task}"


def regimes(exam: Exam) -> dict[str, dict[str, Any]]:
    """Errors of energy and time by group, now and before, and what intervals hold."""
    former = before(exam.servings)
    measured = np.array([(s.j_per_token, s.step_s) for s in exam.servings])
    now = np.log(np.column_stack([exam.j_per_token, exam.step_s]) / measured)
    then = np.log(np.array([former[each] for each in exam.servings]) / measured)
    is_inside = np.array([row.is_inside for row in serving_rows(exam)])
    groups = np.array(list(map(group_of, exam.servings, exam.regimes)))
    chat = [g.startswith("dense bf16") and g.endswith("chat") for g in groups]
    chosen = {
        "all": np.ones(len(groups), dtype=bool),
        "dense bf16 chat": np.array(chat),
        **{name: groups == name for name in sorted(set(groups))},
    }
    return {
        name: {
            "rows": int(some.sum()),
            "energy": signed(now[some, 0]),
            "energy_before": signed(then[some, 0]),
            "step": signed(now[some, 1]),
            "step_before": signed(then[some, 1]),
            "inside": float(is_inside[some].mean()),
        }
        for name, some in chosen.items()
    }


def pairs(exam: Exam) -> dict[str, dict[str, float]]:
    """Pairs that differ in one thing: how many have the right sign, by which thing."""
    found: dict[str, list[bool]] = {}
    rows = list(zip(exam.servings, exam.j_per_token.tolist(), strict=True))
    for i, (one, a) in enumerate(rows):
        for other, b in rows[i + 1 :]:
            what = difference(one, other)
            ratio = math.log(one.j_per_token / other.j_per_token)
            if what and abs(ratio) > DIFFER:
                found.setdefault(what, []).append((ratio > 0) == (a > b))
    return {
        what: {"pairs": len(right), "right": sum(right) / len(right)}
        for what, right in sorted(found.items())
    }


def difference(one: Serving, other: Serving) -> str:
    """The one thing in which two servings of a model differ, or nothing."""
    of = [(s.model.removesuffix("-FP8"), s.task, s.gpu) for s in (one, other)]
    if of[0] != of[1]:
        return ""
    fields = {"precision": "precision", "gpus": "GPUs", "max_seqs": "batch"}
    differing = [
        word for name, word in fields.items()
        if getattr(one, name) != getattr(other, name)
    ]  # fmt: skip
    return differing[0] if len(differing) == 1 else ""


def accuracy(servings: Sequence[Serving]) -> dict[str, Any]:
    """Errors of all methods, each family left out where one is fitted."""
    exam = examined(served(servings))
    plain = [
        (each, ours)
        for each, ours in zip(exam.servings, exam.j_per_token, strict=True)
        if (each.task, each.gpus, each.precision) == ("lm-arena-chat", 1, "bfloat16")
    ]
    chat, ours = [each for each, _ in plain], np.array([ours for _, ours in plain])
    methods = {
        "irene": ours,
        "a·total/B + b·active + c": fitted(three_numbers, chat),
        "a·active/B + b": fitted(bytes_alone, chat),
        "EcoLogits 0.11": np.array([ecologits(each) for each in chat]),
    }
    if importlib.util.find_spec("llmflops"):
        methods["llm-flops 0.0.1"] = np.array([llm_flops(each) for each in chat])
    return {
        "regimes": regimes(exam),
        "pairs": pairs(exam),
        "chat_bf16_one_gpu_percent": {
            name: {gpu: summary(errors(found, chat, gpu)) for gpu in GPUS}
            for name, found in methods.items()
        },
    }


def pictures(path: Path, servings: Sequence[Serving]) -> dict[str, dict[str, Any]]:
    """Errors of servings that are shown a picture, by what other families tell.

    The part that sees is not counted: of a picture its tokens are.

    Args:
        path: Table of them.
        servings: Those that calibrations are from.
    """
    runs = served(servings)
    shown = [s for s in read_servings(path, "image-chat") if s.is_clean]
    logs: dict[str, list[np.ndarray]] = {}
    for family in dict.fromkeys(each.family for each in shown):
        told = fit_calibrations(some_families(runs, family, False))
        held = served([each for each in shown if each.family == family])
        for gpu, here in held.items():
            measured = np.stack([here.of("j_per_token"), here.of("step_s")])
            errors = np.log(np.stack(predicted(told[gpu], here)) / measured)
            for each, regime, error in zip(
                here.servings, here.regimes, errors.T, strict=True
            ):
                layers, stored, _, where = regime.split()
                for group in ("all", f"{layers} {stored} {where} {each.gpu}"):
                    logs.setdefault(group, []).append(error)
    return {
        name: {
            "rows": len(rows),
            "energy": signed(np.array(rows)[:, 0]),
            "step": signed(np.array(rows)[:, 1]),
        }
        for name, rows in logs.items()
    }


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
    """Print the tables, the worst regime first."""
    print(
        f"{'median / p90 / bias, %':40} {'rows':>4} {'energy':>17} {'before':>17} "
        f"{'step':>17} {'before':>17} inside"
    )
    rows = document["regimes"]
    worst = sorted(rows, key=lambda name: -rows[name]["energy"]["median"])
    for name in worst:
        row = rows[name]
        cells = (
            "{median:5.1f} /{p90:4.0f} /{bias:+4.0f}".format(**row[what])
            for what in ("energy", "energy_before", "step", "step_before")
        )
        few = "" if row["rows"] >= FEW else " (few)"
        print(
            f"{name + few:40} {row['rows']:4}", *(f"{cell:>17}" for cell in cells),
            f"{row['inside']:.0%}",
        )  # fmt: skip
    for what, row in document["pairs"].items():
        print(f"pairs that differ in {what}: {row['right']:.1%} of {row['pairs']}")
    for name, row in document["pictures"].items():
        energy, step = (
            "{median:5.1f} /{p90:4.0f} /{bias:+4.0f}".format(**row[what])
            for what in ("energy", "step")
        )
        print(f"{'shown a picture, ' + name:48}{row['rows']:4} {energy:>17} {step:>17}")
    print("chat in bf16 on one GPU, median (90th percentile): H100, B200")
    for name, by_gpu in document["chat_bf16_one_gpu_percent"].items():
        cells = (
            f"{by_gpu[gpu]['median']:5.1f} % ({by_gpu[gpu]['p90']:4.0f} %)"
            for gpu in GPUS
        )
        print(f"{name:40}", *(f"{cell:>16}" for cell in cells))
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
    data = Path(home or "") / "serving" / "mlenergy-v3-text.csv"
    if not home or not data.is_file():
        print("needs IRENE_DATA_DIR with serving/mlenergy-v3-text.csv", file=sys.stderr)
        return 0
    if options.write:
        text = json.dumps(calibration_document(data), indent=1) + "\n"
        Path(options.write).write_text(text, encoding="utf-8")
        return 0
    clean = [each for each in read_servings(data) if each.is_clean]
    document = {**accuracy(clean), "speed": speed()}
    shown = data.with_name("mlenergy-v3-vision-chat.csv")
    document["pictures"] = pictures(shown, clean) if shown.is_file() else {}
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        show(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
