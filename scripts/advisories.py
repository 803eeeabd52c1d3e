"""Known faults of the pins, by the advisories that PyPI has of each version.

An index that answers for the newest version only tells nothing of older ones: those are
listed as not looked at. It ends with 1 where a pin has a known fault.

    python -m scripts.advisories [FILE …]      constraints.txt
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

INDEX = "https://pypi.org/pypi"
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[.*?\])?==([^\s;\\]+)", re.MULTILINE)
TIMEOUT_S = 30


def fetched(path: str) -> dict[str, Any]:
    """What PyPI has of a package or of one version; empty if it does not answer."""
    try:
        with urllib.request.urlopen(f"{INDEX}/{path}/json", timeout=TIMEOUT_S) as found:
            return dict(json.load(found))
    except (OSError, ValueError):
        return {}


def faults(pin: tuple[str, str]) -> list[str] | None:
    """Those of a pinned version; None if they cannot be had."""
    name, version = pin
    document = fetched(f"{name}/{version}") or fetched(name)
    if document.get("info", {}).get("version") != version.partition("+")[0]:
        return None
    return [
        f"{each['id']} (mended in {', '.join(each['fixed_in']) or 'none'})"
        for each in document["vulnerabilities"]
        if not each.get("withdrawn")
    ]


def main(files: list[str]) -> int:
    """Print what is known."""
    texts = [Path(each).read_text() for each in files or ["constraints.txt"]]
    pins = sorted({pin for text in texts for pin in PIN.findall(text)})
    with ThreadPoolExecutor(8) as threads:
        found = dict(zip(pins, threads.map(faults, pins), strict=True))
    for (name, version), known in found.items():
        for each in known or ():
            print(f"{name} {version}: {each}")
    unseen = [" ".join(pin) for pin, known in found.items() if known is None]
    bad = sum(bool(known) for known in found.values())
    seen = len(pins) - len(unseen)
    print(f"{seen} of {len(pins)} pins looked at, {bad} with a known fault")
    if unseen:
        print(f"not looked at: {', '.join(unseen)}")
    return int(bool(bad) or not seen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
