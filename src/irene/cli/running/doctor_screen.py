"""What `irene doctor` shows on a terminal, and as plain text where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from irene.show.text import plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show"]

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


def show(document: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the document of `irene doctor`.

    Args:
        document: What `irene doctor --json` would print.
        console: Where to; standard output if None.
    """
    if console is None:
        from rich.console import Console

        console = Console(highlight=False)
    _heading(console, "machine")
    for name, value in document["machine"].items():
        _line(console, f"  {LABELS.get(name, name):{LABEL_WIDTH}}{value}")
    _heading(console, "meters")
    for meter in document["meters"]:
        _show_meter(console, meter)
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
        _line(console, f"      {_channel(channel)}", "cyan" if channel["live"] else "")
    for line in filter(None, meter["remedy"].splitlines()):
        _line(
            console, f"      → {line}" if line[0] != " " else f"      {line}", "yellow"
        )


def _channel(channel: Mapping[str, Any]) -> str:
    facts = [_live(channel["live"]), channel["covers"], *_labels(channel)]
    return f"{channel['name']:22} {', '.join(filter(None, facts))}".rstrip()


def _live(live: Mapping[str, Any] | None) -> str:
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
            labels.append(f"± {100 * channel['relative_error']:.0f} %")
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
