"""A machine in words: where it is from, its errors, its intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from irene.hardware import Hardware
from irene.human import human_width
from irene.show.terminal import columns
from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from irene.predict.learning.own_data import DataRead

MOST_PATHS = 3


def fleet(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A line per machine: since when, what it covers, how good, what it is.

    Args:
        document: Of `irene hardware --json`.
    """
    heads = ("<machine", "year", "memory", "<covers", "error", "90 % within")
    about = "what it is"
    table = columns(*heads, f"<{about}", goes=(about, "covers", "error"), wide=(about,))
    for fields in document["hardware"]:
        table.add_row(*_fleet_row(fields))
    yield table
    yield (
        "year: its GPU was announced, or it was learned; error: median of whole runs "
        "held out; 90 % within: where it knows most to where it knows least"
    )
    name, why = document["default"]["name"], document["default"]["why"]
    yield plain(f"predictions are for {name} unless --on names another: {why}")


def _fleet_row(fields: Mapping[str, Any]) -> tuple[str, ...]:
    hardware, told = Hardware.from_dict(fields["hardware"]), fields["provenance"]
    sheet = fields.get("datasheet") or {}
    memory = (told.get("surroundings") or {}).get("memory")
    if sheet.get("memory_bytes"):
        memory = f"{sheet['memory_bytes'] / 1e9:.0f} GB"
    elif told.get("memory_bytes"):
        memory = f"{told['memory_bytes'] / 2**30:.0f} GiB"
    about = (sheet.get("description") or hardware.description).partition(";")[0]
    year = hardware.year or str(told.get("date", ""))[:4]
    cells = [year, memory, hardware.covers, _error(told), _within(fields)]
    return (hardware.name, *(cell or "–" for cell in cells), about)


def _error(told: Mapping[str, Any]) -> str:
    """Median error of whole runs that it had not seen."""
    errors = [abs(row["error_percent"]) for row in told.get("exam", ())]
    held_out = told.get("held_out_errors_percent") or {}
    errors += [row["model"] for row in held_out.values() if row.get("model")]
    serving = (told.get("serving") or {}).get("errors") or {}
    errors += [row["median"] for row in serving.values()][:1]
    return f"{median(errors):.1f} %" if errors else ""


def _within(fields: Mapping[str, Any]) -> str:
    """The narrowest and the widest of its intervals for whole runs."""
    serving = fields["provenance"].get("serving") or {}
    by_level = fields.get("widths") or {}
    unserved = serving.get("unserved", 0.0)
    widths = [
        math.hypot(each, unserved)
        for each in (serving.get("energy_widths") or {}).values()
    ]
    if "domain" in fields:
        widths = [by_level[place]["model"] for place in ("inside", "outside")]
    elif not widths and by_level:
        widths = list(by_level["model"][1])
    ends = [min(widths), max(widths)] if widths else []
    told = " to ".join(dict.fromkeys(map(human_width, ends)))
    return told.replace(" % to ± ", " to ")


def machine_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """All that is known of a machine.

    Args:
        fields: Of a machine, as `irene hardware --json` gives them.
    """
    if "datasheet" in fields:
        yield from _gpu_lines(fields)
        return
    if "domain" not in fields:
        hardware = fields["hardware"]
        about = f"{hardware['covers']} energy; {hardware['description']}"
        yield plain(f"{hardware['name']}: {about}")
        yield from learning_lines(fields["provenance"])
        yield from error_lines(fields["provenance"])
        yield plain(interval_line(fields["widths"]))
        return
    told = fields["provenance"]
    yield from origin_lines(fields)
    yield from _domain_lines(fields["domain"])
    yield from error_lines(told)
    yield from width_lines(fields["widths"], told.get("coverage"))


def origin_lines(fields: Mapping[str, Any]) -> Iterator[str]:
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
    """Held-out errors per split and level."""
    errors = told.get("held_out_errors_percent") or {}
    lines = level_table("held out, error in %", errors)
    none = [name for name, row in errors.items() if not any((row or {}).values())]
    if none and len(none) == len(errors):
        lines.append(
            "nothing could be held out, of one model: errors are not known, and "
            "intervals are a factor of e"
        )
    elif none:
        what = " or ".join(none)
        lines.append(f"too few models to hold a {what} out: errors on others not known")
    others = told.get("errors_percent_by_choice") or {}
    if others:
        lines += ["", *level_table("by choice, error in %", others)]
    return lines


def width_lines(widths: Mapping[str, Any], coverage: float | None) -> list[str]:
    """How far the intervals reach above the value, in percent."""
    kind = "guessed" if coverage is None else f"{coverage:.0%}"
    title = f"{kind} interval, + %"
    named = (("within what was measured", "inside"), ("beyond it", "outside"))
    percent = {
        name: {level: 100 * math.expm1(w) for level, w in widths[which].items()}
        for name, which in named
    }
    return level_table(title, percent)


