"""`irene account SCRIPT`: a program run here and accounted for; folders merged."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from irene.cli.options import whole_number
from irene.cli.output import check_ledger_output, put_ledger
from irene.errors import UsageError

if TYPE_CHECKING:
    from irene.account import Ledger
    from irene.account.live.script import Program, ProgramRun
    from irene.account.live.session import Wanted

__all__ = ["add_program_options", "is_wanted", "run"]

RECORDED = ("trace", "power", "offset_s", "device", "cpus")


def add_program_options(parser: argparse.ArgumentParser) -> None:
    """A program to run, or a folder that programs have left."""
    group = parser.add_argument_group("a program")
    group.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="SCRIPT ARGS…",
        help="a Python script that uses PyTorch, and its arguments",
    )  # fmt: skip
    group.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE ARGS…",
        help="a module to run instead, as in `python -m`",
    )  # fmt: skip
    group.add_argument(
        "--level", choices=("op", "module"), default="op",
        help="every op (default), or modules alone, which disturbs less",
    )  # fmt: skip
    group.add_argument(
        "--skip", type=whole_number, default=0, metavar="N",
        help="steps at the start that are not recorded",
    )  # fmt: skip
    group.add_argument(
        "--warmup", type=whole_number, default=0, metavar="N",
        help="steps after these that are recorded and thrown away",
    )  # fmt: skip
    group.add_argument(
        "--steps", type=whole_number, metavar="N",
        help="steps to record (default: all)",
    )  # fmt: skip
    group.add_argument(
        "--meters", default="auto", metavar="NAMES",
        help="meters, separated by commas, as irene doctor lists them (default auto)",
    )  # fmt: skip
    group.add_argument(
        "--period", type=float, metavar="S",
        help="seconds between two power samples (default 0.01, or as often as the "
        "meters have something new if that is less)",
    )  # fmt: skip
    group.add_argument(
        "--idle-s", type=float, default=0.0, metavar="S",
        help="watch the machine so long before the program, to know its idle power",
    )  # fmt: skip
    group.add_argument(
        "--folder", metavar="DIR",
        help="keep trace, events and power samples here; needed by several processes",
    )  # fmt: skip
    group.add_argument(
        "--merge", metavar="DIR",
        help="run nothing: the ledger of all processes that recorded into a folder",
    )  # fmt: skip


def is_wanted(options: argparse.Namespace) -> bool:
    """Whether a program is to be run or a folder to be merged."""
    return bool(options.merge or options.program or options.module)


def run(options: argparse.Namespace) -> int:
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
    return _run(options)


def _merged(options: argparse.Namespace) -> Ledger:
    from irene.account.live.ranks import merge_folder
    from irene.cli.progress import working

    with working(f"merging {options.merge}"):
        return merge_folder(options.merge, split=options.split, idle_w=options.idle_w)


def _run(options: argparse.Namespace) -> int:
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
