"""Today's GPUs: kernels with whole groups of shapes held out, and whole servings.

Kernels: errors of the time beside those of the roofline alone, GPUs predicted from
another GPU's tables, which GPU lends a table best, and speed. Servings are in
`modern_serving.py`; without `--ops` both are run.

    IRENE_DATA_DIR=… python benchmarks/modern.py [--ops] [--quick]

All models are fitted anew with groups held out, which takes some minutes; `--quick`
examines bf16 only.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from irene.predict.machines.finding import find_gpu, known_machines
from irene.predict.machines.gpu.datasheet import Datasheet, distance
from irene.predict.machines.gpu.gpu_device import known_sheets
from irene.predict.machines.gpu.kernel_fitting import fit_roofline
from irene.predict.machines.gpu.kernel_models import WAITED
from irene.predict.machines.gpu.kernel_ops import (
    ContextAttention,
    Gemm,
    GenerationAttention,
    Moe,
    Op,
)
from irene.predict.machines.gpu.kernel_tables import (
    KernelTable,
    gpu_folders,
    read_tables,
)
from irene.predict.machines.gpu.kernel_training import (
    TimeExam,
    error_percent,
    examine_time,
)
from irene.predict.machines.gpu.kernel_work import seconds_of, work_of

HELD_TO = {
    ("h200", "gemm"): 3.0,
    ("h100", "gemm"): 3.0,
    ("b200", "gemm"): 4.5,
    "gemm": 4.0,
    "context_attention": 5.0,
    "generation_attention": 5.0,
    "moe": 10.0,
}
"""Most median error of the time, %."""
OPS = 10_000

Tables = Mapping[str, Sequence[KernelTable]]


def bound_of(gpu: str, kind: str) -> float:
    """What the median of a kind is held to, %."""
    return HELD_TO.get((gpu, kind), HELD_TO[kind])


def roofline_errors(table: KernelTable, sheet: Datasheet) -> dict[str, float]:
    """Errors of a roofline alone: launch, peak and bandwidth as fit the table best."""
    compute_s, memory_s = seconds_of(table.ops, work_of(table.ops), sheet)
    roofline = fit_roofline(compute_s, memory_s, table.time_s)
    return error_percent(np.log(table.time_s / roofline.seconds(compute_s, memory_s)))


def print_times(tables: Tables, sheets: Mapping[str, Datasheet]) -> None:
    """Errors of the time, groups held out."""
    print("time of a kernel, whole groups of shapes held out, error in %")
    print(f"{'':38}{'roofline':>9}{'median':>8}{'p90':>8}{'held to':>9}{'groups':>8}")
    found: dict[str, list[TimeExam]] = {}
    for gpu, some in tables.items():
        for table in some:
            exam = examine_time(table, sheets[gpu])
            if exam is None:
                print(f"{gpu} {table.ops.key}: a single group, nothing to hold out")
                continue
            found.setdefault(gpu, []).append(exam)
            _print_time(gpu, exam, sheets[gpu])
    for gpu, kind in sorted({(g, e.table.ops.kind) for g in found for e in found[g]}):
        same = [e.errors for e in found[gpu] if e.table.ops.kind == kind]
        error = error_percent(np.concatenate(same))
        verdict = "" if error["median_percent"] <= bound_of(gpu, kind) else "  MISSED"
        print(
            f"{gpu + ' ' + kind + ', all dtypes':38}{'':9}"
            f"{error['median_percent']:8.2f}{error['p90_percent']:8.2f}"
            f"{bound_of(gpu, kind):9.1f}{verdict}"
        )


def _print_time(gpu: str, exam: TimeExam, sheet: Datasheet) -> None:
    error, alone = exam.to_dict(), roofline_errors(exam.table, sheet)
    print(
        f"{gpu + ' ' + exam.table.ops.key:38}{alone['median_percent']:9.1f}"
        f"{error['median_percent']:8.2f}{error['p90_percent']:8.2f}"
        f"{bound_of(gpu, exam.table.ops.kind):9.1f}{error['groups']:8}",
        flush=True,
    )


def print_transfer(tables: Tables, sheets: Mapping[str, Datasheet]) -> None:
    """A GPU from its datasheet and another GPU's tables, bf16."""
    print(
        "\nGPU never seen: its datasheet with the residual of another, time, error in %"
    )
    print(f"{'':38}{'roofline':>9}{'median':>8}{'p90':>8}")
    for gpu, some in tables.items():
        for source in tables:
            if source == gpu:
                continue
            models = find_gpu(source).device.kernels.models
            for table in some:
                if table.ops.dtype != "bf16":
                    continue
                model = models[table.ops.key]
                predicted = model.seconds(table.ops, sheets[gpu])
                error = error_percent(np.log(table.time_s / predicted))
                # The other GPU's roofline, without the residual.
                sides = seconds_of(table.ops, work_of(table.ops), sheets[gpu])
                base_s = model.base.seconds(*sides)
                alone = error_percent(np.log(table.time_s / base_s))
                print(
                    f"{gpu + ' from ' + source + ', ' + table.ops.kind:38}"
                    f"{alone['median_percent']:9.1f}{error['median_percent']:8.1f}"
                    f"{error['p90_percent']:8.1f}"
                )


