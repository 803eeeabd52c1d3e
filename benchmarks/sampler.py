"""What sampling costs: irene's sampler beside CodeCarbon at the same periods.

Each runs in a process of its own and samples what it finds on this machine. CPU time
and memory (proportional set size, the whole process) are read from /proc. Then the
shortest period, 1 ms, and how many samples of it come late. Needs a quiet machine.

    pip install codecarbon
    python benchmarks/sampler.py [--seconds 20]
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from irene.meters.sampling.recording import read_recording
from irene.meters.sampling.sampler_process import SamplerProcess

PERIODS_S = (1.0, 0.170, 0.010, 0.004)
CPU_LIMIT, MEMORY_LIMIT_MB, LEAST_RATIO, LATE_LIMIT = 0.5, 15.0, 5.0, 1.0

CODECARBON = """
import logging, sys
logging.disable(logging.CRITICAL)
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(
    measure_power_secs={period}, country_iso_code="DEU", save_to_file=False,
    allow_multiple_runs=True, log_level="critical")
tracker.start()
print("ready", flush=True)
sys.stdin.read()
"""


BARE = """
import sys, time
late, due = 0, time.monotonic_ns() + 10**6
for _ in range({samples}):
    time.sleep(max(0.0, (due - time.monotonic_ns()) * 1e-9))
    behind = time.monotonic_ns() - due
    late += behind > 500_000
    due += (max(0, behind) // 10**6 + 1) * 10**6
print(100 * late / {samples})
"""


class Load(NamedTuple):
    """What a process takes."""

    cpu_percent: float
    memory_mb: float


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, threads that have ended included.

    The number of its CPU clock is made from its pid: see clock_getcpuclockid(3).
    """
    return time.clock_gettime((~pid << 3) | 2)


def memory_mb(pid: int) -> float:
    """Proportional set size, MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("no Pss in smaps_rollup")


def watch(pid: int, seconds: float) -> Load:
    """CPU share of one core over some seconds, and memory at their end."""
    time.sleep(2.0)  # past what starting costs
    begin_s, begin_cpu_s = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)
    spent_s = cpu_s(pid) - begin_cpu_s
    return Load(100 * spent_s / (time.monotonic() - begin_s), memory_mb(pid))


def ours(period_s: float, seconds: float, folder: Path) -> tuple[Load, dict[str, int]]:
    """The sampler with the meters that this machine has."""
    with SamplerProcess(["auto"], period_s, folder / "samples.csv") as sampler:
        assert sampler._process is not None
        load = watch(sampler._process.pid, seconds)
    return load, sampler.counts


def codecarbon(period_s: float, seconds: float) -> Load:
    """CodeCarbon with what it finds on this machine."""
    code = CODECARBON.format(period=period_s)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    if not process.stdout.readline():
        raise SystemExit("CodeCarbon did not start")
    load = watch(process.pid, seconds)
    process.kill()
    process.wait()
    return load


def bare_late_percent(seconds: float) -> float:
    """Late wake-ups of a loop that does nothing but sleep 1 ms, %."""
    code = BARE.format(samples=round(seconds * 1000))
    return float(subprocess.check_output([sys.executable, "-c", code]))


def verdict(held: bool) -> str:
    """In a word."""
    return "held" if held else "MISSED"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    peer = importlib.util.find_spec("codecarbon") is not None
    if not peer:
        print("codecarbon is not installed (pip install codecarbon): no ratios\n")
    print(f"{'period':>8}  {'irene':>18}  {'CodeCarbon':>18}  CPU ratio")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for period_s in PERIODS_S:
            mine, _ = ours(period_s, seconds, folder)
            line = f"{period_s * 1e3:6.0f} ms  {cell(mine)}"
            if peer:
                other = codecarbon(period_s, seconds)
                ratio = other.cpu_percent / max(mine.cpu_percent, 1e-6)
                line += f"  {cell(other)}  {ratio:6.1f} ×"
                if period_s == 0.004:
                    line += (
                        f"  (at least {LEAST_RATIO}: {verdict(ratio >= LEAST_RATIO)})"
                    )
            if period_s == 0.170:
                fine = mine.cpu_percent < CPU_LIMIT
                small = mine.memory_mb < MEMORY_LIMIT_MB
                line += f"  (under {CPU_LIMIT} % and {MEMORY_LIMIT_MB:.0f} MB: "
                line += f"{verdict(fine and small)})"
            print(line, flush=True)
        before = bare_late_percent(seconds)
        mine, counts = ours(0.001, seconds, folder)
        bare = (before + bare_late_percent(seconds)) / 2
        late = 100 * counts["late"] / counts["samples"]
        times_ns = read_recording(folder / "samples.csv").time_ns
        longest_ms = (times_ns[1:] - times_ns[:-1]).max() * 1e-6
        print(
            f"{1:6.0f} ms  {cell(mine)}  {late:.2f} % of {counts['samples']:,} samples "
            f"late, {counts['missed']} missed, longest spacing {longest_ms:.2f} ms\n"
            f"{'':11}a loop that only sleeps is late {bare:.2f} % of the time here\n"
            f"{'':11}(under {LATE_LIMIT:.0f} % late: {verdict(late < LATE_LIMIT)})"
        )


def cell(load: Load) -> str:
    """CPU share and memory."""
    return f"{load.cpu_percent:6.2f} % {load.memory_mb:6.1f} MB"


if __name__ == "__main__":
    main()
