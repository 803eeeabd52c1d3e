"""`irene account`: where a program spent its energy, op by op."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from irene.cli.options import OUTPUT
from irene.cli.output import LEDGER_FILES, check_files, put_ledger, say
from irene.cli.progress import working
from irene.errors import UsageError
from irene.parameters import Asked

if TYPE_CHECKING:
    from irene.account import Ledger
    from irene.account.live.script import Program, ProgramRun
    from irene.account.live.session import Wanted

RECORDED = ("trace", "power", "offset_s", "device", "cpus")
PROGRAM, FILES, LEDGER = "a program", "recorded files", "the ledger"
USAGE = (
    "[options] SCRIPT ARGS…\n       irene account --trace FILE --power FILE [options]"
)
EXAMPLES = """\
examples:
  irene account --skip 5 --steps 20 train.py --epochs 1
  irene account --folder run -m package.train --lr 1e-4
  torchrun --nproc-per-node 2 -m irene account --folder run train.py
  irene account --merge run
  irene account --trace trace.json.gz --power samples.irene
  irene account --trace trace.json --power spl.txt --offset-s -3600 --device cuda:0
  irene account --trace trace.json --power power.csv --by op --top 20
  irene account --trace host.xplane.pb --power power.csv --hlo step.hlo.txt
  irene account --trace trace.json --power power.csv --html ledger.html
  irene account --trace trace.json --power power.csv --perfetto energy.json.gz
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        program: Script in Python that uses PyTorch, and its arguments.
        module: Module to run instead, as in `python -m`.
        level: Every op (default), or modules alone, which disturbs less.
        skip: Steps at the start that are not recorded.
        warmup: Steps after these that are recorded and thrown away.
        steps: Steps to record (default: all).
        meters: Meters, separated by commas, as irene doctor lists them.
        period: Seconds between two power samples (default 0.01, or as often as the
            meters have something new if that is less).
        idle_s: Watch the machine so long before the program, to know its idle power.
        folder: Keep trace, events and power samples here; needed by several processes.
        merge: Run nothing: the ledger of all processes that recorded into a folder.
        trace: Op events: a Kineto trace of the PyTorch profiler, an XPlane of
            TensorFlow or JAX, or a TensorFlow 1 timeline; plain or gzipped.
        hlo: Text of a compiled module, for a trace of JAX that has none itself.
        power: Power of the same seconds: a recording of irene, a CSV of times and watts
            or joules, MLPerf's spl.txt, or a log of nvidia-smi, dcgmi dmon, perf stat,
            Prometheus (DCGM, Kepler), Grafana, Scaphandre, Zeus, CodeCarbon or Home
            Assistant.
        tz: Zone of a power log whose times name none, as Europe/Berlin or +01:00
            (default: UTC, if no other zone would do).
        offset_s: Seconds to add to the times of the power file (default 0).
        device: Device that a power log covers: cpu, cuda:0, … (default: the whole
            machine); a recording says so itself.
        error_percent: How exact the meter behind a power log is: half its 90 %
            interval; a recording says so itself.
        cpus: CPUs of the machine: charge only the process's share of CPU energy, from
            the loads in the recording.
        split: How ops that run at once share: alike (default), by FLOPs, by threads, or
            by the multiprocessors they keep busy.
        idle_w: Power while nothing runs: up to it, energy without an op is idle.
        tree: Saved tree of `irene trace` of one step, for joules per FLOP and byte.
        by: What to group by.
        shapes: Tell ops apart by the shapes of their inputs; a recorded trace must have
            them (record_shapes).
        top: Show the N largest rows only.
        json: One JSON document: irene.tree/1 with the ledger irene.ledger/1 in it.
        csv: Write the view as CSV.
        parquet: Write every event with its energy.
        html: Write a page with all views.
        perfetto: Write a trace with energies and power lanes for ui.perfetto.dev; .json
            or .json.gz.
    """

    program: Annotated[
        tuple[str, ...], Asked(word=True, metavar="SCRIPT ARGS…", rest=True)
    ] = ()
    module: Annotated[
        tuple[str, ...],
        Asked(flags=("-m",), metavar="MODULE ARGS…", group=PROGRAM, rest=True),
    ] = ()
    level: Annotated[Literal["op", "module"], Asked(group=PROGRAM)] = "op"
    skip: Annotated[int, Asked(metavar="N", group=PROGRAM)] = 0
    warmup: Annotated[int, Asked(metavar="N", group=PROGRAM)] = 0
    steps: Annotated[int | None, Asked(metavar="N", group=PROGRAM)] = None
    meters: Annotated[str, Asked(metavar="NAMES", group=PROGRAM)] = "auto"
    period: Annotated[float | None, Asked(metavar="S", group=PROGRAM)] = None
    idle_s: Annotated[float, Asked(metavar="S", group=PROGRAM)] = 0.0
    folder: Annotated[str | None, Asked(metavar="DIR", group=PROGRAM)] = None
    merge: Annotated[str | None, Asked(metavar="DIR", group=PROGRAM)] = None
    trace: Annotated[str | None, Asked(metavar="FILE", group=FILES)] = None
    hlo: Annotated[tuple[str, ...], Asked(metavar="FILE", group=FILES)] = ()
    power: Annotated[str | None, Asked(metavar="FILE", group=FILES)] = None
    tz: Annotated[str, Asked(metavar="ZONE", group=FILES)] = ""
    offset_s: Annotated[float | None, Asked(metavar="X", group=FILES)] = None
    device: Annotated[str | None, Asked(metavar="NAME", group=FILES)] = None
    error_percent: Annotated[float | None, Asked(metavar="P", group=FILES)] = None
    cpus: Annotated[int | None, Asked(metavar="N", group=FILES)] = None
    split: Annotated[
        Literal["equal", "flops", "threads", "sm"], Asked(group=LEDGER)
    ] = "equal"
    idle_w: Annotated[float | None, Asked(metavar="W", group=LEDGER)] = None
    tree: Annotated[str | None, Asked(metavar="FILE", group=LEDGER)] = None
    by: Annotated[
        Literal["module", "layer", "op", "operation", "phase", "device"],
        Asked(group=LEDGER),
    ] = "module"
    shapes: Annotated[bool, Asked(group=LEDGER)] = False
    top: Annotated[int | None, Asked(metavar="N", least=1, group=LEDGER)] = None
    json: Annotated[bool, Asked(group=OUTPUT)] = False
    csv: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    parquet: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    html: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None
    perfetto: Annotated[str | None, Asked(metavar="FILE", group=OUTPUT)] = None


def run(options: Options) -> int:
    """Account for a program or what was recorded, then print or write."""
    check_files(*(getattr(options, name) for name in LEDGER_FILES))
    if options.merge or options.program or options.module:
        return _run_or_merge(options)
    trace, power = options.trace, options.power
    if not trace or not power:
        raise UsageError(
            "give a script, or both --trace FILE and --power FILE; `irene account "
            "--help` says more"
        )
    put_ledger(_recorded_ledger(trace, power, options), options)
    return 0


def _recorded_ledger(trace_file: str, power_file: str, options: Options) -> Ledger:
    from irene.account import attribute
    from irene.account.readers.recorded import read_power, read_trace

    with working(f"reading {power_file}"):
        power = read_power(
            power_file,
            options.offset_s or 0.0,
            device=options.device,
            idle_w=options.idle_w,
            cpus=options.cpus,
            error_percent=options.error_percent,
            zone=options.tz,
        )
    with working(f"reading {trace_file}"):
        trace = read_trace(trace_file, options.hlo, options.shapes)
    if not trace.has_clock and options.offset_s is None:
        _refuse_clock(trace.events.span_ns, power.series[0].span_ns)
    power.check_zone(trace.events.span_ns)
    with working("accounting"):
        events = trace.events.noted(*power.notes)
        return attribute(events, power.series, split=options.split)


def _refuse_clock(trace_ns: tuple[int, int], power_ns: tuple[int, int]) -> None:
    """Two clocks that do not know each other may overlap by accident."""
    offset_s = (trace_ns[0] - power_ns[0]) * 1e-9
    raise UsageError(
        "the trace has no clock base (baseTimeNanoseconds): its times are from "
        f"{trace_ns[0] * 1e-9:.3f} s to {trace_ns[1] * 1e-9:.3f} s of a clock of its "
        f"own, the power's from {power_ns[0] * 1e-9:.3f} s to "
        f"{power_ns[1] * 1e-9:.3f} s since 1970; say with --offset-s how they fit "
        f"(--offset-s {offset_s:.3f} would let both begin together)"
    )


# Programs that are run here -------------------------------------------------------


def _run_or_merge(options: Options) -> int:
    """Run a program or merge a folder; the program's exit code is passed on."""
    given = [name for name in RECORDED if getattr(options, name) is not None]
    if given:
        word = given[0].replace("_", "-")
        raise UsageError(f"--{word} is for recorded files, not for a program or folder")
    if options.merge:
        if options.program or options.module:
            raise UsageError("--merge runs nothing: give a folder or a program")
        put_ledger(_merged(options.merge, options), options)
        return 0
    return _run_program(options)


