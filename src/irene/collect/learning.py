"""Learning the machine that this runs on: measure, fit, examine, register."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from irene.errors import UsageError
from irene.hardware import Hardware
from irene.measure.alone.bench import Bench
from irene.measure.alone.capture import digest
from irene.measure.alone.journal import Journal, default_folder
from irene.measure.alone.rounds import FLAGS
from irene.measure.alone.target import (
    available_bytes,
    choose_device,
    environment,
    synchroniser,
    using_threads,
)
from irene.measure.inside.designs import EXAM, Item, design
from irene.measure.inside.items import PROTOCOL, Runner
from irene.measure.inside.seen import Measured
from irene.meters.machine import machine_words
from irene.meters.sampling.sampler_process import open_sampler
from irene.predict.api import predict_run
from irene.predict.intervals import COVERAGE, LEVELS
from irene.predict.machines.chosen import fingerprint
from irene.predict.machines.finding import THIS_MACHINE, keep_machine
from irene.predict.machines.learned.learned_machine import LearnedMachine
from irene.predict.machines.learned.time_fit import (
    errors_left_out,
    fit_times,
    samples_of,
)
from irene.spec import RunSpec
from irene.trace.sources import quiet
from irene.work.lock import alone_on

PLANS = {"quick": 115.0, "usual": 480.0, "thorough": 1800.0}
"""How long is measured, s; reading, fitting and the exam come on top."""
SLOW = 1.12
"""A reference product that takes this many times the median: it was throttled."""
WAITING = 0.1
"""Part of the time that may be spent waiting for a calm machine, and on repeating."""
PAUSE_S = 1.0
WIDER = 0.25
"""How much wider intervals are where everything was disturbed."""
LEAST_WIDTH = 0.05
MOST_GROUPS, FEWEST_ERRORS = 6, 20
ANCHORS = 10
"""Blocks that are kept by their times, to see later whether they still hold."""

Tell = Callable[[float, float, str], None]
"""Told seconds done, seconds in all, and what is being done."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are measured; its speed, to a power of two, decides how large."""

    runner: Runner
    bench: Bench
    device: str
    threads: int
    about: Mapping[str, str]
    gflop_s: float


@dataclass(frozen=True, slots=True)
class Learned:
    """A machine that was learned, its file, and how long this took, s."""

    machine: LearnedMachine
    path: Path
    took_s: float

    def to_dict(self) -> dict[str, Any]:
        """The document `irene.learned/1`."""
        return {
            "schema": "irene.learned/1",
            "hardware": self.machine.hardware.to_dict(),
            "file": str(self.path),
            "took_s": round(self.took_s, 1),
            "provenance": dict(self.machine.provenance),
            "widths": self.machine.to_dict()["widths"],
        }


def surroundings(device: str, threads: int) -> dict[str, str]:
    """What decides how fast a machine is, in words."""
    config = torch.__config__.show()
    blas = [word for word in ("MKL", "OpenBLAS", "oneDNN", "MKL-DNN") if word in config]
    return {
        **environment(device, threads),
        "blas": ", ".join(blas) or "unknown",
        "capability": str(getattr(torch.backends.cpu, "get_cpu_capability", str)()),
    }


@contextmanager
def place(
    device: str = "auto",
    threads: int | None = None,
    meters: Sequence[Any] | None = None,
) -> Iterator[Place]:
    """A device that nobody else measures on, with meters that run."""
    where = choose_device(device)
    denormal = torch.set_flush_denormal(True)
    with (
        quiet(),
        alone_on(where),
        using_threads(threads) as used,
        open_sampler(meters or ["auto"], PROTOCOL.period_s, pid=os.getpid()) as sampler,
    ):
        bench = Bench(sampler, PROTOCOL, where, synchroniser(where))
        bench.watch_idle()
        runner = Runner(bench, where)
        gflop_s = 2.0 ** round(math.log2(runner.speed()))
        about = surroundings(where, used)
        yield Place(runner, bench, where, used, about, gflop_s)
    if denormal:
        torch.set_flush_denormal(False)


