"""Calibrations of servings: fitted to measured ones, examined, and as they ship.

Few numbers, most of them shared by all GPUs. How well they predict model families they
have not seen sets the intervals, regime by regime.

The fit has two stages, so that a serving that waited for its host does not pass for one
that draws little power: times from measured steps, then power from measured energy with
the measured step.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from irene.errors import FormatError, UsageError
from irene.predict.learned_file import Floats
from irene.predict.machines.finding import LEARNED, shipped_files
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.gpu_device import read_device
from irene.predict.machines.gpu.kernel_work import Work
from irene.predict.machines.gpu.node_ops import serving_ops
from irene.predict.machines.gpu.serving_calibration import (
    SCHEMA,
    UNSEEN,
    Calibration,
    OpKinds,
    regime_of,
    without_ranks,
)
from irene.trace import catalogue
from irene.trace.serving.tree import serving_tree
from irene.tree import ModelTree

__all__ = [
    "PROMPTS",
    "Exam",
    "Runs",
    "Serving",
    "calibration_document",
    "examined",
    "fit_calibrations",
    "predicted",
    "read_servings",
    "served",
    "widths_of",
]

PROMPTS = {"lm-arena-chat": 350, "gpqa": 250, "sourcegraph-fim": 2000}
"""Tokens of a prompt by workload. Their publisher does not say; with these, what only
moves bytes takes a time that is possible (with 750 in chat, none at all)."""
REQUESTS = {"lm-arena-chat": 1024, "gpqa": 198, "sourcegraph-fim": 1024}
"""Distinct requests of a workload: where more than half of them run at a time, prompts
come again, and a cache answers them."""
FAMILIES = (
    "qwen3-235b", "qwen3-30b", "qwen3-coder-30b", "qwen3", "llama-3", "llama-4",
    "gemma-3", "gpt-oss", "deepseek",
)  # fmt: skip
SCOUT = {
    "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "vocab_size": 202048,
    "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
    "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
    "attention_chunk_size": 8192, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip
"""Text part of the config of Llama-4-Scout-17B-16E, from its hub page."""


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
        name = self.model.lower()
        found = next((word for word in FAMILIES if word in name), name)
        return found.replace("-coder", "")

    @property
    def is_clean(self) -> bool:
        """Whether its prompts are not repeated."""
        return self.max_seqs <= REQUESTS[self.task] // 2

    def tree(self, prompt: int | None = None, spread: bool = True) -> ModelTree:
        """The tree of what it ran."""
        prompt = PROMPTS[self.task] if prompt is None else prompt
        config, quantization = _config(self.model)
        return serving_tree(
            config,
            name=self.model,
            phase="generate",
            batch_size=max(1, round(self.batch_size)),
            prompt_len=prompt,
            output_len=max(1, round(self.output_len)),
            context_len=round(prompt + self.generated),
            quantization=quantization,
            tensor_parallel=self.gpus,
            expert_parallel=self.expert_parallel if spread else 1,
        )


@cache
def _config(model: str) -> tuple[Mapping[str, Any], Any]:
    """Fields of a model's config, and how its weights are stored if it has none."""
    if "Llama-4-Scout" in model:
        return SCOUT, None
    name = model.removesuffix("-FP8")
    quantization = None
    if name != model:
        # Qwen publishes blocks with a scale each, Meta one scale per channel.
        quantization = "fp8_block" if "Qwen" in name else "fp8"
    entry = catalogue.find(name)
    if entry is None:
        raise UsageError(f"{model} is not in the catalogue")
    return entry.config, quantization


