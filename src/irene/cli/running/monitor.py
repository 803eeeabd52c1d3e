"""`irene monitor`: what a whole program uses, or this machine for some time."""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from irene.cli.output import check_files, put_json, put_parts, say
from irene.errors import IreneError, UsageError
from irene.human import human_range
from irene.parameters import Asked
from irene.show.terminal import columns
from irene.show.text import plain
from irene.whole_file import whole_file

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.console import RenderableType
    from rich.table import Table

    from irene.measure.windows.exported import Figure
    from irene.measure.windows.monitored import Monitored
    from irene.meters.sampling.sampler_process import SamplerProcess
    from irene.meters.sampling.totals import Window

USAGE = "[options] -- COMMAND ARGS…"
EXAMPLES = """\
examples:
  irene monitor -- python train.py --epochs 3
  irene monitor --plot power.svg -- ./simulate
  irene monitor --meters rapl,nvml --period 0.05 --json -- make > energy.json
  irene monitor --seconds 10
  irene monitor --prometheus 9101            until Ctrl-C
  irene monitor --meters http://192.168.1.7/rpc/Switch.GetStatus?id=0 -- ./simulate
"""
BARS = "▁▂▃▄▅▆▇█"
GAP = "·"
SPARK_WIDTH = 40
UNITS = {"percent": "%", "mhz": "Hz", "bytes": "B", "celsius": "°C"}
UNIT_SIZES = {"mhz": 1e6}