def _merged(folder: str, options: Options) -> Ledger:
    from irene.account.live.ranks import merge_folder

    with working(f"merging {folder}"):
        return merge_folder(folder, split=options.split, idle_w=options.idle_w)


def _run_program(options: Options) -> int:
    from irene.account.live.script import run_program

    program, wanted = _program(options), _wanted(options)
    with _output_to_errors() if options.json else nullcontext():
        done = run_program(program, wanted)
    code = done.exit_code
    try:
        _report(done, options)
    except Exception as error:
        # The program's failure matters more than ours in writing about it.
        if code == 0:
            raise
        say(f"irene account: {error}")
    return code


def _program(options: Options) -> Program:
    from irene.account.live.script import Program

    if options.module:
        return Program(options.module[0], tuple(options.module[1:]), is_module=True)
    words = options.program[1:] if options.program[0] == "--" else options.program
    if not words:
        raise UsageError("give a script to run after --")
    return Program(words[0], tuple(words[1:]))


def _wanted(options: Options) -> Wanted:
    from irene.account.live.session import Wanted
    from irene.account.live.steps import Schedule
    from irene.meters.finding import names_in

    return Wanted(
        options.level,
        names_in(options.meters),
        options.period,
        Schedule(options.skip, options.warmup, options.steps),
        options.split,
        options.idle_w,
        options.idle_s,
        Path(options.folder).absolute() if options.folder else None,
        options.shapes,
    )


def _report(done: ProgramRun, options: Options) -> None:
    """After a program, its own output is what belongs on standard output."""
    if done.problem is not None:
        raise done.problem
    if done.live.ledger is not None:
        with nullcontext() if options.json else redirect_stdout(sys.stderr):
            put_ledger(done.live.ledger, options)
    elif done.live.rank.samples_power:
        say(f"irene account: {done.live.why_none()}")


@contextmanager
def _output_to_errors() -> Iterator[None]:
    """Standard output of this process and those it starts goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
