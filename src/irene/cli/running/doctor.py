"""`irene doctor`: which meters work here, and what to do about those that do not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from irene.cli.output import put_json
from irene.cli.progress import working
from irene.errors import IreneError, UsageError
from irene.human import human_error
from irene.parameters import Asked
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from irene.meters.channel import Channel, Finding, Meter
    from irene.meters.cpu.kernel_files import Roots

USAGE = "[options]"
EXAMPLES = """\
examples:
  irene doctor
  irene doctor --seconds 5
  irene doctor --json
  irene doctor --sysfs ./copy-of-sys --seconds 0
"""
SCHEMA = "irene.doctor/1"
LABELS = {
    "cpu": "CPU",
    "cpus": "logical CPUs",
    "virtual": "virtual machine",
    "max_clock": "highest clock",
    "gpu": "GPU",
    "gpu_driver": "GPU driver",
}
UNITS = {
    "power_w": "W",
    "percent": "%",
    "mhz": "MHz",
    "celsius": "°C",
    "bytes": "bytes",
}
NOTHING = (
    "Nothing measures energy here. Energies of this machine are estimates from the "
    "load of its CPUs, and are labelled so."
)
NOT_EVEN = "Nothing measures energy here, and there is no load to estimate it from."
LABEL_WIDTH = 16
LONGEST_S = 3_600


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command is asked with.

    Attributes:
        seconds: Length of the live reading; 0 for none.
        sysfs: Look at this folder instead of /sys.
        json: One JSON document.
    """

    seconds: Annotated[float, Asked(least=0, metavar="S")] = 1.0
    sysfs: Annotated[str | None, Asked(metavar="ROOT")] = None
    json: bool = False


def run(options: Options) -> int:
    """Look, read for a moment, and print; a machine without meters is no failure."""
    from irene.meters.cpu.kernel_files import Roots

    if options.seconds > LONGEST_S:
        raise UsageError(f"--seconds must be at most {LONGEST_S}")
    roots = Roots(Path(options.sysfs)) if options.sysfs else Roots()
    with working("reading the meters"):
        document = _examine(roots, options.seconds)
    if options.json:
        put_json(document)
    else:
        _show(document)
    return 0


def _examine(roots: Roots, seconds: float) -> dict[str, Any]:
    """The document that is printed."""
    from irene.meters.estimate.cpu_estimate import basis
    from irene.meters.finding import ADDRESSED, METERS, choose, findings, plugins
    from irene.meters.machine import describe_machine

    found = findings(roots)
    live = _live([f for f in found if f.works], roots, seconds) if seconds else {}
    used = choose(found)
    return {
        "schema": SCHEMA,
        "machine": describe_machine(roots),
        "auto": used,
        "measured": _measured(found, used),
        "meters": [
            {
                "name": finding.meter,
                "about": METERS[finding.meter].about,
                "works": finding.works,
                "used": finding.meter in used,
                "detail": finding.detail,
                "remedy": finding.remedy,
                "channels": [_channel(c, live) for c in finding.channels],
            }
            for finding in found
        ],
        "by_address": list(ADDRESSED.values()),
        "of_other_packages": list(plugins()),
        "estimate": list(basis(roots).assumptions),
    }


def _measured(found: Sequence[Finding], used: Sequence[str]) -> list[str]:
    """What the energy that is measured covers."""
    channels = [c for f in found if f.meter in used for c in f.channels if c.in_total]
    return list(dict.fromkeys(c.covers for c in channels if c.source == "measured"))


def _channel(channel: Channel, live: Mapping[str, float]) -> dict[str, Any]:
    value = live.get(channel.name, math.nan)
    unit = "power_w" if channel.is_energy else channel.quantity
    return {
        **asdict(channel),
        "live": None if math.isnan(value) else {"quantity": unit, "value": value},
    }


