"""What the BMC of a server says that it draws, through `ipmitool`.

`ipmitool dcmi power reading` gives the power of the whole chassis, about once a second
(DCMI 1.5, Get Power Reading).
"""

from __future__ import annotations

import re
import shutil
import subprocess

from irene.errors import MeterError
from irene.meters.channel import Channel, PolledMeter

COMMAND = ("ipmitool", "dcmi", "power", "reading")
READING = re.compile(r"Instantaneous power reading:\s*(\d+)\s*Watts")
EVERY_S = 1.0
PATIENCE_S = 10.0
UNKNOWN_ERROR = 0.05
NOTE = "the whole chassis; the BMC states no error; 5 % is a guess"
INSTALL = "sudo apt install ipmitool"
REMEDY = "run as root, or: sudo modprobe ipmi_devintf; many BMCs have no DCMI"


def open_ipmi() -> PolledMeter:
    """Ask the BMC once, and go on asking it."""
    if shutil.which(COMMAND[0]) is None:
        raise MeterError("ipmitool is not installed", INSTALL)
    _watts()
    channel = Channel(
        "ipmi:chassis:power",
        "power_w",
        covers="wall",
        resolution_s=EVERY_S,
        relative_error=UNKNOWN_ERROR,
        note=NOTE,
    )
    return PolledMeter("ipmi", [channel], lambda: [_watts()], EVERY_S)


def _watts() -> float:
    try:
        done = subprocess.run(
            COMMAND, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeterError(f"ipmitool does not answer: {error}", REMEDY) from error
    reading = READING.search(done.stdout)
    if reading is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MeterError(
            f"the BMC gives no power: {said[0] if said else 'nothing'}", REMEDY
        )
    return float(reading[1])
