"""FLOPs against torch's own counter, and against arithmetic where that is wrong."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import irene
from irene.spec import RunSpec
from irene.trace.inputs import make_inputs
from irene.trace.limits import DEFAULT_LIMITS
from irene.trace.models import Resolved, build, resolve
from irene.trace.values import run_with_values
from irene.tree import ModelTree

# One of every architecture family that torch's counter can run on meta tensors.
NAMES = (
    "albert-base-v2",
    "bart-base",
    "beit-base-patch16-224",
    "bert-base-uncased",
    "bloom-560m",
    "clip-vit-base-patch32",
    "dinov2-small",
    "distilbert-base-uncased",
    "distilgpt2",
    "electra-small-discriminator",
    "falcon-7b",
    "gemma-2-2b",
    "gpt-neo-125m",
    "gpt2",
    "llama-3.2-1b",
    "mistral-7b-v0.3",
    "mobilebert-uncased",
    "mpnet-base",
    "olmo-2-1b",
    "openai-gpt",
    "opt-125m",
    "phi-2",
    "pythia-70m",
    "qwen2.5-0.5b",
    "qwen3-0.6b",
    "resnet-18",
    "roberta-base",
    "swin-tiny-patch4-window7-224",
    "t5-small",
    "vit-base-patch16-224",
    "whisper-tiny",
)


LAYERS = 3
WHOLE = ("gpt-neo-125m", "swin-tiny-patch4-window7-224")
"""Models whose layers are listed one by one."""


class WithContent(TorchDispatchMode):
    """Lets torch's counter run models that look at their token ids."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run_with_values(func, args, kwargs or {})


def shallow(name: str) -> Resolved:
    """A model with at most three layers: the others are like them."""
    resolved = resolve(name, DEFAULT_LIMITS)
    config = resolved.config
    if getattr(config, "num_hidden_layers", 0) > LAYERS and name not in WHOLE:
        config.num_hidden_layers = LAYERS
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:LAYERS]
    return resolved


def our_count(resolved: Resolved, attention: str) -> int:
    tree = irene.trace(
        resolved.config,
        batch_size=2,
        seq_len=24,
        attention=attention,
        model_class=resolved.auto_class,
    )
    return matrix_flops(tree)


def torch_count(resolved: Resolved, attention: str) -> int:
    spec = RunSpec(resolved.name, batch_size=2, seq_len=24, attention=attention)
    model = build(resolved, spec)
    inputs = make_inputs(model, spec)
    if "use_cache" in inspect.signature(model.forward).parameters:
        inputs["use_cache"] = False
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), WithContent(), counter:
        model(**inputs)
    return counter.get_total_flops()


def matrix_flops(tree: ModelTree) -> int:
    """FLOPs of the ops that torch's counter knows."""
    known = ("mm", "addmm", "bmm", "baddbmm", "convolution")
    ops = {f"aten.{op}" for op in known} | {"scaled_dot_product_attention"}
    return sum(node.flops for node in tree.nodes("math") if node.op in ops)


@pytest.mark.parametrize("name", NAMES)
def test_equal_to_the_counter_of_torch(name):
    model = shallow(name)
    assert our_count(model, "eager") == torch_count(model, "eager") > 0


@pytest.mark.parametrize("name", ["bert-base-uncased", "gpt2", "llama-3.2-1b"])
def test_equal_to_the_counter_of_torch_with_sdpa(name):
    model = shallow(name)
    assert our_count(model, "sdpa") == torch_count(model, "sdpa") > 0


def test_bert_base_is_178_787_gflop():
    tree = irene.trace("bert-base-uncased", batch_size=8, seq_len=128)
    assert matrix_flops(tree) == 178_787_450_880


class Attention(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def test_attention_on_the_cpu_is_counted_where_torch_counts_none():
    qkv = tuple(torch.zeros(2, 3, 16, 8) for _ in range(3))
    counter = FlopCounterMode(display=False)
    with counter:
        Attention()(*qkv)
    tree = irene.trace(Attention(), qkv, device="cpu")
    assert counter.get_total_flops() == 0
    assert tree.total().flops == 4 * 2 * 3 * 16 * 16 * 8


def test_lstm_on_the_cpu_is_counted_where_torch_counts_none():
    lstm = nn.LSTM(8, 16, num_layers=2, bidirectional=True)
    x = torch.zeros(5, 4, 8)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        lstm(x)
    assert counter.get_total_flops() == 0
    # two directions of 64 gates: 8 inputs, then the 32 outputs of the layer below
    weights = 2 * 64 * (8 + 16) + 2 * 64 * (32 + 16)
    tree = irene.trace(nn.Sequential(lstm), x, device="cpu")
    assert tree.total().flops == 2 * 5 * 4 * weights


def test_grouped_products_are_counted_where_torch_counts_none():
    class Experts(nn.Module):
        def forward(self, rows, weights, ends):
            return F.grouped_mm(rows, weights, offs=ends)

    rows = torch.zeros(8, 16, dtype=torch.bfloat16)
    weights = torch.zeros(2, 16, 32, dtype=torch.bfloat16)
    inputs = rows, weights, torch.tensor([3, 8], dtype=torch.int32)
    counter = FlopCounterMode(display=False)
    with counter:
        Experts()(*inputs)
    assert counter.get_total_flops() == 0
    for device in ("cpu", "meta"):
        tree = irene.trace(Experts(), inputs, device=device)
        assert tree.total().flops == 2 * 8 * 16 * 32
