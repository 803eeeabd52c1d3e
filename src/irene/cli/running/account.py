"""`irene account`: where a program spent its energy, op by op."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.cli.options import add_rows, whole_number
from irene.cli.output import check_ledger_output, put_ledger
from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.account import Ledger
    from irene.account.live.script import Program, ProgramRun
    from irene.account.live.session import Wanted

RECORDED = ("trace", "power", "offset_s", "device", "cpus")
VIEWS = ("module", "layer", "op", "operation", "phase", "device")
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


Rows = tuple[tuple[str, dict[str, Any], str], ...]
PROGRAM: Rows = (
    ("program", {"nargs": argparse.REMAINDER, "metavar": "SCRIPT ARGS…"},
     "a Python script that uses PyTorch, and its arguments"),
    ("-m", {"dest": "module", "nargs": argparse.REMAINDER, "metavar": "MODULE ARGS…"},
     "a module to run instead, as in `python -m`"),
    ("--level", {"choices": ("op", "module"), "default": "op"},
     "every op (default), or modules alone, which disturbs less"),
    ("--skip", {"type": whole_number, "default": 0, "metavar": "N"},
     "steps at the start that are not recorded"),
    ("--warmup", {"type": whole_number, "default": 0, "metavar": "N"},
     "steps after these that are recorded and thrown away"),
    ("--steps", {"type": whole_number, "metavar": "N"},
     "steps to record (default: all)"),
    ("--meters", {"default": "auto", "metavar": "NAMES"},
     "meters, separated by commas, as irene doctor lists them (default auto)"),
    ("--period", {"type": float, "metavar": "S"},
     "seconds between two power samples (default 0.01, or as often as the meters "
     "have something new if that is less)"),
    ("--idle-s", {"type": float, "default": 0.0, "metavar": "S"},
     "watch the machine so long before the program, to know its idle power"),
    ("--folder", {"metavar": "DIR"},
     "keep trace, events and power samples here; needed by several processes"),
    ("--merge", {"metavar": "DIR"},
     "run nothing: the ledger of all processes that recorded into a folder"),
)  # fmt: skip
RECORDED_FILES: Rows = (
    ("--trace", {"metavar": "FILE"},
     "op events: a Kineto trace of the PyTorch profiler, an XPlane of TensorFlow or "
     "JAX, or a TensorFlow 1 timeline; plain or gzipped"),
    ("--hlo", {"metavar": "FILE", "action": "append", "default": []},
     "text of a compiled module, for a trace of JAX that has none itself"),
    ("--power", {"metavar": "FILE"},
     "power of the same seconds: a recording of irene, a CSV of times and watts or "
     "joules, MLPerf's spl.txt, or a log of nvidia-smi, dcgmi dmon, perf stat, "
     "Prometheus (DCGM, Kepler), Grafana, Scaphandre, Zeus, CodeCarbon or Home "
     "Assistant"),
    ("--tz", {"default": "", "metavar": "ZONE"},
     "zone of a power log whose times name none, as Europe/Berlin or +01:00 "
     "(default: UTC, if no other zone would do)"),
    ("--offset-s", {"type": float, "metavar": "X"},
     "seconds to add to the times of the power file (default 0)"),
    ("--device", {"metavar": "NAME"},
     "device that a power log covers: cpu, cuda:0, … (default: the whole machine); a "
     "recording says so itself"),
    ("--error-percent", {"type": float, "metavar": "P"},
     "how exact the meter behind a power log is: half its 90 %% interval; a "
     "recording says so itself"),
    ("--cpus", {"type": int, "metavar": "N"},
     "CPUs of the machine: charge only the process's share of CPU energy, from the "
     "loads in the recording"),
)  # fmt: skip
LEDGER: Rows = (
    ("--split", {"choices": ("equal", "flops", "threads", "sm"), "default": "equal"},
     "how ops that run at once share: alike (default), by FLOPs, by threads, or by "
     "the multiprocessors they keep busy"),
    ("--idle-w", {"type": float, "metavar": "W"},
     "power while nothing runs: up to it, energy without an op is idle"),
    ("--tree", {"metavar": "FILE"},
     "saved tree of `irene trace` of one step, for joules per FLOP and byte"),
    ("--by", {"choices": VIEWS, "default": "module"},
     "what to group by (default module)"),
    ("--shapes", {"action": "store_true"},
     "tell ops apart by the shapes of their inputs; a recorded trace must have them "
     "(record_shapes)"),
    ("--top", {"type": int, "metavar": "N"}, "show the N largest rows only"),
)  # fmt: skip
OUTPUT: Rows = (
    ("--json", {"action": "store_true"},
     "one JSON document: irene.tree/1 with the ledger irene.ledger/1 in it"),
    ("--csv", {"metavar": "FILE"}, "write the view as CSV"),
    ("--parquet", {"metavar": "FILE"}, "write every event with its energy"),
    ("--html", {"metavar": "FILE"}, "write a page with all views"),
    ("--perfetto", {"metavar": "FILE"},
     "write a trace with energies and power lanes for ui.perfetto.dev; .json or "
     ".json.gz"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_rows(parser, "a program", PROGRAM)
    add_rows(parser, "recorded files", RECORDED_FILES)
    add_rows(parser, "the ledger", LEDGER)
    add_rows(parser, "output", OUTPUT)


def run(options: argparse.Namespace) -> int:
    """Account for a program or what was recorded, then print or write."""
    if options.merge or options.program or options.module:
        return _run_or_merge(options)
    if not options.trace or not options.power:
        raise UsageError(
            "give a script, or both --trace FILE and --power FILE; `irene account "
            "--help` says more"
        )
    check_ledger_output(options)
    put_ledger(_recorded_ledger(options), options)
    return 0


def _recorded_ledger(options: argparse.Namespace) -> Ledger:
    from irene.account import attribute
    from irene.account.readers.recorded import read_power, read_trace
    from irene.cli.progress import working

    with working(f"reading {options.power}"):
        power = read_power(
            options.power,
            options.offset_s or 0.0,
            device=options.device,
            idle_w=options.idle_w,
            cpus=options.cpus,
            error_percent=options.error_percent,
            zone=options.tz,
        )
    with working(f"reading {options.trace}"):
        trace = read_trace(options.trace, options.hlo, options.shapes)
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


def _run_or_merge(options: argparse.Namespace) -> int:
    """Run a program or merge a folder; the program's exit code is passed on.

    Raises:
        UsageError: The options contradict each other.
    """
    given = [name for name in RECORDED if getattr(options, name) is not None]
    if given:
        word = given[0].replace("_", "-")
        raise UsageError(f"--{word} is for recorded files, not for a program or folder")
    check_ledger_output(options)
    if options.merge:
        if options.program or options.module:
            raise UsageError("--merge runs nothing: give a folder or a program")
        put_ledger(_merged(options), options)
        return 0
    return _run_program(options)


def _merged(options: argparse.Namespace) -> Ledger:
    from irene.account.live.ranks import merge_folder
    from irene.cli.progress import working

    with working(f"merging {options.merge}"):
        return merge_folder(options.merge, split=options.split, idle_w=options.idle_w)


def _run_program(options: argparse.Namespace) -> int:
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
        print(f"irene account: {error}", file=sys.stderr)
    return code


def _program(options: argparse.Namespace) -> Program:
    from irene.account.live.script import Program

    if options.module:
        return Program(options.module[0], tuple(options.module[1:]), is_module=True)
    words = options.program[1:] if options.program[0] == "--" else options.program
    if not words:
        raise UsageError("give a script to run after --")
    return Program(words[0], tuple(words[1:]))


def _wanted(options: argparse.Namespace) -> Wanted:
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


def _report(done: ProgramRun, options: argparse.Namespace) -> None:
    """After a program, its own output is what belongs on standard output."""
    if done.problem is not None:
        raise done.problem
    if done.live.ledger is not None:
        with nullcontext() if options.json else redirect_stdout(sys.stderr):
            put_ledger(done.live.ledger, options)
    elif done.live.rank.samples_power:
        print(f"irene account: {done.live.why_none()}", file=sys.stderr)


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