def _live(found: Sequence[Finding], roots: Roots, seconds: float) -> dict[str, float]:
    """What every channel gives over a while: W of energies, else the last value."""
    import time

    from irene.meters.finding import METERS

    meters: list[Meter] = []
    for each in found:
        with suppress(IreneError):  # it was there a moment ago
            meters.append(METERS[each.meter].open(roots))
    try:
        began_s, first = time.monotonic(), [_values(meter) for meter in meters]
        time.sleep(seconds)
        since_s, last = time.monotonic() - began_s, [_values(meter) for meter in meters]
    finally:
        for meter in meters:
            meter.close()
    return {
        channel.name: (after - before) / since_s
        if channel.quantity == "energy_j"
        else after
        for meter, old, new in zip(meters, first, last, strict=True)
        for channel, before, after in zip(meter.channels, old, new, strict=True)
    }


def _values(meter: Meter) -> Sequence[float]:
    from irene.meters.channel import SensorLostError

    try:
        return meter.read()
    except SensorLostError:
        return [math.nan] * len(meter.channels)


# On a terminal --------------------------------------------------------------------


def _show(document: Mapping[str, Any]) -> None:
    """Print the document on a terminal, or as plain text where there is none."""
    from rich.console import Console

    console = Console(highlight=False)
    _heading(console, "machine")
    for name, value in document["machine"].items():
        _line(console, f"  {LABELS.get(name, name):{LABEL_WIDTH}}{value}")
    _heading(console, "meters")
    for meter in document["meters"]:
        _show_meter(console, meter)
    _line(console, f"  by address: {', '.join(document['by_address'])}")
    if document["of_other_packages"]:
        names = ", ".join(document["of_other_packages"])
        _line(console, f"  of other packages: {names}")
    _heading(console, "what is used")
    for line in _used(document):
        _line(console, f"  {line}")
    if "estimate" in document["auto"]:
        _heading(console, "the estimate")
        for line in document["estimate"]:
            _line(console, f"  {line}")


def _heading(console: Console, text: str) -> None:
    _line(console, text, "bold")


def _line(console: Console, text: str, style: str = "") -> None:
    from rich.text import Text

    # Not wrapped: a command has to stay in one piece to be copied.
    console.print(Text(plain(text), style=style), soft_wrap=True)


def _show_meter(console: Console, meter: Mapping[str, Any]) -> None:
    from rich.text import Text

    works = meter["works"]
    text = Text("  ")
    text.append("✓" if works else "✗", style="bold green" if works else "red")
    text.append(f" {meter['name']:9}", style="bold" if works else "")
    text.append(plain(f" {meter['about']}: {meter['detail']}"))
    console.print(text, soft_wrap=True)
    for channel in meter["channels"]:
        _line(
            console,
            f"      {_channel_line(channel)}",
            "cyan" if channel["live"] else "",
        )
    for line in filter(None, meter["remedy"].splitlines()):
        _line(
            console, f"      → {line}" if line[0] != " " else f"      {line}", "yellow"
        )


def _channel_line(channel: Mapping[str, Any]) -> str:
    facts = [_live_words(channel["live"]), channel["covers"], *_labels(channel)]
    return f"{channel['name']:22} {', '.join(filter(None, facts))}".rstrip()


def _live_words(live: Mapping[str, Any] | None) -> str:
    if live is None:
        return ""
    unit = UNITS[live["quantity"]]
    if unit == "bytes":
        return f"{live['value']:,.0f} bytes"
    return f"{live['value']:.1f} {unit}"


def _labels(channel: Mapping[str, Any]) -> Sequence[str]:
    labels = []
    if channel["covers"]:
        labels.append(channel["source"])
        if not channel["counted"]:
            labels.append("not counted")
        if channel["relative_error"]:
            labels.append(human_error(channel["relative_error"]))
    if channel["resolution_s"]:
        labels.append(f"new every {channel['resolution_s'] * 1e3:g} ms")
    if channel["note"]:
        labels.append(channel["note"])
    return labels


def _used(document: Mapping[str, Any]) -> Sequence[str]:
    lines = [f"auto = {' + '.join(document['auto']) or 'none'}"]
    if document["measured"]:
        lines.append(f"measured: {', '.join(document['measured'])}")
        if "estimate" in document["auto"]:
            lines.append("estimated: cpu-package")
    else:
        lines.append(NOTHING if "estimate" in document["auto"] else NOT_EVEN)
    return lines