def level_table(
    title: str, rows: Mapping[str, Mapping[str, float | None]]
) -> list[str]:
    """A line per row, a column per level; nothing where there is no row."""
    if not rows:
        return []
    width = max(len(title), *(len(plain(name)) for name in rows))
    levels = list(next(iter(rows.values())))
    lines = [f"{title:{width}}" + "".join(f"  {level:>8}" for level in levels)]
    for name, row in rows.items():
        cells = "".join(f"  {_cell(row[level]):>8}" for level in levels)
        lines.append(f"{plain(name):{width}}{cells}")
    return lines


def _cell(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f}"


def _domain_lines(domain: Mapping[str, Any]) -> Iterator[str]:
    """What a machine was measured on."""
    ranges = {
        "tokens": "tokens",
        "lengths": "sequence length",
        "widths": "width of weights",
    }
    parts = [
        f"{what} {domain[name][0]:,} to {domain[name][1]:,}"
        for name, what in ranges.items()
    ]
    yield plain("; ".join([*parts, domain["dtype"], domain["software"]]))


def unmatched_lines(measured: DataRead) -> Iterator[str]:
    """Models without a config, and nodes that no trace has."""
    for model, why in measured.joiner.unknown.items():
        yield plain(f"not used: {model}: {why}; give its config with --configs")
    for model, paths in measured.unmatched.items():
        some = ", ".join(paths[:MOST_PATHS])
        more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
        yield plain(f"not matched: {model}: {some}{more}")


def _gpu_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """Name, datasheet, and what its kernels were learned from."""
    hardware, sheet = fields["hardware"], fields["datasheet"]
    yield plain(
        f"{hardware['name']}: {hardware['covers']} energy; {sheet['description']}"
    )
    peaks = ", ".join(
        f"{dtype} {peak / 1e12:,.0f}" for dtype, peak in sheet["flops_s"].items()
    )
    yield plain(
        f"{sheet['hbm_bytes_s'] / 1e12:g} TB/s, {peaks} TFLOP/s, "
        f"{sheet['idle_w']:g} to {sheet['tdp_w']:g} W, "
        f"link {sheet['link_bytes_s'] / 1e9:g} GB/s"
    )
    yield from map(plain, kernel_lines(fields["provenance"]))


def kernel_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Where its kernels are from, and their held-out errors."""
    yield from told.get("caveats", ())
    tables = told.get("tables") or {}
    if tables:
        rows = sum(table["rows"] for table in tables.values())
        versions = sorted({v for table in tables.values() for v in table["versions"]})
        yield (
            f"learned from {rows:,} kernels: {told['data']}, "
            f"version {', '.join(versions)}; {told['trees']}"
        )
    times = told.get("time_percent") or {}
    if times:
        yield _row("held out, error in %", "median", "p90", "rows")
    for key, error in times.items():
        yield _error_row(f"time {key}", error)


def _error_row(name: str, error: Mapping[str, Any]) -> str:
    median, p90 = (f"{error[which]:.2f}" for which in ("median_percent", "p90_percent"))
    return _row(name, median, p90, f"{error['rows']:,}")


def _row(name: str, *cells: str) -> str:
    return f"{name:32}" + "".join(f"  {cell:>8}" for cell in cells)


def interval_line(widths: Mapping[str, Any]) -> str:
    """Intervals of a learned machine, of what takes longest and shortest.

    Args:
        widths: By level, times and widths.
    """
    parts = []
    for level, (seconds, each) in widths.items():
        ends = dict.fromkeys((-1, 0)) if len(each) > 1 else {-1: None}
        told = [
            f"{human_width(each[end])} at {1e3 * seconds[end]:.2g} ms" for end in ends
        ]
        parts.append(f"{level} {', '.join(told)}")
    return f"90 % interval of time: {'; '.join(parts)}"


def learning_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """What a machine was learned from, and how well it did."""
    yield plain(
        f"{told['ops']:,} ops timed in {told['measuring_s']:.0f} s under "
        f"{told['meter']}; {told['date']}, torch {told['surroundings']['torch']}"
    )
    for row in told.get("exam", ()):
        run = ", ".join(f"{k} {v}" for k, v in row["run"].items())
        yield plain(
            f"exam: {row['model']} ({run}): {row['predicted_s'] * 1e3:.1f} ms "
            f"predicted, {row['measured_s'] * 1e3:.1f} ms measured "
            f"({row['error_percent']:+.1f} %; rounds differ by "
            f"{100 * row['spread']:.1f} %)"
        )
    yield from map(plain, told.get("caveats", ()))
