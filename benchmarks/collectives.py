"""All-reduces that were measured, as the laws that ship.

    IRENE_DATA_DIR=DATA python benchmarks/collectives.py [--write FILE]

Of the engine's own kernel inside a graph and NCCL's, the faster is taken, as engines
do. Sizes of the tables are read as numbers of bf16: as bytes, the longest messages
would reach 40 % of what NVLink carries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from irene.predict.machines.gpu.collectives import SCHEMA, Exchange

TABLES = ("custom_allreduce", "nccl")
NUMBER_BYTES = 2.0


def measured(folder: Path) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Bytes that leave a GPU and seconds, by number of GPUs."""
    own, nccl = (pd.read_parquet(folder / f"{name}.parquet") for name in TABLES)
    own = own[own["backend"] == "vllm_graph"]
    nccl = nccl[(nccl["op_name"] == "all_reduce") & (nccl["nccl_dtype"] == "half")]
    both = pd.concat([own, nccl])
    found = {}
    for ranks, rows in both.groupby("num_gpus"):
        best = rows.groupby("message_size")["latency"].min()
        sent = best.index.to_numpy(float) * NUMBER_BYTES * 2 * (ranks - 1) / ranks
        found[int(ranks)] = sent, best.to_numpy(float) * 1e-3
    return found


def fitted(sent: np.ndarray, seconds: np.ndarray) -> Exchange:
    """The law of one number of GPUs."""
    start = np.log([seconds.min(), sent[-1] / seconds[-1], 1.0])

    def errors(logs: np.ndarray) -> np.ndarray:
        return np.log(Exchange(*np.exp(logs), 0.0).seconds(sent) / seconds)

    room = np.array([1.0, 1.5, 1.0])
    bounds = (start - room, start + room)
    best = least_squares(errors, start, bounds=bounds, loss="soft_l1", f_scale=0.1)
    width = float(np.quantile(np.abs(errors(best.x)), 0.9))
    numbers = [float(f"{value:.4g}") for value in (*np.exp(best.x), width)]
    return Exchange(*numbers)


def document(home: Path) -> dict[str, Any]:
    """What ships."""
    laws, digests = {}, {}
    for folder in sorted(each for each in home.iterdir() if each.is_dir()):
        laws[folder.name] = {
            str(ranks): fitted(*rows).to_dict()
            for ranks, rows in measured(folder).items()
        }
        digests[folder.name] = {
            name: hashlib.sha256((folder / f"{name}.parquet").read_bytes()).hexdigest()
            for name in TABLES
        }
    source = "ai-dynamo/aiconfigurator, systems/data, Apache-2.0"
    return {
        "schema": SCHEMA,
        "data": {"from": source, "sha256": digests},
        "all_reduces": laws,
    }


def main() -> int:
    """Fit, print or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", metavar="FILE", help="write the laws that ship")
    options = parser.parse_args()
    home = os.environ.get("IRENE_DATA_DIR")
    data = Path(home or "") / "gpu-ops"
    if not home or not data.is_dir():
        print("needs IRENE_DATA_DIR with gpu-ops", file=sys.stderr)
        return 0
    found = document(data)
    if options.write:
        text = json.dumps(found, indent=1) + "\n"
        Path(options.write).write_text(text, encoding="utf-8")
        return 0
    for gpu, laws in found["all_reduces"].items():
        for ranks, law in laws.items():
            print(f"{gpu:14} {ranks:>2} GPUs", *(f"{k} {v:g}" for k, v in law.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