def learn(
    plan: str = "usual",
    *,
    name: str = THIS_MACHINE,
    device: str = "auto",
    threads: int | None = None,
    meters: Sequence[Any] | None = None,
    fresh: bool = False,
    measuring_s: float | None = None,
    keep: bool = True,
    tell: Tell | None = None,
) -> Learned:
    """Learn the machine that this runs on, and register it.

    What was measured is kept at once: a run that was stopped goes on.

    Args:
        plan: `quick`, `usual` or `thorough`.
        name: What to call it.
        device: `cpu`, `cuda`, `mps`, …; `auto` for the fastest there is.
        threads: Threads of torch on the CPU; None for as many as it uses.
        meters: Open meters, or names of meters; None for the best here.
        fresh: Whether to forget what an earlier run measured.
        measuring_s: How long is measured, s, instead of the plan's.
        keep: Whether to register it here; else its measurements alone are kept.
        tell: Is told of every step.

    Raises:
        UsageError: The plan or device is unknown, or a file cannot be written.
        MeterError: No meter here counts energy.
        IreneError: The disk is full; what was measured is kept.
    """
    if plan not in PLANS:
        raise UsageError(f"no plan {plan!r}; there are {', '.join(PLANS)}")
    begun = time.monotonic()
    limit_s = PLANS[plan] if measuring_s is None else measuring_s
    say = tell or (lambda done, total, what: None)
    say(0.0, limit_s, "looking at the machine")
    with place(device, threads, meters) as here:
        header = {"about": dict(here.about), "meters": here.bench.readings.meters}
        path = default_folder() / f"learn-{digest(header)}.jsonl"
        with Journal(path, header, fresh, Measured.from_dict) as journal:
            items = _measure(here, journal, limit_s, say)
            say(limit_s, limit_s, "fitting")
            machine = _fitted(here, items, name, plan)
            say(limit_s, limit_s, "sitting the exam")
            machine = _examined(machine, here, journal)
        done = path.with_suffix(".done")
        kept = keep_machine(machine) if keep else done
        path.replace(done)
    return Learned(machine, kept, time.monotonic() - begun)


def _measure(
    here: Place, journal: Journal, limit_s: float, say: Tell
) -> list[Measured]:
    """Measure until the time is up; what the journal has counts."""
    spent: dict[str, float] = {}
    for each in _items(journal):
        spent[each.kind] = spent.get(each.kind, 0.0) + each.seconds
    waited_s, most_s = 0.0, WAITING * limit_s
    for chosen in design(here.gflop_s):
        done_s = sum(spent.values()) + waited_s
        if done_s >= limit_s:
            break
        item = chosen(spent)
        if item.key in journal.results:
            continue
        what = item.block.family if item.block else "products"
        say(done_s, limit_s, what)
        found = here.runner.measure(item)
        spent[item.kind] = spent.get(item.kind, 0.0) + max(found.seconds, 0.01)
        if "busy" in found.flags and waited_s < most_s:
            say(done_s, limit_s, "another process is busy: waiting")
            pause = time.monotonic()
            time.sleep(PAUSE_S)
            again = here.runner.measure(item)
            found = min(found, again, key=lambda each: (len(each.flags), each.others))
            waited_s += time.monotonic() - pause
        journal.append(found)
    return _items(journal)


def _items(journal: Journal) -> list[Measured]:
    return [each for each in journal.results.values() if each.kind != "exam"]


def _fitted(
    here: Place, items: Sequence[Measured], name: str, plan: str
) -> LearnedMachine:
    slow = SLOW * median([each.reference_s for each in items if each.ops] or [math.inf])
    samples = samples_of(items, slow)
    on_cpu, fault = here.device == "cpu", here.runner.fault_s_mib
    model = fit_times(samples, fault, on_cpu)
    errors = errors_left_out(samples, fault, on_cpu)
    disturbed = sum(each.noise > 1 for each in samples) / len(samples)
    widths = {
        level: _widths(errors, level) * [[1.0], [1 + WIDER * disturbed]]
        for level in LEVELS
    }
    told = _provenance(here, items, plan, slow)
    told["held_out_errors_percent"] = {"blocks": _percent(errors)}
    readings = here.bench.readings
    threads = f"{here.threads} threads" if here.device == "cpu" else here.device
    hardware = Hardware(name, readings.covers, machine_words(here.about, threads))
    return LearnedMachine(hardware, model, widths, _power_width(here), told)


