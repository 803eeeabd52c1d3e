"""A model at a size on a machine, with changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from irene.errors import UsageError
from irene.spec import (
    LATER_FIELDS,
    Attention,
    CacheDType,
    DType,
    Phase,
    Quantization,
    RunSpec,
)
from irene.tree import ModelTree

if TYPE_CHECKING:
    from torch import nn

    from irene.analyse.config_fields import ModelConfig

__all__ = ["NORMS", "RUN_FIELDS", "Variant", "predict_variant", "variant_of_tree"]

RUN_FIELDS = (
    "batch_size", "seq_len", "decoder_len", "context_len", "dtype", "attention",
    "phase", "model_class", *LATER_FIELDS,
)  # fmt: skip
"""Fields of a run that can be changed like those of a config."""
NORMS = ("layer_norm", "rms_norm", "none")
"""What can stand in the place of a model's norms."""
CHOICES = {
    "dtype": get_args(DType),
    "attention": get_args(Attention),
    "phase": get_args(Phase),
    "quantization": get_args(Quantization),
    "cache_dtype": get_args(CacheDType),
    "norm": NORMS,
}


@dataclass(frozen=True, slots=True)
class Variant:
    """A model, a run and a machine.

    Attributes:
        model: Catalogue name, Hugging Face id or path of a config.json.
        run: Arguments of `irene.trace`.
        fields: Fields of the config that are changed.
        norm: What stands in the place of the norms, one of `NORMS`; None: as it is.
        on: Machine or file of a predictor.
    """

    model: str
    run: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    norm: str | None = None
    on: str = "pc1"

    def changed(self, changes: Mapping[str, Any]) -> Variant:
        """With other values.

        Args:
            changes: By name: `model`, `norm`, one of `RUN_FIELDS`, or a field of the
                model's config.
        """
        run, fields = dict(self.run), dict(self.fields)
        model, norm = self.model, self.norm
        for name, value in changes.items():
            if name in CHOICES and value not in CHOICES[name]:
                raise UsageError(
                    f"{name} must be one of {', '.join(CHOICES[name])}; got {value!r}"
                )
            if name == "model":
                model = str(value)
                run["model_class"] = None
            elif name == "norm":
                norm = str(value)
            elif name in RUN_FIELDS:
                run[name] = value
            else:
                fields[name] = value
        return replace(self, model=model, run=run, fields=fields, norm=norm)

    @property
    def batch_size(self) -> int:
        """Sequences per run."""
        return int(self.run.get("batch_size") or 1)

    @property
    def seq_len(self) -> int:
        """Tokens per sequence."""
        return int(self.run.get("seq_len") or 128)


def predict_variant(variant: Variant) -> ModelTree:
    """The tree of a variant with predicted energy.

    Raises:
        UsageError: A name, field or size is unknown or impossible.
    """
    from irene.predict.api import predict

    if not variant.fields and variant.norm is None:
        return predict(variant.model, on=variant.on, **variant.run)
    from irene.analyse.config_fields import changed_config, read_config
    from irene.trace.limits import limits_from_environment

    run = dict(variant.run)
    limits = run.get("limits") or limits_from_environment()
    base = read_config(variant.model, run.pop("model_class", None), limits)
    config = changed_config(base, variant.fields)
    if variant.norm is None:
        return predict(config, on=variant.on, model_class=base.model_class, **run)
    changed = replace(base, config=config)
    return predict(_trace_with_norm(changed, variant.norm, run), on=variant.on)


def _trace_with_norm(base: ModelConfig, norm: str, run: dict[str, Any]) -> ModelTree:
    """Trace a model whose norms were replaced."""
    from irene.trace.models import Resolved, build
    from irene.trace.tracer import trace

    sizes = {k: v for k, v in run.items() if k in RUN_FIELDS and v is not None}
    resolved = Resolved(base.name, base.config, base.model_class, "a changed config")
    model = build(resolved, RunSpec(base.name, **sizes))
    if not _replace_norms(model, norm):
        raise UsageError(f"{base.name} has no norm that {norm} could stand in for")
    tree = trace(model, limits=run.get("limits"), **sizes)
    assert tree.spec is not None
    # Two norms under one name must not share a hash.
    digest = f"{resolved.digest[:12]}-{norm[:3]}"
    spec = replace(tree.spec, model=base.name, config_digest=digest)
    return tree._derive(tree.columns, spec=spec)


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


def variant_of_tree(tree: ModelTree, on: str) -> Variant:
    """The variant that a tree describes: the same model and run, to be predicted.

    Args:
        tree: A tree of a model that the catalogue or a config file has.
        on: Machine to predict for.

    Raises:
        UsageError: The tree says nothing of the model's config.
    """
    from irene.trace import catalogue

    spec = tree.spec
    if spec is None or not (catalogue.find(spec.model) or Path(spec.model).exists()):
        named = spec.model if spec else tree.root.op
        raise UsageError(
            f"the tree of {named} does not say how the model is built: give the name "
            "of a model or a config.json instead"
        )
    names = [name for name in RUN_FIELDS if name != "model_class"]
    return Variant(spec.model, {name: getattr(spec, name) for name in names}, on=on)
