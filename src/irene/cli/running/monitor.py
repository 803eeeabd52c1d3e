"""`irene monitor`: what a whole program uses, or this machine for some time."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irene.errors import IreneError

if TYPE_CHECKING:
    from irene.measure.windows.monitored import ChannelUse, Monitored

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  irene monitor -- python train.py --epochs 3
  irene monitor --plot power.svg -- ./simulate
  irene monitor --meters rapl,nvml --period 0.05 --json -- make > energy.json
  irene monitor --seconds 10
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene monitor [options] -- COMMAND ARGS…"
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add(
        "command", nargs=argparse.REMAINDER, metavar="COMMAND",
        help="the program and its arguments",
    )  # fmt: skip
    add(
        "--seconds", type=_positive, metavar="N",
        help="watch this machine for N seconds instead of running a program",
    )  # fmt: skip
    add(
        "--period", type=_positive, default=0.1, metavar="S",
        help="seconds between two samples (default 0.1)",
    )  # fmt: skip
    add(
        "--meters", default="auto", metavar="NAMES",
        help="meters, separated by commas, as irene doctor lists them (default auto)",
    )  # fmt: skip
    add(
        "--json", action="store_true",
        help="one JSON document; the program's output goes to standard error",
    )  # fmt: skip
    add("--csv", type=Path, metavar="FILE", help="write the samples as a plain table")
    add("--out", type=Path, metavar="FILE",
        help="keep the recording; samples are streamed to it")  # fmt: skip
    add("--plot", type=Path, metavar="FILE",
        help="draw power over time: .svg, .png or .html")  # fmt: skip


def _positive(word: str) -> float:
    value = float(word)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{word} is not above zero")
    return value


def run(options: argparse.Namespace) -> int:
    """Run the program, report, and pass its exit code on."""
    from irene.measure.windows.monitoring import monitor

    if options.plot:
        from irene.show.picture import check_drawable

        check_drawable(options.plot)
    command = options.command
    if command[:1] == ["--"]:
        command = command[1:]
    found = monitor(
        command,
        options.seconds,
        [name.strip() for name in options.meters.split(",")],
        options.period,
        options.out,
        output_to_errors=options.json,
    )
    with _kept(found.exit_code) as code:
        _report(found, options)
        for write in _files(found, options):
            write()
    return code()


@contextmanager
def _kept(exit_code: int) -> Iterator[Callable[[], int]]:
    """The program's failure matters more than ours in writing about it."""
    try:
        yield lambda: exit_code
    except IreneError as error:
        if exit_code == 0:
            raise
        print(f"irene monitor: {error}", file=sys.stderr)


def _report(found: Monitored, options: argparse.Namespace) -> None:
    if options.json:
        json.dump(_document(found, options), sys.stdout, indent=2, allow_nan=False)
        print()
        return
    from irene.cli.running.monitor_screen import report_lines

    # After a program, its output is what belongs on standard output.
    stream = sys.stderr if found.command else sys.stdout
    print(*report_lines(found), sep="\n", file=stream)
    for kind, path in (("recording", options.out), ("samples", options.csv),
                       ("picture", options.plot)):  # fmt: skip
        if path:
            print(f"  {kind:<9}  {path}", file=stream)


def _files(
    found: Monitored, options: argparse.Namespace
) -> Iterator[Callable[[], object]]:
    if options.csv:
        yield lambda: _write_samples(found, options.csv)
    if options.plot:
        yield lambda: found.picture().save(options.plot)


def _write_samples(found: Monitored, path: Path) -> None:
    """A row for each sample; seconds since the program began, and every channel."""
    from irene.tables import csv_of_rows
    from irene.whole_file import whole_file

    recording = found.recording
    names = [f"{c.name} {c.quantity}" for c in recording.channels]
    rows = []
    for time_ns, values in zip(recording.time_ns, recording.values, strict=True):
        cells = [None if math.isnan(v) else v for v in values.tolist()]
        rows.append([f"{(int(time_ns) - found.begin_ns) * 1e-9:.6f}", *cells])
    with whole_file(path) as file:
        file.write(csv_of_rows(["time_s", *names], rows).encode())


# The document -------------------------------------------------------------------


def _document(found: Monitored, options: argparse.Namespace) -> dict[str, Any]:
    energy = found.energy
    return {
        "schema": "irene.monitor/1",
        "command": list(found.command),
        "exit_code": found.exit_code,
        "began": _began(found),
        "duration_s": found.duration_s,
        "energy_j": energy.joules if energy else None,
        "low_j": energy.low if energy else None,
        "high_j": energy.high if energy else None,
        "source": energy.source if energy else None,
        "produced_by": energy.produced_by if energy else None,
        "mean_power_w": _known(found.mean_power_w),
        "peak_power_w": _known(found.peak_power_w),
        "cpu_s": _known(found.cpu_s),
        "meters": _meters(found),
        "channels": [_channel(use) for use in found.uses],
        "samples": {"period_s": options.period, **found.counts},
        "notes": list(found.notes),
    }


def _began(found: Monitored) -> str | None:
    """Time of day, in UTC."""
    import datetime

    import numpy as np

    if not found.recording.clock:
        return None
    epoch_ns = int(found.recording.epoch_ns(np.array([found.begin_ns]))[0])
    moment = datetime.datetime.fromtimestamp(epoch_ns * 1e-9, datetime.UTC)
    return moment.isoformat(timespec="milliseconds")


def _meters(found: Monitored) -> list[dict[str, Any]]:
    """What each meter adds to the total."""
    sums: dict[str, float] = {}
    for use in found.uses:
        if use.channel.is_energy and use.channel.counted:
            name = use.channel.name.partition(":")[0]
            sums[name] = sums.get(name, 0.0) + use.window.energy_j
    return [{"meter": name, "energy_j": _known(j)} for name, j in sums.items()]


def _channel(use: ChannelUse) -> dict[str, Any]:
    channel, window = use.channel, use.window
    return {
        "name": channel.name,
        "quantity": channel.quantity,
        "covers": channel.covers,
        "source": channel.source,
        "counted": channel.counted,
        "energy_j": _known(window.energy_j),
        "half_width_j": _known(window.half_width_j) if channel.is_energy else None,
        "mean": _known(window.mean),
        "peak": _known(use.peak),
        "known_s": window.known_s,
        "complete": window.complete,
        "note": channel.note,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
