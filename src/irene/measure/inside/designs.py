"""What is run to learn a machine, in an order that can end anywhere.

Two kinds of items. *Products*: two dozen matrix products each, spread over sizes,
layouts, types, and over how long ago their weights were last used. *Blocks*: a layer or
two of some architecture at sizes that nobody publishes, so that every op is seen among
its neighbours. Sizes are spread evenly on a logarithm by a sequence that fills space,
whatever its length. Always the kind that is furthest behind its share of the time comes
next: any beginning of the design is a design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

SHARES = {"products": 0.4, "blocks": 0.6}
"""Part of the time that each kind of item gets."""
PER_ITEM = 24
"""Products of one item."""
MOST_WEIGHT_MIB = 200.0
POOLS_MIB = (0.0, 0.0, 12.0, 48.0, 256.0, 256.0, 256.0, 256.0)
"""How much is read between two uses of a weight; 0: it stays in the caches."""
SEED = 16
BF16 = 0.2
"""Part of the items in bf16."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product with a weight; between two uses of this `pool_mib` MiB are read.

    `inputs_first` is how `Conv1D` stores it.
    """

    m: int
    n: int
    k: int
    inputs_first: bool
    bias: bool
    pool_mib: float
    dtype: str


@dataclass(frozen=True, slots=True)
class Block:
    """A small model that is run: one of the catalogue, or a type with its config."""

    family: str
    fields: Mapping[str, Any]
    run: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """One part of a design: what is multiplied, or what is run."""

    key: str
    kind: str
    products: tuple[Product, ...] = ()
    block: Block | None = None


def _point(index: int, dimensions: int) -> list[float]:
    """Numbers between 0 and 1 that fill space, one after the other (Roberts)."""
    root = 2.0
    for _ in range(40):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = (1.0 / root) ** np.arange(1, dimensions + 1)
    found: list[float] = ((0.5 + index * steps) % 1).tolist()
    return found


def _log(u: float, low: float, high: float) -> float:
    return float(low * (high / low) ** u)


def _rounded(value: float, step: int) -> int:
    return max(step, round(value / step) * step)


def _products(index: int, gflop_s: float) -> tuple[Product, ...]:
    found: list[Product] = []
    place = index * 4 * PER_ITEM
    most = 0.02 * gflop_s
    while len(found) < PER_ITEM:
        a, b, c, d, e, f, g, h = _point(place, 8)
        place += 1
        m = 1 if a < 0.125 else round(_log((a - 0.125) / 0.875, 1, 2048))
        step = 64 if d < 0.7 else 8
        n = _rounded(_log(b, 48, 40_000 if d > 0.93 else 8192), step)
        k = _rounded(_log(c, 48, 8192), step)
        dtype = "bf16" if f < BF16 else "fp32"
        weight_mib = n * k * (2 if dtype == "bf16" else 4) / 2**20
        if 2e-9 * m * n * k > most or weight_mib > MOST_WEIGHT_MIB:
            continue
        pool = POOLS_MIB[int(e * len(POOLS_MIB))]
        found.append(Product(m, n, k, g < 0.25, h < 0.6, pool, dtype))
    return tuple(found)


Sizes = Mapping[str, Any]
Maker = Callable[[Sizes], tuple[dict[str, Any], dict[str, Any]]]
LM = "AutoModelForCausalLM"


def _stack(fields: Mapping[str, Any], run: Mapping[str, Any] | None = None) -> Maker:
    """A maker of layers of one kind; words are names of sizes, or follow from them."""

    def make(s: Sizes) -> tuple[dict[str, Any], dict[str, Any]]:
        told = {**s, **_heads(s)}
        both = [{k: told.get(v, v) for k, v in d.items()} for d in (fields, run or {})]
        return both[0], both[1]

    return make


def _heads(s: Sizes) -> dict[str, Any]:
    """What follows from the sizes: heads, a width that they divide, and the like."""
    u = s["u"]
    dim = (16, 32, 48, 64, 64, 64, 80, 96, 128)[int(u[0] * 9)]
    heads = max(1, round(s["width"] / dim))
    width = heads * dim
    groups = max(g for g in (1, 2, 4, 8) if heads % g == 0 and g <= 1 + 8 * u[1])
    patch = (8, 14, 16, 16, 32)[int(u[1] * 5)]
    return {
        "heads": heads,
        "all heads": width,
        "of a head": dim,
        "fewer heads": heads // groups,
        "inner": _rounded(s["widen"] * width, 16),
        "gated": "relu" if u[1] < 0.5 else "gated-gelu",
        "frames": _rounded(_log(u[1], 64, 768), 4),
        "few": min(s["batch"], 4),
        "patch": patch,
        "image": patch * max(2, min(20, round(min(s["length"], 400) ** 0.5))),
        "experts": (4, 8, 8, 16)[int(u[2] * 4)],
        "chosen": 2 if u[3] < 0.7 else 4,
        "of an expert": _rounded(s["width"] * (0.5 + 1.5 * u[1]), 16),
    }


LAYERS = {
    "hidden_size": "all heads",
    "num_attention_heads": "heads",
    "num_hidden_layers": "layers",
    "intermediate_size": "inner",
}
ENCODER = {**LAYERS, "vocab_size": 1000, "max_position_embeddings": 1024}
DECODER = {
    **LAYERS, "num_key_value_heads": "fewer heads", "head_dim": "of a head",
    "vocab_size": "vocab", "max_position_embeddings": 4096,
}  # fmt: skip
EXPERTS = {
    **DECODER, "num_local_experts": "experts", "num_experts_per_tok": "chosen",
    "intermediate_size": "of an expert", "vocab_size": 1000,
}  # fmt: skip
GPT2 = {
    "n_embd": "all heads", "n_head": "heads", "n_layer": "layers",
    "vocab_size": "vocab", "n_inner": "inner", "n_positions": 2048,
}  # fmt: skip
BLOOM = {
    "hidden_size": "all heads", "n_head": "heads", "n_layer": "layers",
    "vocab_size": 1000,
}  # fmt: skip
T5 = {
    "d_model": "all heads", "num_heads": "heads", "d_kv": "of a head",
    "vocab_size": 1000, "num_layers": 1, "num_decoder_layers": 1, "d_ff": "inner",
    "feed_forward_proj": "gated",
}  # fmt: skip
WHISPER = {
    "d_model": "all heads", "encoder_layers": 1, "decoder_layers": 1,
    "vocab_size": 1000, "encoder_attention_heads": "heads",
    "decoder_attention_heads": "heads", "encoder_ffn_dim": "inner",
    "decoder_ffn_dim": "inner", "max_source_positions": "frames",
    "max_target_positions": 448, "pad_token_id": 1, "bos_token_id": 1,
    "eos_token_id": 1, "decoder_start_token_id": 1,
}  # fmt: skip
VIT = {**LAYERS, "image_size": "image", "patch_size": "patch"}
GENERATES = {"phase": "phase", "model_class": LM}


def _stages(s: Sizes, step: int) -> list[int]:
    first = _rounded(_log(s["u"][0], 16, 128), step)
    return [_rounded(first * 2**i * (1 + s["u"][1] / 2), step) for i in range(4)]


def _resnet(s: Sizes) -> tuple[dict[str, Any], dict[str, Any]]:
    bottleneck = s["u"][2] < 0.5
    sizes = [(4 if bottleneck else 1) * size for size in _stages(s, 8)]
    # The first layer of a stage skips places; most layers of a real one do not.
    longer = 1 + int(3 * (8 * s["u"][0] % 1))
    fields = {
        "embedding_size": _rounded(_log(s["u"][1], 16, 96), 8),
        "hidden_sizes": sizes,
        "depths": [1 + (stage == longer) for stage in range(4)],
        "layer_type": "bottleneck" if bottleneck else "basic",
    }
    return fields, {"batch_size": 1 + int(3.99 * s["u"][3])}


def _convnext(s: Sizes) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = {"hidden_sizes": _stages(s, 8), "depths": [1, 1, 1, 1], "image_size": 224}
    return fields, {"batch_size": 1 + int(2.99 * s["u"][3])}


def _mamba(s: Sizes) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = {
        "hidden_size": _rounded(s["width"], 16),
        "num_hidden_layers": 1,
        "vocab_size": 1000,
        "state_size": (8, 16, 16, 32)[int(s["u"][0] * 4)],
        "expand": 2,
    }
    return fields, {"seq_len": min(s["length"], 96), "batch_size": min(s["batch"], 8)}


FAMILIES: dict[str, tuple[float, Maker]] = {
    "bert": (3.0, _stack(ENCODER)),
    "llama": (4.0, _stack(DECODER, GENERATES)),
    "gpt2": (3.0, _stack(GPT2, GENERATES)),
    "t5": (1.5, _stack(T5, {"model_class": "AutoModel"})),
    "vit": (1.5, _stack(VIT, {"batch_size": "batch"})),
    "resnet": (1.5, _resnet),
    "whisper": (1.0, _stack(WHISPER, {"batch_size": "few", "seq_len": 32})),
    "mixtral": (1.5, _stack(EXPERTS, GENERATES)),
    "mamba": (1.0, _mamba),
    "bloom": (1.0, _stack(BLOOM, GENERATES)),
    "convnext": (0.7, _convnext),
    "deberta-v2": (0.5, _stack(ENCODER)),
}
"""Architectures by type: how often each comes, and how its config is made."""

EXAM = (
    Block(
        "distilbert",
        {"name": "distilbert-base-uncased"},
        {"batch_size": 2, "seq_len": 96},
    ),
    Block(
        "opt",
        {"name": "opt-125m"},
        {"batch_size": 1, "seq_len": 1, "context_len": 160, "phase": "decode"},
    ),
)
"""Whole models of families that are in no design: the exam of a machine."""


def _block_at(index: int, gflop_s: float) -> Block:
    """A block that takes 2 to 40 ms on a machine of that speed."""
    u = np.random.default_rng([SEED, index]).random(12).tolist()
    weights = [weight for weight, _ in FAMILIES.values()]
    edges = np.cumsum(weights) / sum(weights)
    turn = (0.5 + index * 0.61803398875) % 1.0
    family = [*FAMILIES][int(np.searchsorted(edges, turn))]
    length = round(_log(u[0], 8, 512))
    width = _log(u[1], 64, 1600)
    most = max(1.0, 0.04e9 * gflop_s / (24 * width**2 + 4 * width * length))
    tokens = _log(u[2], 12, max(16.0, min(4096.0, most)))
    length = max(1, min(length, round(tokens)))
    phase = ("forward", "prefill", "decode", "decode")[int(u[3] * 4)]
    sizes = {
        "width": width,
        "length": length,
        "batch": max(1, min(32, round(tokens / length))),
        "layers": 1 + (u[4] < 0.3),
        "widen": 1.5 + 3.0 * u[5],
        "phase": phase,
        "vocab": round(_log(u[6], 500, 50_000)),
        "u": u[8:],
    }
    if u[7] > 0.94:  # outputs that memory is fetched for anew, every time
        sizes |= {"width": 64.0, "length": 512, "batch": 8, "phase": "prefill"}
    fields, run = FAMILIES[family][1](sizes)
    run = {"batch_size": sizes["batch"], "seq_len": sizes["length"], **run}
    if run.get("phase") == "decode":
        run |= {"seq_len": 1, "context_len": max(8, length)}
        run["batch_size"] = max(1, min(32, run["batch_size"]))
    run["dtype"] = "bf16" if u[3] * 7 % 1 < BF16 and family != "deberta-v2" else "fp32"
    run["attention"] = "sdpa" if u[6] * 5 % 1 < 0.5 else "eager"
    if family in ("deberta-v2", "mamba", "resnet", "convnext", "bloom"):
        run["attention"] = "eager"
    return Block(family, fields, run)


def block_of(key: str, gflop_s: float) -> Block:
    """The block of an item by its key."""
    return _block_at(int(key.rpartition(" ")[2]), gflop_s)


def design(gflop_s: float) -> Iterator[Callable[[Mapping[str, float]], Item]]:
    """Items without end, as large as a speed asks; chosen by what was spent on each."""
    counts = dict.fromkeys(SHARES, 0)

    def chosen(spent_s: Mapping[str, float]) -> Item:
        total = sum(spent_s.values()) or 1.0
        kind = max(SHARES, key=lambda k: SHARES[k] - spent_s.get(k, 0.0) / total)
        index = counts[kind]
        counts[kind] += 1
        key = f"{kind} {index}"
        if kind == "products":
            return Item(key, kind, products=_products(index, gflop_s))
        return Item(key, kind, block=_block_at(index, gflop_s))

    while True:
        yield chosen
