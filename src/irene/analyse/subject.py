"""What a question is asked of: a run on a machine, with changes, or a tree.

As people write it: `tree.json` is a saved tree. Everything else is a model, with its
own size after an `@`: `gpt2`, `gpt2@b16s256`, `gpt2@b16,s256,fp16,sdpa,on=lab.json`; a
serving with its prompt and output: `qwen3-8b@b64p750o500,fp8,on=b200`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from irene.errors import UsageError
from irene.parameters import parameters_of
from irene.spec import Attention, DType, Phase, Quantization, RunSpec
from irene.trace import catalogue
from irene.trace.limits import limits_from_environment
from irene.trace.model_files import is_model_file
from irene.trace.sources import files_count

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

    from irene.analyse.config_fields import ModelConfig
    from irene.tree import ModelTree

NORMS = ("layer_norm", "rms_norm", "none")
"""What can stand in the place of a model's norms."""
SIZES = {
    "b": "batch_size", "s": "seq_len", "d": "decoder_len", "c": "context_len",
    "p": "prompt_len", "o": "output_len",
}  # fmt: skip
SIZE = re.compile(r"(?:[bsdcpo]\d+)+")
ONE_SIZE = re.compile(r"([bsdcpo])(\d+)")
WORDS = {
    **dict.fromkeys(get_args(DType), "dtype"),
    **dict.fromkeys(get_args(Attention), "attention"),
    **dict.fromkeys(get_args(Phase), "phase"),
    **dict.fromkeys([q for q in get_args(Quantization) if q != "bf16"], "quantization"),
}
HOW = (
    "write MODEL@b16s256 (b batch, s length, d decoder length, c context, "
    "p prompt, o output), with "
    f"{', '.join(WORDS)} or on=NAME after a comma"
)
TREE_SCHEMA = "irene.tree/"
LONGEST_LOOK = 200
Progress = Callable[[int, int, str], None]
"""Told steps done, steps in all, and what is being done."""
_TREES: ContextVar[Mapping[str, Path] | None] = ContextVar("trees", default=None)