def read_servings(path: str | Path) -> list[Serving]:
    """Servings in the columns of the ML.ENERGY leaderboard, but hybrids of Mamba.

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
        return [_serving(row) for row in rows if "Nemotron" not in row["model"]]
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


# Fit ------------------------------------------------------------------------


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
            self.batch[keep],
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


def _served(servings: Sequence[Serving], options: Mapping[str, Any]) -> Runs:
    device = read_device(shipped_files(LEARNED)[servings[0].gpu])
    columns: list[tuple[Any, ...]] = []
    batch, regimes = [], []
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
        batch.append(spec.batch_size)
        regimes.append(regime_of(nodes.ops, spec.gpus, spec.output_len or 1))
    row, weight, time_s, flops, moved, *flags = map(
        np.concatenate, zip(*columns, strict=True)
    )
    return Runs(
        tuple(servings), device.sheet, row, weight, time_s, Work(flops, moved),
        OpKinds(*flags), np.array(batch, dtype=float), tuple(regimes),
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
    worked, waited = told.factors(runs.kinds)
    work_j = told.work_j(runs.kinds, runs.time_s * worked, runs.work, runs.sheet)
    busy_s, kernels_j = runs.sums(runs.time_s * waited), runs.sums(work_j)
    gap_s, gap_j = told.gap(runs.batch, runs.sheet)
    if step_s is not None:
        gap_s = np.maximum(step_s - busy_s, 0.0)
        gap_j = told.gap_j(runs.batch, gap_s, runs.sheet)
    joules = kernels_j + runs.sheet.idle_w * busy_s + gap_j
    return joules * runs.of("gpus") / runs.batch, busy_s + gap_s


TIMES = {"memory_time": 1.5, "sequence_s": 4e-5, "gap_s": 1e-3}
OF_EACH_GPU = ("gap_s",)
"""Numbers that every GPU has for itself."""
POWERS = {
    "joules_per_byte": 1.4e-10, "experts_share": 0.1, "block_share": 0.8,
    "sequence_share": 1.0,
}  # fmt: skip
"""Where the fit of power starts. Only one family has products of block-scaled fp8 that
take their table's time: without it, what they take stays at 0.8."""
COMPUTE_SHARES = (1.0, 1.5, 2.0)
"""What arithmetic may take at bf16's peak rate, by the span of power. In servings it
goes together with other work per token, and a free fit trades one for the other; the
value is chosen among these by leaving out families of the rows that are fitted."""
ROBUST = 0.05
"""Relative error beyond which a run counts by its error, not by its square."""
HOLD = 0.02
"""How hard the logarithm of a number is held where it starts, in errors."""


def fit_calibrations(runs: Mapping[str, Runs]) -> dict[str, Calibration]:
    """Calibrations by GPU, without widths; `compute_share` by inner cross-validation.

    Args:
        runs: What was measured, by GPU.
    """
    families = sorted({s.family for each in runs.values() for s in each.servings})
    if len(families) < 3:
        return _fitted(runs, COMPUTE_SHARES[0])
    errors = [
        np.median(np.abs(_left_out(runs, families, share))) for share in COMPUTE_SHARES
    ]
    return _fitted(runs, COMPUTE_SHARES[int(np.argmin(errors))])


def _left_out(
    runs: Mapping[str, Runs], families: Sequence[str], share: float
) -> Floats:
    """Log errors of the energy, each family by a fit to the others."""
    found = []
    for family in families:
        told = _fitted(_some(runs, family, False), share)
        for gpu, held in _some(runs, family, True).items():
            energy, _ = predicted(_for(told, gpu), held)
            found.append(np.log(energy / held.of("j_per_token")))
    return np.concatenate(found)


def _some(runs: Mapping[str, Runs], family: str, is_in: bool) -> dict[str, Runs]:
    """The runs of a family, or all others."""
    chosen = {
        gpu: each.at([(s.family == family) == is_in for s in each.servings])
        for gpu, each in runs.items()
    }
    return {gpu: each for gpu, each in chosen.items() if each.servings}


def _for(told: Mapping[str, Calibration], gpu: str) -> Calibration:
    """The calibration of a GPU, or that of another if it has none."""
    return told.get(gpu) or next(iter(told.values()))


def _fitted(runs: Mapping[str, Runs], share: float) -> dict[str, Calibration]:
    start = Calibration(compute_share=share)
    gpus = list(runs)
    names = [(name, "") for name in TIMES if name not in OF_EACH_GPU]
    names += [(name, gpu) for name in OF_EACH_GPU for gpu in gpus]
    usual = np.array([TIMES[name] for name, _ in names])

    def timed(numbers: Floats) -> dict[str, Calibration]:
        return {
            gpu: replace(
                start, **{n: v for (n, g), v in zip(names, numbers, strict=True)
                          if g in ("", gpu)}
            )
            for gpu in gpus
        }  # fmt: skip

    def steps(told: Mapping[str, Calibration], gpu: str) -> Floats:
        found: Floats = predicted(told[gpu], runs[gpu])[1] / runs[gpu].of("step_s")
        return found

    clocks = timed(_least(lambda n: _errors(runs, timed(n), steps), usual))

    def powered(numbers: Floats) -> dict[str, Calibration]:
        values = dict(zip(POWERS, numbers.tolist(), strict=True))
        return {gpu: replace(told, **values) for gpu, told in clocks.items()}

    def joules(told: Mapping[str, Calibration], gpu: str) -> Floats:
        here = runs[gpu]
        found: Floats = predicted(told[gpu], here, here.of("step_s"))[0]
        return found / here.of("j_per_token")

    best = _least(
        lambda n: _errors(runs, powered(n), joules), np.array(list(POWERS.values()))
    )
    return powered(best)


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


