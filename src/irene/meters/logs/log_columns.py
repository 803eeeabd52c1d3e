"""Columns of a power log all at once: a million lines in about a second.

Only for logs in which every line is as it should be; for others `whole_columns` gives
up, and `power_log` goes line by line and says which are bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irene.meters.logs.log_lines import ZONE, Layout, clock_of, zone_seconds

__all__ = ["whole_columns"]

LONGEST_TIME = 40


def whole_columns(
    lines: Sequence[str], sample: str, layout: Layout
) -> tuple[Any, Any] | None:
    """Times (ns since 1970, float64) and powers (W), or None if any line is odd.

    Args:
        lines: Lines below the header.
        sample: The first time in them.
        layout: Where things stand.
    """
    if layout.decimal_comma:
        return None
    is_date = ":" in sample
    names = [f"power{number}" for number in range(len(layout.power))]
    kinds = [("time", f"S{LONGEST_TIME}" if is_date else "f8")]
    kinds += [(name, "f8") for name in names]
    try:
        table = np.loadtxt(
            lines,
            dtype=kinds,
            delimiter=layout.separator,
            usecols=(layout.time, *layout.power),
            quotechar='"',
            ndmin=1,
        )
        times = (
            _dates(table["time"], sample)
            if is_date
            else table["time"] * clock_of(sample, layout)("1")
        )
    except (ValueError, IndexError):
        return None
    power = np.prod([table[name] for name in names], axis=0) * layout.power_scale
    good = np.isfinite(times) & (np.abs(times) < 9e18) & (power >= 0) & (power < np.inf)
    return (times, power) if bool(good.all()) else None


def _dates(texts: Any, sample: str) -> Any:
    """Dates that are all written alike.

    Raises:
        ValueError: They are not.
    """
    width = len(sample)
    letters = np.char.strip(texts).astype(f"S{width + 1}").view("S1")
    letters = letters.reshape(len(texts), width + 1)[:, :width]
    zone = ZONE.search(sample)
    end = zone.start() if zone else width
    month_first = sample[2:3] in ("-", "/")
    marks = [2, 5, 10] if month_first else [4, 7, 10]
    same = [*marks, *range(end, width)]
    alike = letters[:, same] == letters[0, same]
    if width <= marks[-1] or not bool(
        alike.all() and (letters[:, end - 1] != b"").all()
    ):
        raise ValueError("dates of different kinds")
    order = [6, 7, 8, 9, 2, 0, 1, 5, 3, 4] if month_first else list(range(10))
    plain = letters[:, order + list(range(10, end))].copy()
    plain[:, [4, 7]], plain[:, 10] = b"-", b"T"
    dates = plain.view(f"S{end}").ravel().astype("datetime64[ns]")
    since = dates.astype(np.int64).astype(float)
    return since - (zone_seconds(zone.group()) if zone else 0) * 1e9
