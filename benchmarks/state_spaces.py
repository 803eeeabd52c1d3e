"""Kernels of Mamba-2 on B200 beside what their bytes say, a model's layout left out.

For each kernel, of rows that a step of a serving may have (up to 8,192 tokens; prompts
of a chunk or more): how much longer it takes than bytes at the usual bandwidth
(`LONGER`), and the median and 90th percentile of the error with and without that, where
the factor is of the other layouts.

    IRENE_DATA_DIR=DATA python -m benchmarks.state_spaces
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from irene.predict.machines.finding import find_gpu
from irene.predict.machines.gpu.kernel_ops import Memory
from irene.predict.machines.gpu.node_ops import LONGER
from irene.trace.serving.layers import CHUNK

OPS = {
    "causal_conv1d_update": "conv_update",
    "causal_conv1d_fn": "causal_conv",
    "mamba_chunk_scan_combined": "chunk_scan",
}
MOST_TOKENS = 8192


def moved(row: dict[str, int], op: str) -> Memory:
    """Bytes of a measured kernel, as `LayerWriter` counts them."""
    inner = row["nheads"] * row["head_dim"]
    channels = inner + 2 * row["n_groups"] * row["d_state"]
    bytes_each = 2.0 * row["batch_size"] * row["seq_len"]
    if op == "chunk_scan":
        kept = 4 * inner * row["d_state"] // CHUNK
        read = kept + channels + row["nheads"]
        return Memory(bytes_each * read, bytes_each * (kept + inner))
    seen = channels * (row["d_conv"] if op == "conv_update" else 1)
    return Memory(bytes_each * seen, bytes_each * seen)


def factor(said_s: np.ndarray, time_s: np.ndarray) -> float:
    """The factor with the least relative squares."""
    share = said_s / time_s
    return float(share.sum() / (share @ share))


def main() -> int:
    """Print a line for every kernel."""
    home = os.environ.get("IRENE_DATA_DIR")
    path = Path(home or "") / "gpu-ops" / "b200" / "mamba2.parquet"
    if not home or not path.is_file():
        print("needs IRENE_DATA_DIR with gpu-ops/b200/mamba2.parquet", file=sys.stderr)
        return 0
    rows = pq.read_table(path).to_pylist()
    for kernel, op in OPS.items():
        some = [
            row
            for row in rows
            if row["kernel_source"] == kernel
            and row["batch_size"] * row["seq_len"] <= MOST_TOKENS
            and (op == "conv_update" or row["seq_len"] >= CHUNK)
        ]
        said_s = find_gpu("b200").device.costs([moved(row, op) for row in some]).time_s
        time_s = np.array([row["latency"] / 1e3 for row in some])
        names = np.array([row["model_name"] for row in some])
        left_out_s = said_s.copy()
        for name in set(names):
            out = names == name
            left_out_s[out] *= factor(said_s[~out], time_s[~out])
        bare, held = (
            np.quantile(np.abs(np.expm1(np.log(s / time_s))), (0.5, 0.9))
            for s in (said_s, left_out_s)
        )
        print(
            f"{op:12} {len(some):4} rows, {len(set(names))} layouts: "
            f"{factor(said_s, time_s):.2f} times as long (shipped {LONGER[op]:.2f}); "
            f"error {100 * held[0]:.0f} / {100 * held[1]:.0f} %, without "
            f"{100 * bare[0]:.0f} / {100 * bare[1]:.0f} %"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
