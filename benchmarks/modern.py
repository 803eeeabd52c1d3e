"""Today's GPUs: kernels with whole groups of shapes held out, and whole servings.

Kernels: errors of the time beside those of the roofline alone, errors of the energy on
rows with usable power, GPUs predicted from another GPU's tables, and speed. Servings
are in `modern_serving.py`; without `--ops` both are run.

    IRENE_DATA_DIR=… python benchmarks/modern.py [--ops] [--quick]

All models are fitted anew with groups held out, which takes some minutes; `--quick`
examines bf16 only.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from irene.predict.machines.finding import find_gpu, known_machines
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.gpu_device import known_sheets
from irene.predict.machines.gpu.kernel_exam import (
    EnergyExam,
    TimeExam,
    error_percent,
    examine_energy,
    examine_multiples_of_four,
    examine_time,
)
from irene.predict.machines.gpu.kernel_fitting import fit_roofline
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


def print_times(
    tables: Tables, sheets: Mapping[str, Datasheet]
) -> dict[str, list[TimeExam]]:
    """Errors of the time, groups held out; what was examined by GPU."""
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
    return found


def _print_time(gpu: str, exam: TimeExam, sheet: Datasheet) -> None:
    error, alone = exam.to_dict(), roofline_errors(exam.table, sheet)
    print(
        f"{gpu + ' ' + exam.table.ops.key:38}{alone['median_percent']:9.1f}"
        f"{error['median_percent']:8.2f}{error['p90_percent']:8.2f}"
        f"{bound_of(gpu, exam.table.ops.kind):9.1f}{error['groups']:8}",
        flush=True,
    )


def print_energies(
    tables: Tables,
    exams: Mapping[str, Sequence[TimeExam]],
    sheets: Mapping[str, Datasheet],
) -> None:
    """Errors of the energy on rows with usable power."""
    print("\nenergy of a kernel, rows with usable power only, error in %")
    print(f"{'':38}{'median':>8}{'p90':>8}{'in 90 %':>9}{'rows':>8}{'of':>9}")
    for gpu, mine in exams.items():
        for kind in sorted({exam.table.ops.kind for exam in mine}):
            same = [exam for exam in mine if exam.table.ops.kind == kind]
            if not any(exam.table.is_trusted.any() for exam in same):
                continue
            rows = sum(len(exam.table) for exam in same)
            energy, _ = examine_energy(same, sheets[gpu])
            _print_energy(f"{gpu} {kind}", energy, rows)
        fours = examine_multiples_of_four(
            [table for table in tables[gpu] if table.ops.kind == "gemm"], sheets[gpu]
        )
        if fours is not None:
            _print_energy(f"{gpu} gemm, m % 4 == 0 from the others", fours, 0)


def _print_energy(name: str, energy: EnergyExam, rows: int) -> None:
    error = energy.to_dict()
    covered = f"{error['covered_percent']:.0f}" if "covered_percent" in error else ""
    print(
        f"{name:38}{error['median_percent']:8.2f}{error['p90_percent']:8.2f}"
        f"{covered:>9}{error['rows']:8}{rows or '':>9}",
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
    exams = print_times(tables, sheets)
    print_energies(tables, exams, sheets)
    print_transfer(tables, sheets)
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
