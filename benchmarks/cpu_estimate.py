"""How well the CPU's power is estimated from its load, beside CodeCarbon's formula.

The data: RAPL energy of three processors at known loads (mlco2/codecarbon,
data/hardware/cpu_load_profiling), in the folder `cpu-load` of IRENE_DATA_DIR. Each
processor is estimated by a model fitted to the other two. CodeCarbon 3 estimates
TDP · (0.1 + 0.9 · load³) where it tracks a machine; it is asked about the same rows.

With CodeCarbon installed (`pip install 'irene-energy[bench]'`) both also watch this
machine under the same loads. Where no counter tells the truth, that shows only how far
apart they are.

    python benchmarks/cpu_estimate.py
"""

from __future__ import annotations

import argparse
import csv
import logging
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from irene.errors import IreneError
from irene.meters.cpu.kernel_files import Roots
from irene.meters.estimate.cpu_estimate import (
    KnownProcessor,
    LoadModel,
    basis,
    find_known,
    open_estimate,
)

JOULES_PER_KWH = 3.6e6
COVERAGE = 0.9
BOOST_MHZ = {
    "EPYC 8024P": 3000,
    "Ryzen Threadripper 1950X": 4000,
    "Xeon E3-1240 v2": 3800,
}
"""Highest clock as AMD and Intel publish it, MHz."""
KINDS = {"all_cores": "every thread in part", "some_cores": "some threads in full"}


OURS, CODECARBON, LINE = "ours", "CodeCarbon", "TDP · load"
COLUMNS = (OURS, CODECARBON, LINE)
"""Our model, the formula CodeCarbon uses, and one it has and does not use."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of half a minute.

    Attributes:
        cpu: The processor.
        kind: `all_cores`: every thread busy in part; `some_cores`: some all the time.
        load: Busy share of all threads, 0 to 1.
        clock_mhz: Mean clock, as one look at it said.
        power_w: RAPL energy over time, W.
        column_w: The column `rapl_power`, W, which belongs to the row before.
    """

    cpu: KnownProcessor
    kind: str
    load: float
    clock_mhz: float
    power_w: float
    column_w: float

    @property
    def clock(self) -> float:
        """Mean clock as a share of the highest."""
        return self.clock_mhz / BOOST_MHZ[self.cpu.name]


def read_rows(folder: Path) -> list[Row]:
    """All measurements of a folder.

    Raises:
        IreneError: There are none, or of a processor that we do not know.
    """
    rows = [row for path in sorted(folder.glob("*.csv")) for row in _rows_of(path)]
    if not rows:
        raise IreneError(
            f"no data in {folder}; set IRENE_DATA_DIR to what holds cpu-load"
        )
    return rows