def _widths(errors: Mapping[str, Mapping[str, Any]], level: str) -> Any:
    """Times, s, and the width that covers the errors of what takes about as long."""
    rows = np.concatenate([np.zeros((0, 2)), *(e[level] for e in errors.values())])
    rows = rows[np.argsort(rows[:, 0])]
    groups = max(1, min(MOST_GROUPS, len(rows) // FEWEST_ERRORS))
    if len(rows) < FEWEST_ERRORS // 2:
        return np.array([[1.0], [1.0]])
    parts = np.array_split(rows, groups)
    at = [float(np.median(part[:, 0])) for part in parts]
    each = [float(np.quantile(np.abs(part[:, 1]), COVERAGE)) for part in parts]
    widths = np.minimum.accumulate(each)
    return np.array([at, np.maximum(widths, LEAST_WIDTH)])


def _percent(errors: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for level in LEVELS:
        every = [levels[level][:, 1] for levels in errors.values()]
        logs = np.concatenate([np.zeros(0), *every])
        found[level] = (
            round(100 * float(np.median(np.abs(np.expm1(logs)))), 2)
            if len(logs)
            else None
        )
    return found


def _power_width(here: Place) -> float:
    """What the meter is uncertain of, in log units."""
    one = here.bench.round(lambda: time.sleep(0.1), 1)
    if not one.energy_j > 0:
        return 0.5
    return float(np.log1p(max(0.0, one.half_width_j / one.energy_j)))


def _provenance(
    here: Place, items: Sequence[Measured], plan: str, slow: float
) -> dict[str, Any]:
    good = [each for each in items if each.ops]
    flags = {flag: sum(flag in each.flags for each in good) for flag in FLAGS}
    flags["throttled"] += sum(each.reference_s > slow for each in good)
    problems = {each.family: each.problem for each in items if each.problem}
    readings = here.bench.readings
    blocks = [each for each in good if each.whole is not None]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "fingerprint": fingerprint(),
        "surroundings": dict(here.about),
        "memory_bytes": available_bytes(here.device, of_all=True),
        "plan": plan,
        "meter": readings.meters,
        "source": readings.source,
        "items": len(good),
        "ops": sum(len(each.ops) for each in good),
        "families": sorted({each.family for each in blocks}),
        "measuring_s": round(sum(each.seconds for each in good), 1),
        "disturbed": {flag: n for flag, n in flags.items() if n},
        "gflop_s": here.gflop_s,
        "anchors": {
            each.key: [each.whole.seconds, each.whole.spread]
            for each in blocks[:ANCHORS]
            if each.whole is not None
        },
        "caveats": [
            *_caveats(len(good), flags, readings),
            *(f"{who} could not be run here: {why}" for who, why in problems.items()),
        ],
    }


def _caveats(count: int, flags: Mapping[str, int], readings: Any) -> list[str]:
    notes = [
        f"warning: {FLAGS[flag]} in {n} of {count} measurements that this machine was "
        "learned from: they weigh less, and intervals are wider; "
        "`irene learn` again when it is quiet"
        for flag, n in flags.items()
        if n > count / 10 and flag in ("busy", "throttled", "lost")
    ]
    if readings.source == "estimated":
        notes.append("energy is time × an estimated power: no meter counts it here")
    return notes


def _examined(machine: LearnedMachine, here: Place, journal: Journal) -> LearnedMachine:
    """Run whole models that it has not seen, and keep how far off it is."""
    rows: list[dict[str, Any]] = []
    for block in EXAM:
        found = here.runner.measure(Item(f"exam {block.family}", "exam", block=block))
        if found.whole is None:
            continue
        journal.append(found)
        name = str(block.fields["name"])
        spec = RunSpec.asked(name, dict(block.run)).of(name)
        predicted = predict_run(spec, machine).root.features
        rows.append(
            {
                "model": name,
                "run": dict(block.run),
                "measured_s": found.whole.seconds,
                "spread": found.whole.spread,
                "predicted_s": predicted["time_s"],
                "error_percent": 100 * (predicted["time_s"] / found.whole.seconds - 1),
                "disturbed": list(found.flags),
            }
        )
    told = [float(machine.width("model", row["measured_s"])) for row in rows]
    errors = [abs(math.log(row["predicted_s"] / row["measured_s"])) for row in rows]
    wider = max([1.0, *(e / width for e, width in zip(errors, told, strict=True))])
    widths = {**machine.widths, "model": machine.widths["model"] * [[1.0], [wider]]}
    return replace(
        machine, widths=widths, provenance={**machine.provenance, "exam": rows}
    )
