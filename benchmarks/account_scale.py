"""How accounting grows: events × power samples, and the size of a trace file.

Alignment is compared with the plain way to write it, a loop over the events that adds
up the samples under each, measured in the same run at the size given by `--plain`. The
reader of traces is compared with `json.load` of the same file. Every size runs in a
process of its own, so that peak memory is its own.

    python benchmarks/account_scale.py
    python benchmarks/account_scale.py --largest 6 --trace-mb 0
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path

import numpy as np

BEGIN_NS = 1_700_000_000_000_000_000
OP_NS = 20_000
"""Mean time from one op to the next, ns."""


def program(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ops of two streams, in each one after the other with short pauses."""
    rng = np.random.default_rng(0)
    lane = np.arange(count) % 2
    start, end = np.empty(count, np.int64), np.empty(count, np.int64)
    for stream in range(2):
        here = np.flatnonzero(lane == stream)
        length = rng.integers(100, 2 * OP_NS, len(here))
        pause = rng.integers(0, OP_NS, len(here))
        end[here] = BEGIN_NS + np.cumsum(length + pause)
        start[here] = end[here] - length
    return lane, start, end


def samples(count: int, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Sample times over the whole program."""
    span = int(end.max() - start.min())
    return int(start.min()) + np.linspace(0, span, count).astype(np.int64)


def ours(count: int) -> dict[str, float]:
    """Nest, align and check; times, peak memory and what was lost."""
    from irene.account.align.alignment import align
    from irene.account.align.nesting import nest, own_segments
    from irene.account.align.power import PowerSeries

    lane, start, end = program(count)
    times = samples(count, start, end)
    power_w = np.random.default_rng(1).uniform(50, 300, count)
    window = (int(start.min()), int(end.max()))
    wall, cpu = time.perf_counter(), time.process_time()
    power = PowerSeries.from_power("sensor", times, power_w)
    nesting = nest(lane, start, end)
    segments = own_segments(start, nesting.end_ns, nesting.parent)
    found = align(power, [segments], count, window).account
    took = time.perf_counter() - wall, time.process_time() - cpu
    whole_j = power.window_j(*window)
    lost = abs(found.attributed_j + found.unattributed_j - whole_j) / whole_j
    return {
        "wall_s": took[0], "cpu_s": took[1], "lost": lost,
        "joules": found.attributed_j,
    }  # fmt: skip


def plain(count: int) -> dict[str, float]:
    """For each event, go through the samples and the other stream's ops under it."""
    lane, start, end = program(count)
    begin_ns = int(start.min())
    times = (samples(count, start, end) - begin_ns).tolist()
    power_w = np.random.default_rng(1).uniform(50, 300, count).tolist()
    streams = [
        ((start[lane == k] - begin_ns).tolist(), (end[lane == k] - begin_ns).tolist())
        for k in range(2)
    ]
    wall, cpu = time.perf_counter(), time.process_time()
    total_j = 0.0
    for k, (begins, ends) in enumerate(streams):
        other = streams[1 - k]
        for begin, stop in zip(begins, ends, strict=True):
            total_j += plain_event(begin, stop, times, power_w, *other)
    took = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_s": took[0], "cpu_s": took[1], "joules": total_j}


def plain_event(
    begin: int,
    stop: int,
    times: list[int],
    power_w: list[float],
    other_begins: list[int],
    other_ends: list[int],
) -> float:
    """Energy of one event, J."""
    first, last = bisect_right(times, begin), bisect_left(times, stop)
    cuts = {begin, stop, *times[first:last]}
    near = range(bisect_right(other_ends, begin), bisect_left(other_begins, stop))
    for j in near:
        cuts.update(c for c in (other_begins[j], other_ends[j]) if begin < c < stop)
    joules = 0.0
    for a, b in pairwise(sorted(cuts)):
        middle = 0.5 * (a + b)
        k = min(max(bisect_right(times, middle) - 1, 0), len(times) - 2)
        part = (middle - times[k]) / (times[k + 1] - times[k])
        watts = power_w[k] + (power_w[k + 1] - power_w[k]) * part
        running = 1 + sum(other_begins[j] <= middle < other_ends[j] for j in near)
        joules += watts * (b - a) * 1e-9 / running
    return joules


def write_trace(path: Path, megabytes: int) -> int:
    """A Kineto trace of about that size; the number of events."""
    head = '{"schemaVersion": 1, "traceEvents": [\n'
    line = (
        '{"ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d, "ts": %.3f, '
        '"dur": 9.500, "args": {"External id": %d, "correlation": %d, "device": 0, '
        '"stream": 7, "Sequence number": %d, "Input Dims": [[8, 128, 768], [768, 768], '
        '[768]], "Input type": ["float", "float", "float"]}}'
    )
    count = megabytes * 10**6 // 310
    with path.open("w") as file:
        file.write(head)
        for i in range(count):
            kernel = i % 2
            what = ("kernel", "void gemm<float, 128>(Params)", 0, 7)
            what = what if kernel else ("cpu_op", "aten::addmm", 100, 101)
            ts_us = 1.2e12 + 10 * (i - kernel)
            numbers = (ts_us, i - kernel, 10**6 + i, i)
            file.write((",\n" if i else "") + line % (*what, *numbers))
        file.write('\n], "baseTimeNanoseconds": 1719853884000000000}\n')
    return count


def reading(path: Path, with_json: bool) -> dict[str, float]:
    """Read a trace with ours or with `json.load`."""
    wall, cpu = time.perf_counter(), time.process_time()
    if with_json:
        with path.open() as file:
            events = len(json.load(file)["traceEvents"])
    else:
        from irene.account.readers.kineto import read_kineto

        events = len(read_kineto(path).events)
    took = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_s": took[0], "cpu_s": took[1], "events": events}


def peak_mb() -> float:
    """Most memory that this process has used, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def alone(*words: object) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--only", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def only(words: list[str]) -> dict[str, float]:
    """What a process of its own measures."""
    before_mb = peak_mb()
    if words[0] == "ours":
        found = ours(int(words[1]))
    elif words[0] == "plain":
        found = plain(int(words[1]))
    else:
        found = reading(Path(words[1]), words[0] == "json")
    return {**found, "peak_mb": peak_mb(), "before_mb": before_mb}


def show_alignment(largest: int, plain_count: int) -> None:
    """The table of sizes, and the ratio to the plain loop."""
    print(f"{'events = samples':>16} {'wall':>9} {'CPU':>9} {'CPU/event':>10}", end="")
    print(f" {'peak':>9} {'lost':>8}")
    sizes = sorted({10**power for power in range(4, largest + 1)} | {plain_count})
    at_plain: dict[str, float] = {}
    for count in sizes:
        found = alone("ours", count)
        print(
            f"{count:16,} {found['wall_s']:7.3f} s {found['cpu_s']:7.3f} s "
            f"{found['cpu_s'] / count * 1e9:7.0f} ns {found['peak_mb']:6.0f} MB "
            f"{found['lost']:8.0e}"
        )
        at_plain = found if count == plain_count else at_plain
    loop = alone("plain", plain_count)
    assert abs(loop["joules"] / at_plain["joules"] - 1) < 1e-6
    print(
        f"plain loop, {plain_count:,} events: {loop['cpu_s']:.3f} s of CPU, "
        f"{loop['cpu_s'] / plain_count * 1e9:,.0f} ns per event: "
        f"{loop['cpu_s'] / at_plain['cpu_s']:.1f}× ours"
    )


def show_reading(megabytes: int) -> None:
    """Speed and memory of reading a trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        count = write_trace(path, megabytes)
        size = path.stat().st_size / 1e6
        print(f"\ntrace of {size:.0f} MB, {count:,} events")
        for name, word in (("ours: columns", "reader"), ("json.load", "json")):
            found = alone(word, path)
            print(
                f"{name:16} {found['wall_s']:6.2f} s, {found['cpu_s']:6.2f} s of CPU, "
                f"{size / found['cpu_s']:5.1f} MB/s, peak {found['peak_mb']:6.0f} MB"
            )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=7, help="power of ten")
    parser.add_argument("--plain", type=int, default=100_000)
    parser.add_argument("--trace-mb", type=int, default=100)
    parser.add_argument("--only", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(only(options.only)))
        return 0
    show_alignment(options.largest, options.plain)
    if options.trace_mb:
        show_reading(options.trace_mb)
    return 0


if __name__ == "__main__":
    sys.exit(main())
