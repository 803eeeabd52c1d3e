"""Bounds of the memory of a computing process."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["limit_memory"]


def limit_memory(further_bytes: int) -> None:
    """Let this process take no more than so much on top of what it has.

    Where the system has no such limit, nothing happens.

    Args:
        further_bytes: Address space that may still be taken; 0: any.
    """
    try:
        import resource
    except ImportError:  # not a Unix
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    present = _address_space_bytes()
    if present is None or not further_bytes:
        return
    most = present + further_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _address_space_bytes() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    import resource

    return pages * resource.getpagesize()