@dataclass(frozen=True, slots=True)
class Subject:
    """A run on a machine, with changes of the model; or a tree that is there.

    Attributes:
        run: The run; its model is the path of a saved tree where `is_tree`.
        on: Machine or file of a predictor.
        fields: Fields of the config that are changed.
        norm: What stands in the place of the norms, one of `NORMS`; None: as it is.
        device: Where the model is traced; `meta` for shapes alone.
        is_tree: Whether it is a saved tree.
        why: Why it is on that machine, where nobody named one.
    """

    run: RunSpec
    on: str = "default"
    fields: Mapping[str, Any] = field(default_factory=dict)
    norm: str | None = None
    device: str = "meta"
    is_tree: bool = False
    why: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Say which run and machine are meant where nobody did."""
        from irene.predict.machines.chosen import meant

        run, on, why = meant(self.run, self.on, self.device)
        for name, value in (("run", run), ("on", on), ("why", why or self.why)):
            object.__setattr__(self, name, value)

    def changed(self, changes: Mapping[str, Any]) -> Subject:
        """With other values.

        Args:
            changes: By name: `model`, `norm`, a field of `RunSpec`, or a field of the
                model's config.
        """
        of_run = {each.name for each in parameters_of(RunSpec)}
        values = {k: v for k, v in changes.items() if k in of_run}
        if "model" in values:
            values["model_class"] = None
        norm = changes.get("norm", self.norm)
        if norm is not None and norm not in NORMS:
            raise UsageError(f"norm must be one of {', '.join(NORMS)}; got {norm!r}")
        rest = {k: v for k, v in changes.items() if k not in of_run and k != "norm"}
        run = self.run.changed(**values) if values else self.run
        return replace(self, run=run, fields={**self.fields, **rest}, norm=norm)

    def config(self) -> ModelConfig:
        """The model's config, as it is published."""
        from irene.analyse.config_fields import read_config

        limits = limits_from_environment()
        return read_config(self.run.model, self.run.model_class, limits)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A subject of a list that has no answer, and why."""

    model: str
    problem: str


@contextmanager
def known_trees(trees: Mapping[str, Path]) -> Iterator[None]:
    """Within it some names mean trees, and a path means none.

    Args:
        trees: Files of documents by name; they are read when they are needed.
    """
    token = _TREES.set(trees)
    try:
        yield
    finally:
        _TREES.reset(token)


def read_subject(
    text: str, run: RunSpec, on: str = "default", device: str = "meta"
) -> Subject:
    """Read what somebody wrote.

    Args:
        text: `tree.json`, `MODEL` or `MODEL@SIZE,…`.
        run: The run, as far as the text does not say otherwise.
        on: Machine, unless the text names another.
        device: Where the model is traced.
    """
    if is_saved_tree(text):
        return Subject(run.of(text), on, device=device, is_tree=True)
    model, at, words = text.rpartition("@")
    if not at or (files_count() and Path(text).exists()):
        return Subject(run.of(text), on, device=device)
    values: dict[str, Any] = {}
    for word in filter(None, words.split(",")):
        if word.startswith("on="):
            on = word.removeprefix("on=")
        elif word in WORDS:
            values[WORDS[word]] = word
        elif SIZE.fullmatch(word):
            values |= {SIZES[letter]: int(n) for letter, n in ONE_SIZE.findall(word)}
        else:
            raise UsageError(f"{text!r}: cannot read {word!r} after the @; {HOW}")
    if {"prompt_len", "output_len"} & set(values):
        values.setdefault("phase", "generate")
    return Subject(run.of(model).changed(**values), on, device=device)


def is_saved_tree(text: str) -> bool:
    """Whether a text means a saved tree, and not a model or the path of a config."""
    trees = _TREES.get()
    if trees is not None:
        return text in trees
    path = Path(text)
    try:
        if not files_count() or is_model_file(path) or not path.is_file():
            return False
        with path.open(encoding="utf-8") as file:
            start = file.read(LONGEST_LOOK)
    except (OSError, ValueError):
        return False
    if TREE_SCHEMA in start:
        return True
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    schema = fields.get("schema") if isinstance(fields, dict) else None
    return str(schema).startswith(TREE_SCHEMA)


def tree_of(subject: Subject) -> ModelTree:
    """The tree that is meant, with energy.

    Raises:
        UsageError: A name, field or size is unknown or impossible, or the saved tree
            carries no energy.
    """
    if subject.is_tree:
        return _saved(subject.run.model)
    return _predicted(subject).with_notes(*subject.why)


def _predicted(subject: Subject) -> ModelTree:
    from irene.predict.api import predict_run
    from irene.predict.machines.finding import find_machine

    machine = find_machine(subject.on)
    if not subject.fields and subject.norm is None:
        return predict_run(subject.run, machine, device=subject.device)
    from irene.analyse.config_fields import changed

    base = subject.config()
    source = changed(base, subject.fields)
    if subject.norm is None:
        run = subject.run.chosen_as(model_class=base.model_class)
        return predict_run(run, machine, source=source)
    run = subject.run.resolved(machine)
    tree = _trace_with_norm(base, source.make(), subject.norm, run)
    return machine.predict(tree)


def _saved(name: str) -> ModelTree:
    from irene.tree import load

    trees = _TREES.get()
    tree = load(name if trees is None else trees[name])
    if tree.energy_of(0) is None:
        raise UsageError(
            f"{name} carries no energy: it was traced, not predicted or "
            "measured; use `irene predict MODEL --out FILE`"
        )
    return tree


def _trace_with_norm(
    base: ModelConfig, config: PretrainedConfig, norm: str, run: RunSpec
) -> ModelTree:
    """Trace a model whose norms were replaced."""
    from irene.trace.models import Resolved, build
    from irene.trace.tracer import trace_module

    resolved = Resolved(base.name, config, base.model_class, "a changed config")
    model = build(resolved, run)
    if not _replace_norms(model, norm):
        raise UsageError(f"{base.name} has no norm that {norm} could stand in for")
    sizes = ("batch_size", "seq_len", "decoder_len", "context_len", "phase")
    tree = trace_module(model, None, {name: getattr(run, name) for name in sizes})
    assert tree.spec is not None
    # Two norms under one name must not share a hash.
    digest = f"{resolved.digest[:12]}-{norm[:3]}"
    spec = replace(tree.spec, model=base.name, config_digest=digest, chosen=run.chosen)
    return tree.with_spec(spec)


def _replace_norms(model: nn.Module, norm: str) -> int:
    """Put other norms in the place of all norms; how many there were."""
    from torch import nn

    kinds = {"layer_norm": nn.LayerNorm, "rms_norm": nn.RMSNorm}
    found = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            weight = getattr(child, "weight", None)
            is_norm = type(child).__name__.lower().endswith("norm")
            if not is_norm or weight is None or weight.dim() != 1:
                continue
            found += 1
            made: nn.Module = nn.Identity()
            if norm in kinds:
                shape = tuple(weight.shape)
                made = kinds[norm](shape, device=weight.device, dtype=weight.dtype)
            setattr(module, name, made)
    return found


def subject_of_tree(tree: ModelTree, on: str) -> Subject:
    """What a tree describes: the same model and run, to be predicted."""
    spec = tree.spec
    if spec is None or not (catalogue.find(spec.model) or Path(spec.model).exists()):
        named = spec.model if spec else tree.root.op
        raise UsageError(
            f"the tree of {named} does not say how the model is built: give the name "
            "of a model or a config.json instead"
        )
    return Subject(replace(spec, config_digest=None), on)
