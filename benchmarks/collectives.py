"""Collectives that were measured, as the laws that ship.

    IRENE_DATA_DIR=DATA python benchmarks/collectives.py [--write FILE]

Of the engine's own kernel inside a graph and NCCL's, the faster is taken, as engines
do; an exchange between data-parallel groups is an all-gather and a reduce-scatter of
NCCL, as vLLM's default is. Sizes of the tables are read as numbers of bf16: as bytes,
the longest messages would reach 40 % of what NVLink carries.
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


Table = dict[int, tuple[np.ndarray, np.ndarray]]


def measured(folder: Path) -> dict[str, Table]:
    """Bytes that leave a GPU and seconds, by number of GPUs and kind of collective."""
    own, nccl = (pd.read_parquet(folder / f"{name}.parquet") for name in TABLES)
    own = own[own["backend"] == "vllm_graph"]
    nccl = nccl[nccl["nccl_dtype"] == "half"]
    keys = ["num_gpus", "message_size"]
    reduced = pd.concat([own, nccl[nccl["op_name"] == "all_reduce"]])
    both = nccl[nccl["op_name"].isin(["all_gather", "reduce_scatter"])]
    return {
        "all_reduce": _by_ranks(reduced.groupby(keys)["latency"].min()),
        "gather_scatter": _by_ranks(both.groupby(keys)["latency"].sum()),
    }


def _by_ranks(latency: pd.Series) -> Table:
    found = {}
    for ranks, rows in latency.groupby(level=0):
        sizes = rows.index.get_level_values(1).to_numpy(float)
        sent = sizes * NUMBER_BYTES * 2 * (ranks - 1) / ranks
        found[int(ranks)] = sent, rows.to_numpy(float) * 1e-3
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
    laws: dict[str, dict[str, Any]] = {}
    digests = {}
    for folder in sorted(each for each in home.iterdir() if each.is_dir()):
        for kind, table in measured(folder).items():
            laws.setdefault(kind, {})[folder.name] = {
                str(ranks): fitted(*rows).to_dict() for ranks, rows in table.items()
            }
        digests[folder.name] = {
            name: hashlib.sha256((folder / f"{name}.parquet").read_bytes()).hexdigest()
            for name in TABLES
        }
    source = "ai-dynamo/aiconfigurator, systems/data, Apache-2.0"
    return {
        "schema": SCHEMA,
        "data": {"from": source, "sha256": digests},
        "laws": laws,
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
    for kind, by_gpu in found["laws"].items():
        for gpu, ranks, law in (
            (g, n, x) for g, y in by_gpu.items() for n, x in y.items()
        ):
            words = (f"{name} {value:g}" for name, value in law.items())
            print(f"{kind:14} {gpu:14} {ranks:>2} GPUs", *words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