def _least(errors: Any, start: Floats) -> Floats:
    """The numbers of least error, near where they start."""
    best = least_squares(
        lambda logs: np.concatenate([errors(start * np.exp(logs)), HOLD * logs]),
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
        told = fit_calibrations(_some(runs, family, False))
        for gpu, held in _some(runs, family, True).items():
            mine = _for(told, gpu)
            energy, step_s = predicted(mine, held)
            known, _ = predicted(mine, held, held.of("step_s"))
            found.append((held, energy, known, step_s))
    return Exam(
        tuple(s for held, *_ in found for s in held.servings),
        tuple(r for held, *_ in found for r in held.regimes),
        *(np.concatenate([each[i] for each in found]) for i in (1, 2, 3)),
    )


COVERED = 0.92
"""Share of held-out servings that intervals hold: 90 %, and some for families that are
less like the others."""
FEW = 10
"""Servings that a regime needs for a width of its own."""


def widths_of(
    exam: Exam, what: str = "j_per_token", but: str = ""
) -> tuple[dict[str, float], float]:
    """Half the intervals by regime, in log units, and that of all other regimes.

    Args:
        exam: Predictions on left-out families.
        what: Energy or time, a field of the exam.
        but: A family whose errors do not count.
    """
    errors: dict[str, list[float]] = {}
    counted = zip(exam.servings, exam.regimes, exam.log_errors(what), strict=True)
    for each, regime, error in counted:
        if each.family != but:
            for name in (regime, without_ranks(regime)):
                errors.setdefault(name, []).append(abs(float(error)))
    found = {
        name: round(float(np.quantile(some, COVERED)), 3)
        for name, some in sorted(errors.items())
        if len(some) >= FEW
    }
    return found, max(found.values())


SAME_CHIP = {"h200": "h100"}
"""GPUs that use another's calibration: the same chip with another memory."""
SAME_CHIP_FACTOR = 1.5
"""How much wider their intervals are, an assumption."""
UNSEEN_WIDTH = 0.35
"""Least width for a GPU that no serving was measured on: the largest error between the
two that were, and what its leaf models add."""
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
        label = f"{found[other].source}, the same chip with other memory"
        wider = _wider(found[other], SAME_CHIP_FACTOR, 0.0)
        found[gpu] = replace(wider, source=label, errors={})
    found[UNSEEN] = _unseen(list(found.values())[: len(runs)])
    return {
        "schema": SCHEMA,
        "data": {
            "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
            "rows": len(servings),
            "from": "ML.ENERGY leaderboard v3, servings that do not repeat prompts",
            "prompts": PROMPTS,
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


def _wider(told: Calibration, factor: float, least: float) -> Calibration:
    """With wider intervals."""

    def wider(widths: Mapping[str, float]) -> dict[str, float]:
        return {k: round(max(v * factor, least), 3) for k, v in widths.items()}

    return replace(
        told,
        energy_width=round(max(told.energy_width * factor, least), 3),
        time_width=round(max(told.time_width * factor, least), 3),
        energy_widths=wider(told.energy_widths),
        time_widths=wider(told.time_widths),
    )


def _unseen(known: Sequence[Calibration]) -> Calibration:
    """What GPUs share, for one that no serving was measured on."""
    means = {
        name: float(np.mean([getattr(each, name) for each in known]))
        for name in OF_EACH_GPU
    }
    source = "servings on other GPUs, H100 and B200"
    wide = _wider(known[0], SAME_CHIP_FACTOR, UNSEEN_WIDTH)
    return _rounded(replace(wide, **means, source=source, errors={}))
