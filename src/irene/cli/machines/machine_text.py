"""A machine in words: where it is from, its errors, its intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from irene.predict.intervals import LEVELS
from irene.show.text import plain

if TYPE_CHECKING:
    from irene.cli.machines.measured import Measured

__all__ = [
    "domain_lines",
    "error_lines",
    "file_line",
    "level_table",
    "machine_lines",
    "unmatched_lines",
    "width_lines",
]

MOST_PATHS = 3


def machine_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """Name, what is covered, and what it was learned from.

    Args:
        fields: `hardware` and `provenance` of a predictor's file.
    """
    hardware, told = fields["hardware"], fields["provenance"]
    about = f"; {hardware['description']}" if hardware["description"] else ""
    yield plain(f"{hardware['name']}: {hardware['covers']} energy{about}")
    source = told.get("calibrated_from")
    if source:
        yield plain(f"calibrated from {source}, choice: {_choice(told)}")
    if told.get("trees"):
        yield plain(
            f"learned from {told.get('data') or 'unnamed data'}: {told['trees']:,} "
            f"trees, {told['measurements']:,} measurements"
        )
        yield plain(f"models: {', '.join(told['models'])}")
    when = [told.get("date"), told.get("software")]
    if any(when):
        yield plain(", ".join(filter(None, when)))
    yield from map(plain, told.get("caveats", ()))


def _choice(told: Mapping[str, Any]) -> str:
    factors = told.get("factors") or {}
    if not factors:
        return str(told["choice"])
    return (
        f"{told['choice']} ({', '.join(f'{k} ×{v:.2f}' for k, v in factors.items())})"
    )


def error_lines(told: Mapping[str, Any]) -> list[str]:
    """Held-out errors per split and level.

    Args:
        told: Provenance of a predictor.
    """
    errors = told.get("held_out_errors_percent") or {}
    lines = level_table("held out, error in %", errors)
    others = told.get("errors_percent_by_choice") or {}
    if others:
        lines += ["", *level_table("by choice, error in %", others)]
    return lines


def width_lines(widths: Mapping[str, Any], coverage: float | None) -> list[str]:
    """How far the intervals reach above the value, in percent."""
    kind = "guessed" if coverage is None else f"{coverage:.0%}"
    title = f"{kind} interval, + %"
    rows = {
        "within what was measured": widths["inside"],
        "beyond it": widths["outside"],
    }
    percent = {
        name: {level: 100 * math.expm1(row[level]) for level in LEVELS}
        for name, row in rows.items()
    }
    return level_table(title, percent)


def level_table(
    title: str, rows: Mapping[str, Mapping[str, float | None]]
) -> list[str]:
    """A line per row, a column per level; nothing where there is no row."""
    if not rows:
        return []
    width = max(len(title), *(len(plain(name)) for name in rows))
    lines = [f"{title:{width}}" + "".join(f"  {level:>8}" for level in LEVELS)]
    for name, row in rows.items():
        cells = "".join(f"  {_cell(row[level]):>8}" for level in LEVELS)
        lines.append(f"{plain(name):{width}}{cells}")
    return lines


def _cell(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f}"


def domain_lines(domain: Mapping[str, Any]) -> Iterator[str]:
    """What a machine was measured on."""
    ranges = {
        "tokens": "tokens",
        "lengths": "sequence length",
        "widths": "width of weights",
    }
    parts = [f"{what} {_range(domain[name])}" for name, what in ranges.items()]
    yield plain("; ".join([*parts, domain["dtype"], domain["software"]]))


def _range(limits: Sequence[int]) -> str:
    return f"{limits[0]:,} to {limits[1]:,}"


def unmatched_lines(measured: Measured) -> Iterator[str]:
    """Models without a config, and nodes that no trace has."""
    for model, why in measured.joiner.unknown.items():
        yield plain(f"not used: {model}: {why}; give its config with --configs")
    for model, paths in measured.unmatched.items():
        some = ", ".join(paths[:MOST_PATHS])
        more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
        yield plain(f"not matched: {model}: {some}{more}")


def file_line(path: str, size_bytes: int, digest: str) -> str:
    """What was written."""
    return f"wrote {path}: {size_bytes:,} bytes, digest {digest[:16]}"
