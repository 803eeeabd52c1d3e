"""Measured servings, and the ops that each of them runs in a mean step."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from irene.errors import FormatError, UsageError
from irene.predict.machines.finding import LEARNED, SHEET, shipped_files
from irene.predict.machines.gpu.datasheet import Datasheet, read_datasheet
from irene.predict.machines.gpu.gpu_device import GpuDevice, read_device, stand_in
from irene.predict.machines.gpu.kernel_work import Work
from irene.predict.machines.gpu.node_ops import GAP, decoder_layers, serving_ops
from irene.predict.machines.gpu.serving_calibration import (
    Calibration,
    OpKinds,
    regime_of,
)
from irene.saved import Floats
from irene.trace import catalogue
from irene.trace.serving.tree import serving_tree
from irene.tree import ModelTree

__all__ = ["PROMPTS", "Runs", "Serving", "predicted", "read_servings", "served"]

PROMPTS = {
    "lm-arena-chat": 350, "gpqa": 250, "sourcegraph-fim": 2000, "sharegpt-v2": 100,
    "image-chat": 350,
}  # fmt: skip
"""Tokens of a prompt by workload. Their publisher does not say; with these, what only
moves bytes takes a time that is possible (with 750 in chat, none at all)."""
IMAGES = {"qwen3-vl": 1024, "gemma-3": 256, "llama-4": 1440}
"""Tokens of a picture of a megapixel, by how these models cut one up: squares of 32 by
32 pixels, 256 whatever its size, ten tiles of 144 each."""
REQUESTS = {
    "lm-arena-chat": 1024, "gpqa": 198, "sourcegraph-fim": 1024, "image-chat": 1024,
}  # fmt: skip
"""Distinct requests of a workload: where more than half of them run at a time, prompts
come again, and a cache answers them."""
FAMILIES = (
    "qwen3-235b", "qwen3-30b", "qwen3-coder-30b", "qwen3", "llama-3", "llama-4",
    "gemma-3", "gpt-oss", "deepseek",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Serving:
    """One measured serving.

    Attributes:
        task: Workload.
        model: Hugging Face id.
        gpu: Name of the GPU, as given to `--on`.
        gpus: How many.
        expert_parallel: GPUs over which experts are spread.
        precision: How its weights are stored, in the words of the table.
        max_seqs: Most streams at a time.
        batch_size: Streams that run at a time, on average.
        output_len: Tokens of an answer, on average.
        generated: Tokens that a running stream has generated so far, on average.
        j_per_token: Energy of all GPUs per output token, J.
        step_s: Time between two tokens of a stream, on average, s.
    """

    task: str
    model: str
    gpu: str
    gpus: int
    expert_parallel: int
    precision: str
    max_seqs: int
    batch_size: float
    output_len: float
    generated: float
    j_per_token: float
    step_s: float

    @property
    def family(self) -> str:
        """Models of one kind and size, which are left out together."""
        name = self.model.lower().replace("-vl", "")
        found = next((word for word in FAMILIES if word in name), name)
        return found.replace("-coder", "")

    @property
    def is_clean(self) -> bool:
        """Whether its prompts are not repeated."""
        return self.max_seqs <= REQUESTS[self.task] // 2

    @property
    def prompt(self) -> int:
        """Tokens of a prompt, its picture's too."""
        pictures = [n for word, n in IMAGES.items() if word in self.model.lower()]
        shown = pictures[0] if self.task == "image-chat" else 0
        return PROMPTS[self.task] + shown

    @property
    def past(self) -> float:
        """Tokens that its streams have generated so far while it was measured.

        All streams are new when that begins, and it ends when as many requests are left
        as run at a time: few streams are as old then as `generated` says they become.
        How old they are on average after a time is taken as that of answers whose
        lengths are exponential.
        """
        late = self.generated / self.output_len
        requests = REQUESTS.get(self.task, math.inf)
        times = (requests / self.max_seqs - late) / late
        return self.generated * (1 + math.expm1(-times) / times)

    def tree(self, prompt: int | None = None, spread: bool = True) -> ModelTree:
        """The tree of what it ran."""
        prompt = self.prompt if prompt is None else prompt
        return serving_tree(
            _config(self.model),
            name=self.model,
            phase="generate",
            batch_size=max(1, round(self.batch_size)),
            prompt_len=prompt,
            output_len=max(1, round(self.output_len)),
            context_len=round(prompt + self.past),
            tensor_parallel=self.gpus,
            expert_parallel=self.expert_parallel if spread else 1,
        )


@cache
def _config(model: str) -> Mapping[str, Any]:
    """Fields of a model's config."""
    # Of models that see, the part that writes.
    entry = catalogue.find(model) or catalogue.find(
        model.replace("-VL", "").replace("-Instruct", "-Instruct-2507")
    )
    if entry is None:
        raise UsageError(f"{model} is not in the catalogue")
    return entry.config