def _rows_of(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        for fields in csv.DictReader(file):
            cpu = find_known(fields["cpu_name"])
            if cpu is None:
                raise IreneError(f"{path}: no TDP of {fields['cpu_name']!r}")
            energy_j = float(fields["rapl_energy"]) * JOULES_PER_KWH
            yield Row(
                cpu,
                fields["load_type"],
                float(fields["cpu_load"]) / 100,
                float(fields["cpu_freq"]),
                energy_j / float(fields["duration"]),
                float(fields["rapl_power"]),
            )


def row_weights(rows: Sequence[Row]) -> np.ndarray:
    """With these, processors weigh the same."""
    counts = Counter(row.cpu.name for row in rows)
    return np.array([1 / counts[row.cpu.name] for row in rows])


def fit_load_model(rows: Sequence[Row]) -> LoadModel:
    """The two numbers of the model, by least squares of logarithms.

    The limit of idle power is the largest share of a TDP that was seen.
    """
    weights = np.sqrt(row_weights(rows))
    measured = np.array([row.power_w for row in rows])

    def made(values: np.ndarray, limit: float = math.inf) -> LoadModel:
        idle, active = map(float, values)
        return LoadModel(idle, limit, active, 0.0)

    def misses(values: np.ndarray) -> np.ndarray:
        return np.log(estimates(made(values), rows) / measured) * weights

    found = least_squares(misses, [2.0, 0.5], bounds=([1e-3, 1e-3], [50, 2])).x
    idle: dict[str, float] = {}
    for row in rows:
        share = row.power_w / row.cpu.tdp_w
        idle[row.cpu.name] = min(share, idle.get(row.cpu.name, math.inf))
    return made(found, max(idle.values()))


def estimates(model: LoadModel, rows: Sequence[Row]) -> np.ndarray:
    """What a model says of each row, W."""
    return np.array(
        [model.power_w(row.cpu.cores, row.cpu.tdp_w_per_core, row.load) for row in rows]
    )


def codecarbon_formula(rows: Sequence[Row]) -> np.ndarray:
    """What CodeCarbon 3 says of each row, W."""
    return np.array([row.cpu.tdp_w * (0.1 + 0.9 * row.load**3) for row in rows])


def straight_line(rows: Sequence[Row]) -> np.ndarray:
    """TDP times load, at least 10 % of the TDP, W."""
    return np.array([row.cpu.tdp_w * max(0.1, row.load) for row in rows])


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A processor that no model has seen.

    Attributes:
        rows: Its measurements.
        said_w: What each estimator says of them, W, by its name.
    """

    rows: tuple[Row, ...]
    said_w: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        """The processor."""
        return self.rows[0].cpu.name

    @property
    def measured_w(self) -> np.ndarray:
        """What RAPL says, W."""
        return np.array([row.power_w for row in self.rows])

    def error(self, who: str, kind: str = "") -> float:
        """Mean absolute error in percent of what was measured."""
        kept = np.array([not kind or row.kind == kind for row in self.rows])
        off = np.abs(self.said_w[who] / self.measured_w - 1)
        return float(100 * off[kept].mean())

    def width(self, who: str) -> float:
        """Share of the estimate that 90 % of the measurements are within."""
        off = np.abs(self.measured_w / self.said_w[who] - 1)
        return float(np.quantile(off, COVERAGE))

    def factor(self, who: str) -> float:
        """Typical factor between estimate and truth, 1 or more."""
        return math.exp(np.abs(np.log(self.said_w[who] / self.measured_w)).mean())

    def energy_error(self, who: str) -> float:
        """Error of the energy of all rows, %."""
        measured = self.measured_w.sum()
        return float(100 * abs(self.said_w[who].sum() / measured - 1))


def interval(results: Sequence[LeftOut], who: str) -> float:
    """Half the 90 % interval for one processor more, as a share of the value.

    What the worst of those left out needs: of three, three of four others need no more.
    """
    return max(left.width(who) for left in results)


def leave_one_out(rows: Sequence[Row]) -> list[LeftOut]:
    """Each processor, estimated from the others, and by CodeCarbon's formulas."""
    results = []
    for name in dict.fromkeys(row.cpu.name for row in rows):
        own = tuple(row for row in rows if row.cpu.name == name)
        others = [row for row in rows if row.cpu.name != name]
        said_w = {
            OURS: estimates(fit_load_model(others), own),
            CODECARBON: codecarbon_formula(own),
            LINE: straight_line(own),
        }
        results.append(LeftOut(own, said_w))
    return results


def print_left_out(results: Sequence[LeftOut]) -> None:
    """The errors, processor by processor and kind by kind."""
    print(f"{'left out: mean error, %':38}", *(f"{who:>12}" for who in COLUMNS), end="")
    print(f" {'CodeCarbon ÷ ours':>20}")
    for left in results:
        _print_errors(left.name, [left])
        for kind, words in KINDS.items():
            _print_errors(f"  {words}", [left], kind)
    _print_errors("all, each processor the same", results)
    for kind, words in KINDS.items():
        _print_errors(f"  {words}", results, kind)
    print("\nrows inside the 90 % interval of the other two, %")
    for place, left in enumerate(results):
        others = [*results[:place], *results[place + 1 :]]
        _print_inside(left, [interval(others, who) for who in COLUMNS])
    print("\nother measures, each processor the same")
    _print_line(
        "energy of a whole sweep, error in %",
        [_mean(left.energy_error(who) for left in results) for who in COLUMNS],
    )
    for title, values in (
        (
            "typical factor between both",
            [
                math.exp(_mean(math.log(left.factor(who)) for left in results))
                for who in COLUMNS
            ],
        ),
        (
            "half-width of the 90 % interval",
            [interval(results, who) for who in COLUMNS],
        ),
    ):
        print(f"{title:38}", *(f"{value:12.2f}" for value in values))


def _print_inside(left: LeftOut, widths: Sequence[float]) -> None:
    """How many of its rows lie within intervals of these half-widths."""
    off = (np.abs(left.measured_w / left.said_w[who] - 1) for who in COLUMNS)
    inside = (100 * np.mean(o <= w) for o, w in zip(off, widths, strict=True))
    print(f"{left.name:38}", *(f"{value:12.1f}" for value in inside))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _print_errors(title: str, results: Sequence[LeftOut], kind: str = "") -> None:
    _print_line(
        title, [_mean(left.error(who, kind) for left in results) for who in COLUMNS]
    )


def _print_line(title: str, values: Sequence[float]) -> None:
    """One row; the ratios are those of the formula that CodeCarbon uses."""
    ours, theirs, _ = values
    print(f"{title:38}", *(f"{value:12.1f}" for value in values), end="")
    print(f" {theirs / ours:19.2f}×")


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that do nothing but compute."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    workers = [context.Process(target=_spin, args=(stop,)) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        time.sleep(1.0 if workers else 0.0)  # starting Python is no part of the load
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def _spin(stop: object) -> None:
    x = 1.0
    while not stop.is_set():  # type: ignore[attr-defined]
        for _ in range(100_000):
            x = x * 1.0000001 + 1e-9


def watch(seconds: float, period_s: float = 0.1) -> tuple[float, float, float]:
    """Our estimate of the mean power and its 90 % interval, W."""
    meter = open_estimate(Roots())
    values, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(period_s)
        values.append(meter.read()[0])
    meter.close()
    mean = float(np.mean(values))
    half = mean * meter.channels[0].relative_error
    return mean, max(0.0, mean - half), mean + half


def live(seconds: float) -> None:
    """Both on this machine, under the same loads."""
    logging.disable(logging.CRITICAL)  # CodeCarbon says much before it listens
    try:
        from codecarbon import OfflineEmissionsTracker
    except ImportError:
        print("\nlive: codecarbon is not installed (the extra `bench`); ours alone")
        OfflineEmissionsTracker = None  # noqa: N806
    model = next(
        line for line in basis(Roots()).assumptions if line.startswith("model")
    )
    print(f"\nlive, {model}")
    print(f"{'live, mean W of the CPU':20} {'ours':>7} {'90 % interval':>16}"
          f" {'CodeCarbon':>11} {'its RAM':>8}")  # fmt: skip
    cpus = os.cpu_count() or 1
    for title, count in (("idle", 0), ("one CPU busy", 1), (f"all {cpus} busy", cpus)):
        with busy_processes(count):
            tracker = None
            if OfflineEmissionsTracker:
                tracker = OfflineEmissionsTracker(
                    country_iso_code="DEU", measure_power_secs=1, log_level="critical",
                    save_to_file=False, allow_multiple_runs=True,
                )  # fmt: skip
                tracker.start()
            began = time.monotonic()
            mean, low, high = watch(seconds)
            theirs = _codecarbon_w(tracker, time.monotonic() - began)
        print(f"{title:20} {mean:7.1f} {f'{low:.1f} to {high:.1f}':>16} {theirs}")


def _codecarbon_w(tracker: object | None, seconds: float) -> str:
    if tracker is None:
        return f"{'–':>11} {'–':>8}"
    tracker.stop()  # type: ignore[attr-defined]
    data = tracker.final_emissions_data  # type: ignore[attr-defined]
    cpu, ram = (
        energy * JOULES_PER_KWH / seconds
        for energy in (data.cpu_energy, data.ram_energy)
    )
    return f"{cpu:11.1f} {ram:8.1f}"


def data_folder() -> Path:
    """Where the measurements are."""
    return Path(os.environ.get("IRENE_DATA_DIR", ".")) / "cpu-load"


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each live load")
    options = parser.parse_args()
    try:
        print_left_out(leave_one_out(read_rows(data_folder())))
    except IreneError as error:
        print(f"left out: {error}")
    live(options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
