"""`irene doctor`: which meters work here, and what to do about those that do not."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from irene.meters.channel import Channel, Finding, Meter
    from irene.meters.cpu.kernel_files import Roots

__all__ = ["configure", "run"]

EXAMPLES = """\
examples:
  irene doctor
  irene doctor --seconds 5
  irene doctor --json
  irene doctor --sysfs ./copy-of-sys --seconds 0
"""
SCHEMA = "irene.doctor/1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.usage = "irene doctor [options]"
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--seconds", type=_seconds, default=1.0, metavar="S",
        help="length of the live reading; 0 for none (default 1)",
    )  # fmt: skip
    parser.add_argument(
        "--sysfs", metavar="ROOT",
        help="look at this folder instead of /sys",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON document")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"not a number of seconds: {text!r}")
    return value


def run(options: argparse.Namespace) -> int:
    """Look, read for a moment, and print; a machine without meters is no failure."""
    from irene.cli.progress import working
    from irene.meters.cpu.kernel_files import Roots

    roots = Roots(Path(options.sysfs)) if options.sysfs else Roots()
    with working("reading the meters"):
        document = _examine(roots, options.seconds)
    if options.json:
        json.dump(document, sys.stdout, indent=2, allow_nan=False)
        print()
    else:
        from irene.cli.running.doctor_screen import show

        show(document)
    return 0


def _examine(roots: Roots, seconds: float) -> dict[str, Any]:
    """The document that is printed.

    Args:
        roots: Where the kernel shows the machine.
        seconds: Length of the live reading, s; 0 for none.
    """
    from irene.meters.estimate.cpu_estimate import assumptions
    from irene.meters.finding import METERS, choose, findings
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
        "estimate": list(assumptions(roots)),
    }


def _measured(found: Sequence[Finding], used: Sequence[str]) -> list[str]:
    """What the energy that is measured covers."""
    channels = [c for f in found if f.meter in used for c in f.channels]
    covers = [c.covers for c in channels if c.is_energy and c.counted]
    sources = [c.source for c in channels if c.is_energy and c.counted]
    pairs = zip(covers, sources, strict=True)
    return list(dict.fromkeys(name for name, source in pairs if source == "measured"))


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

    meters = [meter for f in found for meter in _opened(METERS[f.meter].open, roots)]
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


def _opened(open_meter: Any, roots: Roots) -> list[Meter]:
    from irene.errors import IreneError

    try:
        return [open_meter(roots)]
    except IreneError:  # it was there a moment ago
        return []


def _values(meter: Meter) -> Sequence[float]:
    from irene.meters.channel import SensorLostError

    try:
        return meter.read()
    except SensorLostError:
        return [math.nan] * len(meter.channels)