def read_servings(path: str | Path, task: str = "") -> list[Serving]:
    """Servings in the columns of the ML.ENERGY leaderboard, but hybrids of Mamba.

    Args:
        path: Table of them.
        task: The workload that is wanted, "" for all.

    Raises:
        UsageError: The file cannot be opened.
        FormatError: A column is missing or is not a number.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    try:
        return [
            _serving(row)
            for row in rows
            if "Nemotron" not in row["model"] and row["task"] in (task or row["task"],)
        ]
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path}: not a table of servings: {error!r}") from error


def _serving(row: Mapping[str, str]) -> Serving:
    batch = float(row["avg_batch_size"])
    return Serving(
        row["task"],
        row["model"],
        row["gpu"].lower(),
        int(row["num_gpus"]),
        int(row["expert_parallel"]),
        row["weight_precision"],
        int(float(row["max_num_seqs"])),
        batch,
        float(row["avg_output_len"]),
        float(row["mean_generated_so_far"]),
        float(row["energy_per_token_joules"]),
        batch / float(row["output_throughput_tokens_per_sec"]),
    )


@dataclass(frozen=True, slots=True)
class Runs:
    """What a fit needs of servings on one kind of GPU: their ops, one after the other.

    Attributes:
        servings: What was measured.
        sheet: Datasheet of the GPU.
        row: Serving of every op, as a place in `servings`.
        weight: How often the op is run in a mean step; less than 0 where it is counted
            elsewhere.
        time_s: Time by its table, s.
        work: FLOPs and bytes.
        kinds: What kinds of ops they are.
        batch: Streams of every serving.
        words: Tokens in the vocabulary of each.
        layers: Of each.
        regimes: Regime of every serving.
    """

    servings: tuple[Serving, ...]
    sheet: Datasheet
    row: np.ndarray
    weight: Floats
    time_s: Floats
    work: Work
    kinds: OpKinds
    batch: Floats
    words: Floats
    layers: Floats
    regimes: tuple[str, ...]

    def sums(self, values: Floats) -> Floats:
        """Of every serving, per mean step."""
        found: Floats = np.bincount(self.row, self.weight * values, len(self.servings))
        return found

    def of(self, name: str) -> Floats:
        """A number of every serving."""
        return np.array([getattr(each, name) for each in self.servings], dtype=float)

    def at(self, wanted: Sequence[bool]) -> Runs:
        """Some of the servings."""
        keep = np.asarray(wanted, dtype=bool)
        ops = keep[self.row]
        kinds = [getattr(self.kinds, name)[ops] for name in OpKinds.__slots__]
        places = np.cumsum(keep) - 1
        return Runs(
            tuple(s for s, k in zip(self.servings, keep, strict=True) if k),
            self.sheet, places[self.row[ops]], self.weight[ops], self.time_s[ops],
            Work(self.work.flops[ops], self.work.bytes[ops]), OpKinds(*kinds),
            self.batch[keep], self.words[keep], self.layers[keep],
            tuple(r for r, k in zip(self.regimes, keep, strict=True) if k),
        )  # fmt: skip


def served(servings: Sequence[Serving], **tree: Any) -> dict[str, Runs]:
    """The ops of servings by GPU, as their tables time them.

    Args:
        servings: What was measured.
        **tree: As `Serving.tree` takes it.
    """
    gpus = dict.fromkeys(each.gpu for each in servings)
    return {g: _served([s for s in servings if s.gpu == g], tree) for g in gpus}


def _device(gpu: str) -> GpuDevice:
    """A GPU that ships, whatever its calibration."""
    learned = shipped_files(LEARNED)
    if gpu in learned:
        return read_device(learned[gpu])
    return stand_in(read_datasheet(shipped_files(SHEET)[gpu]))


def _served(servings: Sequence[Serving], options: Mapping[str, Any]) -> Runs:
    device = _device(servings[0].gpu)
    columns: list[tuple[Any, ...]] = []
    sizes, regimes = [], []
    for place, each in enumerate(servings):
        tree = each.tree(**options)
        spec, nodes = tree.spec, serving_ops(tree)
        assert spec is not None
        costs, kinds = device.costs(nodes.ops), OpKinds.of(nodes.ops, device.sheet)
        times = nodes.runs * tree.multiplicity[nodes.rows] / (spec.output_len or 1)
        beside = nodes.base >= 0
        at = np.concatenate([nodes.place, nodes.base[beside]])
        flags = [getattr(kinds, name)[at] for name in OpKinds.__slots__]
        columns.append(
            (
                np.full(len(at), place),
                np.concatenate([times, -times[beside]]),
                costs.time_s[at],
                costs.flops[at],
                costs.bytes[at],
                *flags,
            )
        )
        gap = tree.columns.signature[tree.columns.op == tree.strings.index(GAP)][-1]
        (words,) = tree.signatures[gap].inputs[1]
        sizes.append((spec.batch_size, words, decoder_layers(tree)))
        regimes.append(regime_of(nodes.ops, spec.gpus, spec.output_len or 1))
    row, weight, time_s, flops, moved, *flags = map(
        np.concatenate, zip(*columns, strict=True)
    )
    return Runs(
        tuple(servings), device.sheet, row, weight, time_s, Work(flops, moved),
        OpKinds(*flags), *np.array(sizes, dtype=float).T, tuple(regimes),
    )  # fmt: skip


def predicted(
    told: Calibration, runs: Runs, step_s: Floats | None = None
) -> tuple[Floats, Floats]:
    """J per output token and time of a step, s.

    Args:
        told: The calibration.
        runs: What was run.
        step_s: Time of steps, where it is known.
    """
    taken_s = runs.time_s * told.factors(runs.kinds)
    work_j = told.work_j(runs.kinds, taken_s, runs.work, runs.sheet)
    busy_s, above_j = runs.sums(taken_s), runs.sums(work_j)
    is_long = np.array([r.endswith("long one") for r in runs.regimes])
    has_experts = np.array([r.startswith("experts") for r in runs.regimes])
    gap_s, weighed = told.gap(runs.batch, runs.words, runs.layers, is_long, has_experts)
    if step_s is not None:
        gap_s = np.maximum(step_s - busy_s, 0.0)
    above_j = above_j + told.span_w(runs.sheet) * weighed
    joules = told.limited_j(above_j, busy_s + gap_s, runs.sheet)
    return joules * runs.of("gpus") / runs.batch, busy_s + gap_s
