"""What is counted of ops from their shapes: FLOPs, bytes, least time, and features.

Weights and the cache are read once, activations are bf16. Attention is causal: a token
sees what came before it, at most `window` of it.

Features are what the residual of the time sees: sizes, balance, tiles and waves, all
pure numbers or logarithms to base 2. Tiles are counted as GPUs run them: a product is
cut into blocks, and the blocks go in waves over the multiprocessors; the last wave is
often not full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from irene.arrays import Floats
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_ops import COLUMNS, OpColumns
from irene.trace.serving.writer import WEIGHT_BYTES

Columns = Mapping[str, Floats]

ACTIVATION_BYTES = 2.0
COLLECTIVES = ("all_reduce", "gather_scatter")
"""Kinds of ops in which GPUs exchange results."""
BLOCK = 64.0
"""Rows of the blocks that tokens of an expert are multiplied in."""
PASSES: Mapping[str, tuple[float, float, float, float]] = {
    "cutlass": (1.0, 1.0, 0.0, 0.0),
    "trtllm": (1.0, 0.0, 0.0, 1.0),
    "": (1.0, 2.0, 1.0, 1.0),
}
"""How often activations of experts pass the memory, by make of the kernels.

Between the matrices and at their ends, of tokens that are sent to experts of this GPU;
then both of all tokens, whichever GPU has their experts. CUTLASS gathers the rows of
its own experts first. Triton and Marlin have a row for each expert of each token, and
a kernel for what is between the matrices and another for the sum that go over all of
them. Of TensorRT-LLM only the sum does. Which fits a make is told by tables of its
kernels other than mxfp4, one layout predicted from another.
"""


@dataclass(frozen=True, slots=True)
class Work:
    """What ops make a GPU do.

    Attributes:
        flops: A product and a sum count as two.
        bytes: To and from memory; for a collective, over the link.
    """

    flops: Floats
    bytes: Floats


def work_of(ops: OpColumns) -> Work:
    """FLOPs and bytes of ops of one kind."""
    return _WORK[ops.kind](ops.columns, WEIGHT_BYTES.get(ops.dtype, ACTIVATION_BYTES))


def seconds_of(ops: OpColumns, work: Work, sheet: Datasheet) -> tuple[Floats, Floats]:
    """Least time of the arithmetic and of the memory or link, s."""
    # Attention multiplies in bf16 whatever the cache is stored in.
    in_bf16 = ops.kind not in ("gemm", "moe")
    peak = sheet.peak("bf16" if in_bf16 else ops.dtype)
    rate = sheet.link_bytes_s if ops.kind in COLLECTIVES else sheet.hbm_bytes_s
    if rate == 0:
        rate = sheet.hbm_bytes_s / 100
    return work.flops / peak, work.bytes / rate


def kernel_seconds(
    ops: OpColumns, sheet: Datasheet, make: str, block: float
) -> tuple[Floats, Floats]:
    """The same of experts as their kernels move and multiply them.

    However many tokens an expert has, the last of its blocks is half empty on average.

    Makes that are not in `PASSES` are as "". Rows of a block are 0 where what is empty
    is not counted.
    """
    work = work_of(ops)
    if ops.kind == "moe":
        columns, width = ops.columns, WEIGHT_BYTES.get(ops.dtype, ACTIVATION_BYTES)
        work = _moe(columns, width, PASSES.get(make, PASSES[""]))
        if block:
            empty = block / 2 / tokens_of_expert(columns)
            work = Work(work.flops * (1.0 + empty), work.bytes)
    return seconds_of(ops, work, sheet)


def tokens_of_expert(columns: Columns) -> Floats:
    """Tokens of each expert that any is sent to, on average."""
    sent = columns["tokens"] * columns["topk"] / columns["expert_parallel"]
    return sent / experts_touched(columns)


def experts_touched(columns: Columns) -> Floats:
    """Experts of this GPU that at least one token is sent to.

    Balanced routing spreads tokens as evenly as they go; otherwise every token draws
    `topk` of all experts.
    """
    here = np.maximum(columns["experts"] / columns["expert_parallel"], 1.0)
    share = np.minimum(columns["topk"] / columns["experts"], 1.0)
    spread = columns["tokens"] * share * here
    even = np.minimum(np.maximum(spread, np.minimum(columns["topk"], here)), here)
    drawn = here * -np.expm1(columns["tokens"] * np.log1p(-np.minimum(share, 0.999999)))
    return np.where(
        columns["skew"] == 0.0, even, np.maximum(drawn, np.minimum(1.0, here))
    )


def ring_bytes(columns: Columns) -> Floats:
    """Bytes that leave each GPU in a ring: 2 (r − 1) / r of the message.

    Be it an all-reduce, or an all-gather and a reduce-scatter.
    """
    ranks = np.maximum(columns["ranks"], 1.0)
    return columns["bytes"] * 2.0 * (ranks - 1.0) / ranks


def _gemm(columns: Columns, width: float) -> Work:
    m, n, k = columns["m"], columns["n"], columns["k"]
    return Work(2.0 * m * n * k, n * k * width + ACTIVATION_BYTES * m * (n + k))


def pairs_seen(columns: Columns) -> Floats:
    """Pairs of a new token and one it sees, in each sequence of a context attention."""
    new, past = columns["new"], columns["past"]
    window = np.where(columns["window"] > 0, columns["window"], past + new)
    # Tokens before the window is full see all that came before them.
    growing = np.clip(window - past, 0.0, new)
    return growing * (past + (growing + 1.0) / 2.0) + (new - growing) * window


def _context_attention(columns: Columns, width: float) -> Work:
    batch, new, past = columns["batch"], columns["new"], columns["past"]
    kept = np.where(columns["window"] > 0, np.minimum(past, columns["window"]), past)
    queries = ACTIVATION_BYTES * 2.0 * new * columns["heads"]
    cache = 2.0 * width * (kept + new) * columns["kv_heads"]
    numbers = batch * columns["head_dim"]
    return Work(
        4.0 * numbers * columns["heads"] * pairs_seen(columns),
        numbers * (queries + cache),
    )


def _generation_attention(columns: Columns, width: float) -> Work:
    window = np.where(columns["window"] > 0, columns["window"], np.inf)
    seen = np.minimum(columns["context"], window)
    numbers = columns["batch"] * columns["head_dim"]
    cache = 2.0 * width * seen * columns["kv_heads"]
    queries = ACTIVATION_BYTES * 2.0 * columns["heads"]
    return Work(4.0 * numbers * columns["heads"] * seen, numbers * (queries + cache))


def _latent_attention(columns: Columns, width: float) -> Work:
    rank, kept = columns["rank"], columns["rank"] + columns["rope"]
    batch, heads, seen = columns["batch"], columns["heads"], columns["context"]
    queries = ACTIVATION_BYTES * heads * (kept + rank)
    return Work(
        2.0 * batch * heads * seen * (kept + rank),
        batch * (seen * kept * width + queries),
    )


def _moe(
    columns: Columns,
    width: float,
    passes: tuple[float, float, float, float] = PASSES["cutlass"],
) -> Work:
    hidden = columns["hidden"]
    inter = columns["inter"] / columns["tensor_parallel"]
    matrices = 2.0 + columns["gated"]
    every = columns["tokens"] * columns["topk"]
    sent = every / columns["expert_parallel"]
    weights = experts_touched(columns) * matrices * hidden * inter * width
    between, ends, between_all, ends_all = passes
    # In, between the matrices (written and read), out.
    moved = columns["tokens"] * hidden
    moved = moved + sent * (between * matrices * inter + ends * hidden)
    moved = moved + every * (between_all * matrices * inter + ends_all * hidden)
    return Work(
        2.0 * matrices * sent * hidden * inter, weights + ACTIVATION_BYTES * moved
    )


def _memory(columns: Columns, width: float) -> Work:
    return Work(columns["flops"], columns["bytes_read"] + columns["bytes_written"])


def _collective(columns: Columns, width: float) -> Work:
    return Work(columns["bytes"] / ACTIVATION_BYTES, ring_bytes(columns))


_WORK: Mapping[str, Callable[[Columns, float], Work]] = {
    "gemm": _gemm,
    "context_attention": _context_attention,
    "latent_prompt": _context_attention,
    "generation_attention": _generation_attention,
    "latent_attention": _latent_attention,
    "moe": _moe,
    "memory": _memory,
    **dict.fromkeys(COLLECTIVES, _collective),
}


TILES = ((128, 128), (64, 128), (128, 256), (256, 128))
"""Rows and columns of the blocks a product may be cut into."""


def features_of(
    ops: OpColumns, seconds: tuple[Floats, Floats, Floats], multiprocessors: float
) -> Floats:
    """Features of ops of one kind, ops × `FEATURES` of the kind.

    Times are of the arithmetic, of the memory, and of the smooth roofline.
    """
    found = _features(ops.kind, ops.columns, seconds, multiprocessors)
    return np.column_stack(list(found.values()))


def _features(
    kind: str,
    columns: Columns,
    seconds: tuple[Floats, Floats, Floats],
    multiprocessors: float,
) -> Columns:
    compute_s, memory_s, base_s = seconds
    found = {"base": _log(base_s)}
    if kind in DECODING:
        found |= {"compute": _log(compute_s), "memory": _log(memory_s)}
    else:
        found["balance"] = _log(compute_s / memory_s)
    return {**found, **_FEATURES[kind](columns, multiprocessors)}


def _log(values: Floats) -> Floats:
    return np.log2(np.maximum(values, 1e-12))


def _waves(blocks: Floats, multiprocessors: float, of: str = "") -> Columns:
    """Waves of blocks, and how full they are on average."""
    waves = np.maximum(blocks, 1e-12) / multiprocessors
    return {f"waves{of}": _log(waves), f"full{of}": waves / np.ceil(waves)}


def _gemm_features(columns: Columns, processors: float) -> Columns:
    m, n, k = columns["m"], columns["n"], columns["k"]
    sizes = {"m": m, "n": n, "k": k, "nk": n * k, "mn": m * n}
    found = {name: _log(size) for name, size in sizes.items()}
    for rows, wide in TILES:
        blocks = np.ceil(m / rows) * np.ceil(n / wide)
        found |= _waves(blocks, processors, f"_{rows}x{wide}")
    return found | {
        f"rows_of_{rows}": m / (np.ceil(m / rows) * rows) for rows in (64, 16)
    }


def _heads(columns: Columns) -> Columns:
    heads, kv_heads = columns["heads"], columns["kv_heads"]
    return {
        "heads": _log(heads),
        "kv_heads": _log(kv_heads),
        "group": _log(heads / kv_heads),
        "head_dim": columns["head_dim"],
    }


def _context_features(columns: Columns, processors: float) -> Columns:
    batch, new, heads = columns["batch"], columns["new"], columns["heads"]
    return {
        "batch": _log(batch),
        "new": _log(new),
        **_heads(columns),
        "seen": _log(pairs_seen(columns) / (new * (new + 1.0) / 2.0)),
        **_waves(batch * heads * np.ceil(new / 128), processors),
        "sequences": _log(batch * heads),
    }


def _generation_features(columns: Columns, processors: float) -> Columns:
    window = np.where(columns["window"] > 0, columns["window"], np.inf)
    return {
        "batch": _log(columns["batch"]),
        "seen": _log(np.minimum(columns["context"], window)),
        **_heads(columns),
        **_waves(columns["batch"] * columns["kv_heads"], processors),
        "context": _log(columns["context"]),
        "is_windowed": (columns["window"] > 0).astype(np.float64),
    }


def _latent_features(columns: Columns, processors: float) -> Columns:
    batch, heads = columns["batch"], columns["heads"]
    return {
        "batch": _log(batch),
        "seen": _log(columns["context"]),
        "heads": _log(heads),
        **_waves(batch * np.ceil(heads / 64), processors),
    }


def _moe_features(columns: Columns, processors: float) -> Columns:
    inter = columns["inter"] / columns["tensor_parallel"]
    touched, per_expert = experts_touched(columns), tokens_of_expert(columns)
    blocks = touched * np.ceil(per_expert / BLOCK)
    up = _waves(
        blocks * np.ceil((1.0 + columns["gated"]) * inter / 128), processors, "_up"
    )
    down = _waves(blocks * np.ceil(columns["hidden"] / 128), processors, "_down")
    return {
        "tokens": _log(columns["tokens"]),
        "per_expert": _log(per_expert),
        "experts_here": _log(columns["experts"] / columns["expert_parallel"]),
        "touched": _log(touched),
        "hidden": _log(columns["hidden"]),
        "inter": _log(inter),
        "topk": columns["topk"],
        "waves_up": up["waves_up"],
        "waves_down": down["waves_down"],
        "full_up": up["full_up"],
        "skew": columns["skew"],
        "expert_parallel": _log(columns["expert_parallel"]),
        "sent": _log(columns["tokens"] * columns["topk"]),
        "experts": _log(columns["experts"]),
    }


DECODING = ("generation_attention", "latent_attention")
"""Kinds that show the time of arithmetic and of memory, others how they balance."""
_FEATURES: Mapping[str, Callable[[Columns, float], Columns]] = {
    "gemm": _gemm_features,
    "context_attention": _context_features,
    "latent_prompt": _context_features,
    "generation_attention": _generation_features,
    "latent_attention": _latent_features,
    "moe": _moe_features,
}
_ONE = np.ones(1)
FEATURES: Mapping[str, tuple[str, ...]] = {
    kind: tuple(
        _features(kind, dict.fromkeys(COLUMNS[kind], _ONE), (_ONE, _ONE, _ONE), 1.0)
    )
    for kind in _FEATURES
}
"""Names of the features of each kind, in order, as files of models have them."""
