"""What the residual of the time sees of an op: sizes, balance, tiles and waves.

All are pure numbers or logarithms to base 2. Tiles are counted as GPUs run them: a
product is cut into blocks, and the blocks go in waves over the multiprocessors; the
last wave is often not full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from irene.predict.machines.gpu.roofline import experts_touched, pairs_seen
from irene.predict.machines.gpu.shapes import Floats, OpColumns

__all__ = ["FEATURES", "features_of"]

Columns = Mapping[str, Floats]

TILES = ((128, 128), (64, 128), (128, 256), (256, 128))
"""Rows and columns of the blocks a product may be cut into."""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "gemm": (
        "base", "balance", "m", "n", "k", "nk", "mn",
        *(f"{what}_{rows}x{columns}"
          for rows, columns in TILES for what in ("waves", "full")),
        "rows_of_64", "rows_of_16",
    ),
    "context_attention": (
        "base", "balance", "batch", "new", "heads", "kv_heads", "group", "head_dim",
        "seen", "waves", "full", "sequences",
    ),
    "generation_attention": (
        "base", "compute", "memory", "batch", "seen", "heads", "kv_heads", "group",
        "head_dim", "waves", "full", "context", "is_windowed",
    ),
    "moe": (
        "base", "balance", "tokens", "per_expert", "experts_here", "touched",
        "hidden", "inter", "topk", "waves_up", "waves_down", "full_up", "skew",
        "expert_parallel", "sent", "experts",
    ),
}  # fmt: skip
"""Names of the features of each kind, in order."""


def features_of(
    ops: OpColumns, seconds: tuple[Floats, Floats, Floats], multiprocessors: float
) -> Floats:
    """Features of ops of one kind, ops × `FEATURES` of the kind.

    Args:
        ops: Of a kind that `FEATURES` has.
        seconds: Time of the arithmetic, of the memory, and of the smooth roofline.
        multiprocessors: Of the GPU.
    """
    columns = _FEATURES[ops.kind](ops.columns, seconds, multiprocessors)
    return np.column_stack(columns)


def _log(values: Floats) -> Floats:
    logs: Floats = np.log2(np.maximum(values, 1e-12))
    return logs


def _waves(blocks: Floats, multiprocessors: float) -> tuple[Floats, Floats]:
    """Waves of blocks, and how full they are on average."""
    waves = np.maximum(blocks, 1e-12) / multiprocessors
    return _log(waves), waves / np.ceil(waves)


def _gemm(
    columns: Columns, seconds: tuple[Floats, Floats, Floats], processors: float
) -> list[Floats]:
    compute_s, memory_s, base_s = seconds
    m, n, k = columns["m"], columns["n"], columns["k"]
    found = [_log(base_s), _log(compute_s / memory_s)]
    found += [_log(m), _log(n), _log(k), _log(n * k), _log(m * n)]
    for rows, wide in TILES:
        found += _waves(np.ceil(m / rows) * np.ceil(n / wide), processors)
    found += [m / (np.ceil(m / 64) * 64), m / (np.ceil(m / 16) * 16)]
    return found


def _context_attention(
    columns: Columns, seconds: tuple[Floats, Floats, Floats], processors: float
) -> list[Floats]:
    compute_s, memory_s, base_s = seconds
    batch, new, heads = columns["batch"], columns["new"], columns["heads"]
    return [
        _log(base_s),
        _log(compute_s / memory_s),
        _log(batch),
        _log(new),
        _log(heads),
        _log(columns["kv_heads"]),
        _log(heads / columns["kv_heads"]),
        columns["head_dim"],
        _log(pairs_seen(columns) / (new * (new + 1.0) / 2.0)),
        *_waves(batch * heads * np.ceil(new / 128), processors),
        _log(batch * heads),
    ]


def _generation_attention(
    columns: Columns, seconds: tuple[Floats, Floats, Floats], processors: float
) -> list[Floats]:
    compute_s, memory_s, base_s = seconds
    window = np.where(columns["window"] > 0, columns["window"], np.inf)
    return [
        _log(base_s),
        _log(compute_s),
        _log(memory_s),
        _log(columns["batch"]),
        _log(np.minimum(columns["context"], window)),
        _log(columns["heads"]),
        _log(columns["kv_heads"]),
        _log(columns["heads"] / columns["kv_heads"]),
        columns["head_dim"],
        *_waves(columns["batch"] * columns["kv_heads"], processors),
        _log(columns["context"]),
        (columns["window"] > 0).astype(np.float64),
    ]


def _moe(
    columns: Columns, seconds: tuple[Floats, Floats, Floats], processors: float
) -> list[Floats]:
    compute_s, memory_s, base_s = seconds
    inter = columns["inter"] / columns["tensor_parallel"]
    touched = experts_touched(columns)
    sent = columns["tokens"] * columns["topk"]
    per_expert = sent / columns["expert_parallel"] / touched
    blocks = touched * np.ceil(per_expert / 64)
    up = blocks * np.ceil((1.0 + columns["gated"]) * inter / 128)
    waves_up, full_up = _waves(up, processors)
    waves_down, _ = _waves(blocks * np.ceil(columns["hidden"] / 128), processors)
    return [
        _log(base_s),
        _log(compute_s / memory_s),
        _log(columns["tokens"]),
        _log(per_expert),
        _log(columns["experts"] / columns["expert_parallel"]),
        _log(touched),
        _log(columns["hidden"]),
        _log(inter),
        columns["topk"],
        waves_up,
        waves_down,
        full_up,
        columns["skew"],
        _log(columns["expert_parallel"]),
        _log(sent),
        _log(columns["experts"]),
    ]


_FEATURES: Mapping[
    str,
    Callable[[Columns, tuple[Floats, Floats, Floats], float], list[Floats]],
] = {
    "gemm": _gemm,
    "context_attention": _context_attention,
    "generation_attention": _generation_attention,
    "moe": _moe,
}
