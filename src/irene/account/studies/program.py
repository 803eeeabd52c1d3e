"""Program: what is run, how, and what a step of it is.

Fine-tuning and prediction run the model with a classification head, as the paper does;
pre-training with the head for masked tokens, else for the next token.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from irene.errors import UsageError
from irene.spec import Attention, DType, RunSpec

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PretrainedConfig

    from irene.account.live.session import Level
    from irene.meters.channel import Meter

SCHEMA = "irene.study-run/1"

Mode = Literal["pretraining", "finetuning", "prediction"]
MODES: tuple[Mode, ...] = get_args(Mode)
CLASSIFIERS = (
    ("MODEL_FOR_SEQUENCE_CLASSIFICATION", "AutoModelForSequenceClassification"),
    ("MODEL_FOR_IMAGE_CLASSIFICATION", "AutoModelForImageClassification"),
    ("MODEL_FOR_AUDIO_CLASSIFICATION", "AutoModelForAudioClassification"),
)
LANGUAGE_MODELS = (
    ("MODEL_FOR_MASKED_LM", "AutoModelForMaskedLM"),
    ("MODEL_FOR_CAUSAL_LM", "AutoModelForCausalLM"),
)
SEED = 0
MASKED = 0.15
"""Part of the tokens that BERT is asked for in pre-training."""
LEARNING_RATE = 1e-5


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is studied, and what sets it apart from others of a grid."""

    name: str
    config: PretrainedConfig
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """16 hex digits that stand for the config."""
        values = self.config.to_dict()
        for volatile in ("transformers_version", "_name_or_path"):
            values.pop(volatile, None)
        text = repr(sorted((name, repr(value)) for name, value in values.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Conditions:
    """How every run of a study is done.

    Attributes:
        batch_size: Sequences per step.
        seq_len: Tokens per sequence.
        steps: Steps that are recorded.
        warmup: Steps before these that are not recorded.
        runs: How often everything is run.
        level: `op` for every op, `module` for modules alone.
        meters: Names of meters, or open ones.
        period_s: Period of the power samples, s.
        dtype: Floating-point type of weights and activations.
        attention: Attention implementation.
        device: Where to run, as torch names it.
        threads: Threads of torch on the CPU; None for as many as it takes.
    """

    batch_size: int = 8
    seq_len: int = 128
    steps: int = 3
    warmup: int = 1
    runs: int = 3
    level: Level = "op"
    meters: Sequence[str] | Sequence[Meter] = ("auto",)
    period_s: float = 0.01
    dtype: DType = "fp32"
    attention: Attention = "eager"
    device: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "runs"):
            if (value := getattr(self, name)) < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        if not 0 < self.period_s < math.inf:
            raise UsageError(f"the period must be more than 0 s, got {self.period_s}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; open meters by name."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        names = [each if isinstance(each, str) else each.name for each in self.meters]
        return fields | {"meters": names}


@dataclass(frozen=True, slots=True)
class Job:
    """One run that a study wants, of a model in a mode; repeated ones from 1."""

    subject: Subject
    mode: Mode
    conditions: Conditions
    number: int = 1

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"mode is one of {', '.join(MODES)}, got {self.mode!r}")

    @property
    def words(self) -> str:
        """For progress."""
        return f"{self.subject.name}, {self.mode}, run {self.number}"

    @property
    def spec(self) -> RunSpec:
        """Sizes, dtype and attention of a step."""
        return RunSpec(
            self.subject.name,
            self.conditions.batch_size,
            self.conditions.seq_len,
            dtype=self.conditions.dtype,
            attention=self.conditions.attention,
            phase="forward" if self.mode == "prediction" else "train",
        )

    def key(self, machine: Mapping[str, str]) -> dict[str, Any]:
        """All that decides what the run gives, JSON-ready."""
        import torch

        conditions = self.conditions.to_dict()
        del conditions["runs"]  # how many others there are changes nothing
        conditions["threads"] = conditions["threads"] or torch.get_num_threads()
        return {
            "schema": SCHEMA,
            "model": self.subject.digest,
            "mode": self.mode,
            "number": self.number,
            "torch": torch.__version__,
            "machine": dict(machine),
            **conditions,
        }


@dataclass(slots=True)
class Program:
    """A model in the mode in which it runs, with all that a step needs."""

    model: nn.Module
    inputs: Mapping[str, Any]
    optimizer: torch.optim.Optimizer | None
    notes: tuple[str, ...] = ()

    def step(self) -> None:
        """Run one batch."""
        import torch

        if self.optimizer is None:
            with torch.no_grad():
                self.model(**self.inputs)
            return
        self.optimizer.zero_grad()
        self.model(**self.inputs).loss.backward()
        self.optimizer.step()


def make_program(job: Job, device: str) -> Program:
    """Build a model with random weights, and what it needs to run in a mode."""
    import torch

    from irene.measure.alone.target import check_memory, make_sane
    from irene.trace.inputs import make_inputs
    from irene.trace.limits import limits_from_environment
    from irene.trace.models import build, resolve
    from irene.trace.positions import fit_positions

    subject, mode, spec = job.subject, job.mode, job.spec
    head = _head(subject, mode)
    resolved = resolve(subject.config, limits_from_environment(), head)
    # Classifiers of decoders look for the last token that is no padding.
    if getattr(resolved.config, "pad_token_id", 0) is None:
        resolved.config.pad_token_id = 0
    check_memory(build(resolved, spec), subject.name, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = build(resolved, spec, device).train(mode != "prediction")
        make_sane(model)
        spec = fit_positions(model, spec)
        made = make_inputs(model, spec, device)
        inputs = dict(made)
        if mode == "prediction":
            return Program(model, inputs, None, tuple(made.notes))
        inputs["labels"] = _labels(model, inputs, head, spec.batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    return Program(model, inputs, optimizer, tuple(made.notes))


def _head(subject: Subject, mode: Mode) -> str:
    """Class of transformers with the head of a mode."""
    from transformers.models.auto import modeling_auto

    heads = LANGUAGE_MODELS if mode == "pretraining" else CLASSIFIERS
    for table, name in heads:
        known = getattr(modeling_auto, f"{table}_MAPPING_NAMES")
        if subject.config.model_type in known:
            return name
    if mode == "prediction":
        return "AutoModel"
    what = "language-model" if mode == "pretraining" else "classification"
    raise UsageError(
        f"{subject.name}: transformers has no {what} head for model type "
        f"{subject.config.model_type!r}, which {mode} needs"
    )


def _labels(
    model: nn.Module, inputs: Mapping[str, Any], head: str, batch_size: int
) -> torch.Tensor:
    """What the model is to say: a class for each sequence, or tokens."""
    import torch

    home = next(model.parameters()).device
    if "LM" not in head:
        classes = int(getattr(model.config, "num_labels", 2))
        return torch.arange(batch_size, device=home) % max(classes, 1)
    tokens: torch.Tensor = inputs["input_ids"].to(home).clone()
    if "Masked" in head:
        # The loss leaves out -100; the first token is always asked for.
        is_asked = torch.rand(tokens.shape) < MASKED
        is_asked[:, 0] = True
        tokens[~is_asked.to(home)] = -100
    return tokens
