"""A data-centre GPU in words: its datasheet, and how well its kernels are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from irene.show.text import plain

__all__ = ["gpu_lines", "kernel_lines"]


def gpu_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """Name, datasheet, and what its kernels were learned from.

    Args:
        fields: `hardware`, `datasheet` and `provenance` of a GPU.
    """
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
    """Where its kernels are from, and their held-out errors.

    Args:
        told: Provenance of a GPU.
    """
    yield from told.get("caveats", ())
    tables = told.get("tables") or {}
    if tables:
        rows = sum(table["rows"] for table in tables.values())
        versions = sorted({v for table in tables.values() for v in table["versions"]})
        yield (
            f"learned from {rows:,} kernels: {told['data']}, "
            f"version {', '.join(versions)}; {told['trees']}"
        )
    if told.get("power_of"):
        yield f"power measured on {told['power_of']}"
    times = told.get("time_percent") or {}
    if times:
        yield _row("held out, error in %", "median", "p90", "rows")
    for key, error in times.items():
        yield _error_row(f"time {key}", error)
    for kind, error in (told.get("energy_percent") or {}).items():
        yield _error_row(f"energy {kind}", error)
    fours = told.get("energy_m_multiple_of_4_percent")
    if fours:
        yield _error_row("energy gemm, m % 4 == 0", fours)


def _error_row(name: str, error: Mapping[str, Any]) -> str:
    median, p90 = (f"{error[which]:.2f}" for which in ("median_percent", "p90_percent"))
    return _row(name, median, p90, f"{error['rows']:,}")


def _row(name: str, *cells: str) -> str:
    return f"{name:32}" + "".join(f"  {cell:>8}" for cell in cells)
