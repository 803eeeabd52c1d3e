"""Which reader a trace of TensorFlow or JAX wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from irene.account.events import Events
from irene.account.readers.tensorflow.wire import opening
from irene.errors import FormatError

__all__ = ["Format", "has_clock", "read_events", "sniff"]

Format = Literal["xplane", "tf1-timeline"]
LOOKED_AT = 2**16
TIMELINE_MARKS = (b'"Allocators"', b' Compute"')
XPLANE_SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
XPLANE_BEGIN = b"\n"
"""Key of a plane, the first field of every such file."""
UNIX_NS = 10**17


def sniff(path: Path) -> Format | None:
    """What a file is, by its name and its first bytes; None for none of these.

    Args:
        path: The file.

    Raises:
        UsageError: It cannot be opened.
    """
    begin = opening(path, LOOKED_AT)
    if path.name.endswith(XPLANE_SUFFIXES):
        return "xplane"
    if begin.startswith(XPLANE_BEGIN) and (b"/host:" in begin or b"/device:" in begin):
        return "xplane"
    is_json = begin.lstrip()[:1] == b"{"
    if is_json and any(mark in begin for mark in TIMELINE_MARKS):
        return "tf1-timeline"
    return None


def has_clock(events: Events) -> bool:
    """Whether the times of events are since 1970 and not since some begin."""
    return events.span_ns[0] > UNIX_NS


def read_events(path: Path, hlo: Sequence[Path] = ()) -> Events:
    """Events of a trace of TensorFlow or JAX.

    Args:
        path: `*.xplane.pb` or `timeline-N.json`, each also gzipped.
        hlo: Texts of compiled modules, for a trace of JAX that has none itself.

    Raises:
        UsageError: It cannot be opened.
        FormatError: It is of another format, cut off or broken, or has no ops.
    """
    found = sniff(path)
    if found is None:
        raise FormatError(f"{path} is no trace of TensorFlow or JAX")
    if found == "tf1-timeline":
        from irene.account.readers.tensorflow.tf1_timeline import (
            read_events as read_timeline,
        )

        return read_timeline(path)
    events = _xplane_events(path, hlo)
    if not len(events):
        raise FormatError(
            f"{path} has no ops: was a model run while it recorded, and for TensorFlow "
            "with host_tracer_level=2 or above?"
        )
    return events


def _xplane_events(path: Path, hlo: Sequence[Path]) -> Events:
    from irene.account.readers.tensorflow.hlo import HloNames, read_hlo_text
    from irene.account.readers.tensorflow.jax_events import is_jax, jax_events
    from irene.account.readers.tensorflow.tensorflow_events import tensorflow_events
    from irene.account.readers.tensorflow.xplane import read_xspace

    space = read_xspace(path)
    if not is_jax(space):
        return tensorflow_events(space)
    names = HloNames()
    for text in hlo:
        names.add(read_hlo_text(text))
    return jax_events(space, names)