SHORTEST_S = 0.001


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        command: The program and its arguments.
        seconds: Watch this machine for N seconds instead of running a program.
        period: Seconds between two samples.
        meters: Meters, separated by commas, as irene doctor lists them.
        json: One JSON document; the program's output goes to standard error.
        csv: Write the samples as a plain table.
        out: Keep the recording; samples are streamed to it.
        plot: Draw power over time: .svg, .png or .html.
        track: Log energy, power and time: to tensorboard:FOLDER, or a line each to a
            .csv file.
        prometheus: Answer /metrics on this port meanwhile; 0 for a free one.
        otlp: Send to an OpenTelemetry collector meanwhile, as
            http://host:4318/v1/metrics.
    """

    command: Annotated[
        tuple[str, ...], Asked(word=True, metavar="COMMAND", rest=True)
    ] = ()
    seconds: Annotated[float | None, Asked(metavar="N", least=SHORTEST_S)] = None
    period: Annotated[float, Asked(metavar="S", least=SHORTEST_S)] = 0.1
    meters: Annotated[str, Asked(metavar="NAMES")] = "auto"
    json: bool = False
    csv: Annotated[str | None, Asked(metavar="FILE")] = None
    out: Annotated[str | None, Asked(metavar="FILE")] = None
    plot: Annotated[str | None, Asked(metavar="FILE")] = None
    track: Annotated[str | None, Asked(metavar="WHERE")] = None
    prometheus: Annotated[int | None, Asked(metavar="PORT", least=0)] = None
    otlp: Annotated[str | None, Asked(metavar="URL")] = None


def run(options: Options) -> int:
    """Run the program, report, and pass its exit code on."""
    from irene.measure.windows.monitoring import monitor
    from irene.meters.finding import names_in

    check_files(plot=options.plot)
    if options.track:
        _check_tracker(options.track)
    command = options.command[options.command[:1] == ("--",) :]
    shown = options.prometheus is not None or options.otlp

    def beside(sampler: SamplerProcess) -> AbstractContextManager[None]:
        from irene.measure.windows.exported import Exported

        return exporting("monitor", options, Exported(sampler))

    found = monitor(
        command,
        options.seconds or (math.inf if shown and not command else None),
        names_in(options.meters),
        options.period,
        Path(options.out) if options.out else None,
        output_to_errors=options.json,
        beside=beside if shown else nullcontext,
    )
    try:
        _report(found, options)
        _write_files(found, options)
    except IreneError as error:
        # The program's failure matters more than ours in writing about it.
        if found.exit_code == 0:
            raise
        say(f"irene monitor: {error}")
    return found.exit_code


@contextmanager
def exporting(
    command: str, options: Any, figures: Callable[[], list[Figure]]
) -> Iterator[None]:
    """Show figures to Prometheus and OpenTelemetry, as the options of a command say."""
    from irene.measure.windows.exported import to_otlp, to_prometheus

    with ExitStack() as stack:
        if options.prometheus is not None:
            port = stack.enter_context(to_prometheus(figures, options.prometheus))
            say(f"irene {command}: http://localhost:{port}/metrics")
        if options.otlp:
            stack.enter_context(to_otlp(figures, options.otlp))
        yield


def _report(found: Monitored, options: Options) -> None:
    if options.json:
        put_json(_document(found, options))
        return
    # After a program, its output is what belongs on standard output.
    put_parts(_report_parts(found), stderr=bool(found.command))
    stream = sys.stderr if found.command else sys.stdout
    for kind, path in (("recording", options.out), ("samples", options.csv),
                       ("picture", options.plot)):  # fmt: skip
        if path:
            print(f"  {kind:<9}  {path}", file=stream)


def _write_files(found: Monitored, options: Options) -> None:
    if options.csv:
        _write_samples(found, Path(options.csv))
    if options.plot:
        from irene.show.picture.answer_pictures import monitor_picture

        monitor_picture(found).save(options.plot)
    if options.track:
        from irene.account.callbacks.trackers import track

        track(found, options.track)


def _check_tracker(to: str) -> None:
    from irene.account.callbacks.trackers import TO_FILES, tracker_of

    if tracker_of(to)[0] not in TO_FILES:
        raise UsageError(
            f"no run of {to} is open here: give tensorboard:FOLDER or a .csv file, or "
            "irene.track inside of the program"
        )


def _write_samples(found: Monitored, path: Path) -> None:
    """A row for each sample; seconds since the program began, and every channel."""
    from irene.tables import csv_of_rows

    recording = found.recording
    names = [f"{c.name} {c.quantity}" for c in recording.channels]
    rows = []
    for time_ns, values in zip(recording.time_ns, recording.values, strict=True):
        cells = [None if math.isnan(v) else v for v in values.tolist()]
        rows.append([f"{(int(time_ns) - found.begin_ns) * 1e-9:.6f}", *cells])
    with whole_file(path) as file:
        file.write(csv_of_rows(["time_s", *names], rows).encode())


# The document -------------------------------------------------------------------


def _document(found: Monitored, options: Options) -> dict[str, Any]:
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
        "channels": list(map(_channel, found.windows, found.peaks)),
        "samples": {"period_s": options.period, **found.counts},
        "notes": list(found.notes),
    }


def _began(found: Monitored) -> str | None:
    """Time of day, in UTC."""
    import numpy as np

    if not found.recording.clock:
        return None
    epoch_ns = int(found.recording.epoch_ns(np.array([found.begin_ns]))[0])
    moment = datetime.datetime.fromtimestamp(epoch_ns * 1e-9, datetime.UTC)
    return moment.isoformat(timespec="milliseconds")


def _meters(found: Monitored) -> list[dict[str, Any]]:
    """What each meter adds to the total."""
    sums: dict[str, float] = {}
    for window in found.windows:
        if window.channel.in_total:
            name = window.channel.name.partition(":")[0]
            sums[name] = sums.get(name, 0.0) + window.energy_j
    return [{"meter": name, "energy_j": _known(j)} for name, j in sums.items()]


def _channel(window: Window, peak: float) -> dict[str, Any]:
    channel = window.channel
    return {
        "name": channel.name,
        "quantity": channel.quantity,
        "covers": channel.covers,
        "source": channel.source,
        "counted": channel.counted,
        "energy_j": _known(window.energy_j),
        "half_width_j": _known(window.half_width_j) if channel.is_energy else None,
        "mean": _known(window.mean),
        "peak": _known(peak),
        "known_s": window.known_s,
        "complete": window.complete,
        "note": channel.note,
        "missing": channel.missing,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


# On a terminal --------------------------------------------------------------------


def _report_parts(found: Monitored) -> list[RenderableType]:
    """The report, part by part."""
    from rich.padding import Padding

    ended = f", exit code {found.exit_code}" if found.exit_code else ""
    lines = [
        f"irene monitor: {plain(found.title)}{ended}",
        f"  energy     {_energy(found)}",
    ]
    if math.isfinite(found.peak_power_w):
        powers = f"{_watts(found.mean_power_w)} mean, {_watts(found.peak_power_w)} peak"
        lines.append(f"  power      {powers}  {sparkline(found.total_power_w)}")
    lines.append(f"  time       {_time(found)}")
    table = (
        [Padding(_table(found), (0, 0, 0, 2), expand=False)] if found.windows else []
    )
    return [*lines, *table, *(f"  note       {plain(note)}" for note in found.notes)]


def _energy(found: Monitored) -> str:
    energy = found.energy
    if energy is None:
        return "not known"
    return f"{human_range(energy)}, {energy.source} by {energy.produced_by}"


def _amount(value: float, unit: str) -> str:
    from irene.show.picture.units import amount

    return amount(value, unit)


def _watts(value: float) -> str:
    return _amount(value, "W") if math.isfinite(value) else "unknown"


def _time(found: Monitored) -> str:
    text = _amount(found.duration_s, "s")
    if math.isfinite(found.cpu_s) and found.duration_s > 0:
        cores = found.cpu_s / found.duration_s
        text += f", of CPUs {_amount(found.cpu_s, 's')} ({cores:.2f} at a time)"
    return text


def _table(found: Monitored) -> Table:
    """A line for each channel: what it is, energy, mean and peak."""
    words = ("<channel", "<covers", "<source")
    table = columns(*words, "energy", "mean", "peak", goes=("source", "covers"))
    for row in map(_row, found.windows, found.peaks):
        table.add_row(*row)
    return table


def _row(window: Window, peak: float) -> tuple[str, str, str, str, str, str]:
    channel = window.channel
    unit = "W" if channel.is_energy else UNITS[channel.quantity]
    size = UNIT_SIZES.get(channel.quantity, 1.0)
    mean, most = (_amount(v * size, unit) for v in (window.mean, peak))
    if not channel.is_energy:
        return channel.name, "", "", "", mean, most
    half = f" ± {_amount(window.half_width_j, 'J')}" if window.complete else ""
    energy = _amount(window.energy_j, "J") + half
    apart = " (missing)" if channel.missing else " (not counted)"
    covers = channel.covers + ("" if channel.counted else apart)
    return channel.name, covers, channel.source, energy, mean, most


def sparkline(values: npt.NDArray[np.float64], width: int = SPARK_WIDTH) -> str:
    """Values over time in one line, from zero up; a dot where nothing is known."""
    import numpy as np

    parts = np.array_split(values, min(width, len(values))) if len(values) else []
    means = [float(p[np.isfinite(p)].mean()) if np.isfinite(p).any() else math.nan
             for p in parts]  # fmt: skip
    largest = max((m for m in means if math.isfinite(m)), default=0.0)
    return "".join(_bar(mean, largest) for mean in means)


def _bar(value: float, largest: float) -> str:
    if not math.isfinite(value):
        return GAP
    part = value / largest if largest > 0 else 0.0
    return BARS[min(max(round(part * (len(BARS) - 1)), 0), len(BARS) - 1)]
