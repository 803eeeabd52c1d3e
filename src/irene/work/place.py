"""Where a task ran: the host, and versions of what is installed there."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

__all__ = ["SOFTWARE", "describe_place"]

SOFTWARE = {"torch": "torch", "transformers": "transformers", "irene": "irene-energy"}
"""What is asked for its version, and the package that has it."""


@cache
def describe_place() -> dict[str, str]:
    """`host`, `python`, and versions; without importing anything."""
    return {
        "host": platform.node() or "unknown",
        "python": platform.python_version(),
        **{name: _version(package) for name, package in SOFTWARE.items()},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
