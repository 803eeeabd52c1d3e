"""Traces of models as they were run when they were measured.

Runs of this program are traced as `irene measure` traces them. The runs of 2021 had
eager attention, fp32, an attention mask for encoders, and for decoders with a cache the
copies that keeping it took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from irene.dataset.table import TreeKey
from irene.errors import UsageError
from irene.predict.machines.specs.work import MIB, STREAMS, TreeWork, work_of
from irene.spec import Attention, DType, RunSpec
from irene.tree import ModelTree

__all__ = ["OwnRun", "trace_as_in_2021", "trace_own"]


@dataclass(frozen=True, slots=True)
class OwnRun:
    """How this program ran the models of a table.

    Attributes:
        dtype: Floating-point type.
        attention: Attention implementation.
        device: `cpu`, `cuda`, …: a CPU runs one op after the other.
    """

    dtype: DType = "fp32"
    attention: Attention = "eager"
    device: str = "cpu"

    @property
    def is_serial(self) -> bool:
        """Whether ops ran one after the other, with nothing that overlaps."""
        return self.device == "cpu"


def trace_own(
    key: TreeKey, config: str | None, run: OwnRun
) -> tuple[ModelTree, TreeWork]:
    """Trace what `irene measure` ran.

    Args:
        key: Model and size.
        config: The model's config, if the catalogue does not have it.
        run: How it was run.

    Raises:
        UsageError: The model is not known here.
    """
    from irene.trace.tracer import trace

    tree = trace(
        _local(key, config),
        batch_size=key.batch_size,
        seq_len=key.seq_len,
        dtype=run.dtype,
        attention=run.attention,
    )
    return tree, work_of(tree)


def _local(key: TreeKey, config: str | None) -> str:
    """Catalogue name or file of a model; nothing is asked of the network."""
    from irene.trace.sources import locate

    source = config or key.model
    if locate(source).origin == "Hugging Face hub":
        raise UsageError(f"{key.model} is not in the catalogue")
    return source


def trace_as_in_2021(key: TreeKey, config: str | None) -> tuple[ModelTree, TreeWork]:
    """Trace what the profiler of 2021 ran.

    Args:
        key: Model and size.
        config: The model's config, if the catalogue does not have it.

    Raises:
        UsageError: The model is not known here.
    """
    from irene.trace.inputs import make_inputs
    from irene.trace.limits import DEFAULT_LIMITS
    from irene.trace.models import build, resolve
    from irene.trace.tracer import trace

    spec = RunSpec(key.model, batch_size=key.batch_size, seq_len=key.seq_len)
    model = build(resolve(_local(key, config), DEFAULT_LIMITS, "AutoModel"), spec)
    inputs: dict[str, Any] = dict(make_inputs(model, spec))
    encoder = _is_encoder(model)
    if encoder:
        inputs["attention_mask"] = _mask((key.batch_size, 1, 1, key.seq_len))
    tree = trace(model, inputs)
    work = work_of(tree)
    if not encoder and _keeps_cache(model):
        work = _with_cache_copies(tree, work)
    return tree, work


def _mask(shape: tuple[int, ...]) -> Any:
    import torch

    return torch.empty(shape, device="meta")


def _is_encoder(model: Any) -> bool:
    """Whether the model reads in both directions, as models with masked words do."""
    from transformers.models.auto import modeling_auto

    return model.config.model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def _keeps_cache(model: Any) -> bool:
    """Whether the model can keep keys and values of the tokens it has read."""
    import inspect

    return "past_key_values" in inspect.signature(model.forward).parameters


def _with_cache_copies(tree: ModelTree, work: TreeWork) -> TreeWork:
    """Keys and values stacked into a cache: each is read and written once more."""
    streams = np.zeros_like(work.stream_mib)
    calls = np.zeros_like(work.calls)
    for node in tree.nodes("module"):
        products = [c for c in node.children if c.op == "matmul"]
        if len(products) != 2:
            continue
        keys, values = products[0].inputs[-1], products[1].inputs[-1]
        moved = 2 * 4 * (np.prod(keys) + np.prod(values)) / MIB
        streams[node.row, STREAMS.index("copy")] += float(moved)
        calls[node.row, 0] += 2
    columns = tree.columns
    return TreeWork(
        work.kernels,
        work.counts,
        work.stream_mib + columns.inclusive(streams),
        work.calls + columns.inclusive(calls),
    )
