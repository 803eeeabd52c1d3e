"""Local times of a log: from a zone that is named to UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from irene.errors import UsageError

__all__ = ["from_local_ns"]

QUARTER_NS = 900 * 1_000_000_000
"""Offsets of all zones of today change at quarters of an hour."""
FIXED = re.compile(r"([+-])(\d\d):?(\d\d)$")


def from_local_ns(local_ns: Any, zone: str) -> Any:
    """Times since 1970 in UTC, ns, of times that were written as on a clock there.

    Args:
        local_ns: The times, read as if they were UTC, ns.
        zone: `Europe/Berlin`, `+01:00`, `UTC`.

    Raises:
        UsageError: There is no such zone, or a time is in the hour that a clock shows
            twice, or in the one that it leaves out.
    """
    where = _zone(zone)
    local_ns = np.asarray(local_ns, np.float64)
    quarters, place = np.unique(np.floor(local_ns / QUARTER_NS), return_inverse=True)
    offsets_s = np.array([_offset_s(int(quarter), where) for quarter in quarters])
    return local_ns - offsets_s[place] * 1e9


def _zone(name: str) -> tzinfo:
    fixed = FIXED.match(name)
    if fixed:
        length = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return timezone(-length if fixed[1] == "-" else length)
    try:
        return ZoneInfo("UTC" if name == "Z" else name)
    except (OSError, ValueError, ZoneInfoNotFoundError) as error:
        raise UsageError(
            f"no time zone {name!r}: give one as Europe/Berlin or +01:00"
        ) from error


def _offset_s(quarter: int, where: tzinfo) -> float:
    shown = datetime.fromtimestamp(quarter * 900, UTC).replace(tzinfo=where)
    early, late = (shown.replace(fold=fold).utcoffset() for fold in (0, 1))
    assert early is not None
    assert late is not None
    if early != late:
        how = "shown twice" if early > late else "left out"
        raise UsageError(
            f"{shown:%Y-%m-%d %H:%M} is {how} by clocks of {where}: give the offset "
            "that holds, as +01:00"
        )
    return early.total_seconds()