def print_lenders(tables: Tables, sheets: Mapping[str, Datasheet]) -> None:
    """Whose table stands in best for one that is left out, by three ways to choose."""
    off: dict[tuple[str, str, str], float] = {}
    for gpu, lender in itertools.permutations(tables, 2):
        models = find_gpu(lender).device.kernels.models
        for table in tables[gpu]:
            dtype = table.ops.dtype
            model, here = models.get(table.ops.key), sheets[gpu].multiplies_in(dtype)
            is_own = model is not None and not model.borrowed_from
            if is_own and sheets[lender].multiplies_in(dtype) == here:
                said_s = model.seconds(table.ops, sheets[gpu])
                errors = np.abs(np.log(table.time_s / said_s))
                off[gpu, lender, table.ops.key] = float(np.median(errors))

    def by_kernels(gpu: str, lender: str, left_out: str) -> tuple[bool, float]:
        one, other = (
            (s.architecture, s.memory) for s in map(sheets.get, (gpu, lender))
        )
        shared = [
            error
            for (g, one, key), error in off.items()
            if (g, one) == (gpu, lender) and key.endswith("/bf16") and key != left_out
            and not key.startswith("latent")
        ]  # fmt: skip
        return one != other, float(np.mean(shared))

    ways = {
        "datasheet": lambda g, lender, key: distance(sheets[g], sheets[lender]),
        "make, then bf16 kernels": by_kernels,
        "best there is": lambda *question: off[question],
    }
    print("\na table left out, that of another GPU instead: mean of median errors, %")
    left_out = sorted({(gpu, key) for gpu, _, key in off})
    for name, unlike in ways.items():
        found = []
        for gpu, key in left_out:
            lenders = [one for g, one, k in off if (g, k) == (gpu, key)]
            # What waited for the host says nothing of a GPU.
            if len(lenders) > 1 and key not in WAITED:
                chosen = min(lenders, key=lambda one: unlike(gpu, one, key))
                found.append(off[gpu, chosen, key])
        print(f"lender by {name:28}{100 * np.mean(found):9.1f}{len(found):8} tables")


def some_ops(size: int) -> list[Op]:
    """Ops of all kinds, no two alike."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 4096, (size, 3)).tolist()
    makers = (
        lambda a, b, c: Gemm(a, 64 * b, 4096),
        lambda a, b, c: Gemm(a, 4096, 64 * b),
        lambda a, b, c: ContextAttention(1 + a % 64, b, 0, 32, 8, 128),
        lambda a, b, c: GenerationAttention(1 + a % 256, b + c / 4096, 32, 8, 128),
        lambda a, b, c: Moe(a, 2048, 8 * b, 8, 128),
    )
    return [makers[i % len(makers)](*row) for i, row in enumerate(sizes)]


def print_speed() -> None:
    """How long loading and ten thousand different ops take.

    One thread works, so its CPU time is what it would take on a machine of its own.
    """
    from irene.predict.machines.gpu.gpu_device import read_device

    start = time.process_time()
    device = read_device(known_machines()["b200"])
    load_ms = 1e3 * (time.process_time() - start)
    ops = some_ops(OPS)
    device.costs(ops[:100])
    gc.collect()
    times = []
    for _ in range(7):
        start = time.process_time()
        device.costs(ops)
        times.append(1e3 * (time.process_time() - start))
    print(f"\nb200 loaded in {load_ms:.0f} ms of CPU time (held to 100); ", end="")
    print(f"{OPS:,} different ops in {min(times):.0f} ms, best of 7 (held to 50)")


def run_ops(quick: bool) -> None:
    """All of the kernels' part."""
    data = Path(os.environ.get("IRENE_DATA_DIR", ".")) / "gpu-ops"
    sheets = known_sheets()
    tables = {
        name: [t for t in read_tables(folder) if not quick or t.ops.dtype == "bf16"]
        for name, folder in gpu_folders(data).items()
    }
    print_times(tables, sheets)
    print_transfer(tables, sheets)
    print_lenders(tables, sheets)
    print_speed()


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", action="store_true", help="kernels only")
    parser.add_argument("--quick", action="store_true", help="bf16 kernels only")
    options = parser.parse_args()
    run_ops(options.quick)
    if options.ops:
        return 0
    # The servings' part is a program beside this one.
    import subprocess

    print(flush=True)
    command = [sys.executable, "-m", "benchmarks.modern_serving"]
    home = Path(__file__).parents[1]
    return subprocess.run(command, check=False, cwd=home).returncode


if __name__ == "__main__":
    sys.exit(main())
